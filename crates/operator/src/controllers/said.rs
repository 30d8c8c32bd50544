//! What the events about an object say: the kubelet, the controllers of Jobs and of volumes tell in them, and nowhere else, why something does
//! not start. Words decide nothing: they are quoted in messages.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use quorate_model::Instant;
use tokio::time::timeout;

use super::recent::Recent;
use crate::runtime::controller::Runtime;
use crate::runtime::lease::WRITE_DEADLINE;

/// How many events of an object are read at most: the API server merges those that repeat.
const MOST: u32 = 50;

/// The warnings that were read lately, by the uid of the object that they are about.
#[derive(Debug, Default)]
pub(super) struct Said(Recent<Arc<[Warning]>>);

/// A warning about an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Warning {
    /// When it was said last.
    pub(super) at: Option<Instant>,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Said {
    /// The warnings about an object, the last one last.
    pub(super) async fn about(
        &self,
        runtime: &Runtime,
        namespace: &str,
        uid: &str,
    ) -> Result<Arc<[Warning]>, String> {
        let read =
            timeout(WRITE_DEADLINE, self.0.get(uid, async || list(runtime, namespace, uid).await)).await;
        read.map_err(|_| format!("no answer within {WRITE_DEADLINE:?}"))?.map_err(|error| error.to_string())
    }
}

async fn list(runtime: &Runtime, namespace: &str, uid: &str) -> kube::Result<Arc<[Warning]>> {
    let _permit = runtime.readers.acquire().await;
    let events = Api::<Event>::namespaced(runtime.client.clone(), namespace);
    let of_it = ListParams::default().fields(&format!("involvedObject.uid={uid},type=Warning")).limit(MOST);
    Ok(warnings(events.list(&of_it).await?.items, uid).into())
}

/// Who may create events chooses what is in them, so the object is compared as well.
pub(super) fn warnings(events: Vec<Event>, uid: &str) -> Vec<Warning> {
    let of_it = events.into_iter().filter(|event| event.involved_object.uid.as_deref() == Some(uid));
    let warning = |event: Event| {
        let message =
            event.message.as_deref().map(str::trim).filter(|message| !message.is_empty())?.to_owned();
        Some(Warning { at: last_time(&event), reason: event.reason?, message })
    };
    let mut all: Vec<Warning> = of_it.filter_map(warning).collect();
    all.sort_by_key(|warning| warning.at);
    all
}

/// When an event was reported last. Which of the fields has it depends on the API that it was written by.
fn last_time(event: &Event) -> Option<Instant> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let times = [
        series.map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
    ];
    times.into_iter().flatten().max().map(|at| Instant(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(uid: &str, times: &Value) -> Event {
        let mut event = json!({
            "metadata": {}, "involvedObject": {"uid": uid}, "reason": "FailedMount", "message": " no such path\n",
        });
        for (field, time) in times.as_object().unwrap() {
            event[field] = time.clone();
        }
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn the_last_time_of_an_event_is_in_one_of_three_fields() {
        let at = |times: Value| warnings(vec![event("a", &times)], "a").remove(0).at;
        let minute = |minute: u32| format!("2027-01-15T08:{minute:02}:00.000000Z");
        let expected = |minute: i64| Some(Instant(1_800_000_000_000 + minute * 60_000));
        assert_eq!(at(json!({"lastTimestamp": minute(1)})), expected(1));
        assert_eq!(at(json!({"eventTime": minute(2)})), expected(2));
        let series = json!({"count": 2, "lastObservedTime": minute(3)});
        assert_eq!(at(json!({"eventTime": minute(1), "series": series})), expected(3));
        assert_eq!(at(json!({"eventTime": null, "firstTimestamp": minute(1)})), None);
    }

    #[test]
    fn warnings_are_of_the_object_alone_and_the_last_one_is_last() {
        let at = |time: &str| json!({"lastTimestamp": time});
        let events = vec![
            event("a", &at("2027-01-15T08:02:00Z")),
            event("b", &at("2027-01-15T08:03:00Z")),
            event("a", &at("2027-01-15T08:01:00Z")),
        ];
        let all = warnings(events, "a");
        let times: Vec<Option<Instant>> = all.iter().map(|warning| warning.at).collect();
        assert_eq!(times, [Some(Instant(1_800_000_060_000)), Some(Instant(1_800_000_120_000))]);
        assert_eq!((&*all[0].reason, &*all[0].message), ("FailedMount", "no such path"));
    }
}
