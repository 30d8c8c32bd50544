//! Kubernetes events on the EtcdCluster. One event object for each distinct thing to say, counted up when it is said
//! again. They are sent beside the passes: nobody waits for an event.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use quorate_api::Explanation;
use quorate_model::Instant;
use serde_json::json;
use tokio::sync::mpsc;

use crate::runtime::clock::timestamp;
use crate::runtime::lease::{Leadership, WRITE_DEADLINE};
use crate::runtime::metrics::Metrics;

/// Who tells.
const COMPONENT: &str = "quorate";

/// The same thing about the same cluster is not said more often than this.
const AGAIN: Duration = Duration::from_mins(5);

/// How many may wait to be sent before further ones are dropped.
const QUEUE: usize = 1024;

/// The longest message that Kubernetes takes.
const LONGEST: usize = 1024;

/// Something to tell about a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The EtcdCluster.
    pub about: ObjectReference,
    /// It is not as it should be.
    pub warning: bool,
    /// What happened and what is done about it.
    pub what: Explanation,
    /// When.
    pub at: Instant,
}

/// Where notices are put.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Notice>,
    metrics: Metrics,
}

/// Sends what was put there.
pub struct Publisher {
    queue: mpsc::Receiver<Notice>,
    client: kube::Client,
    leadership: Leadership,
    metrics: Metrics,
}

/// What one cluster was told lately, so that it is not told again.
#[derive(Debug, Default)]
pub struct Reported(HashMap<Explanation, tokio::time::Instant>);

/// A place for notices and its publisher.
pub fn events(client: kube::Client, leadership: Leadership, metrics: Metrics) -> (Events, Publisher) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let publisher = Publisher { queue: receiver, client, leadership, metrics: metrics.clone() };
    (Events { queue: sender, metrics }, publisher)
}

impl Events {
    /// Tells, unless it was said lately or too much waits to be told.
    pub fn tell(&self, said: &mut Reported, notice: Notice) {
        if said.is_news(&notice) && self.queue.try_send(notice).is_err() {
            self.metrics.event("dropped");
        }
    }
}

impl Reported {
    fn is_news(&mut self, notice: &Notice) -> bool {
        let now = tokio::time::Instant::now();
        self.0.retain(|_, at| now.duration_since(*at) < AGAIN);
        self.0.insert(notice.what.clone(), now).is_none()
    }
}

impl Publisher {
    /// Sends until nobody is left to tell anything.
    pub async fn run(mut self) {
        while let Some(notice) = self.queue.recv().await {
            if !self.leadership.may_act() {
                self.metrics.dropped_write();
                continue;
            }
            let outcome = match tokio::time::timeout(WRITE_DEADLINE, self.publish(&notice)).await {
                Ok(Ok(())) => "ok",
                Ok(Err(error)) => {
                    tracing::warn!(reason = %notice.what.reason(), %error, "event not published");
                    "failed"
                }
                Err(_) => "late",
            };
            self.metrics.event(outcome);
        }
    }

    async fn publish(&self, notice: &Notice) -> kube::Result<()> {
        let event = notice.event();
        let api: Api<Event> =
            Api::namespaced(self.client.clone(), notice.about.namespace.as_deref().unwrap_or("default"));
        match api.create(&PostParams::default(), &event).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            created => return created.map(drop),
        }
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let count = api.get_opt(name).await?.and_then(|event| event.count).unwrap_or(1);
        let again = json!({"count": count.saturating_add(1), "lastTimestamp": Time(timestamp(notice.at))});
        api.patch(name, &PatchParams::default(), &Patch::Merge(again)).await.map(drop)
    }
}

impl Notice {
    fn event(&self) -> Event {
        let at = Some(Time(timestamp(self.at)));
        let mut message = self.what.message().to_owned();
        if message.len() > LONGEST {
            message.truncate(message.floor_char_boundary(LONGEST - 3));
            message.push_str("...");
        }
        Event {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: self.about.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: self.about.clone(),
            type_: Some(if self.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(self.what.reason().to_string()),
            message: Some(message),
            count: Some(1),
            first_timestamp: at.clone(),
            last_timestamp: at,
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
            reporting_component: Some(COMPONENT.to_owned()),
            ..Event::default()
        }
    }

    /// The same for the same thing said, whichever operator says it.
    fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        (&self.about.uid, self.what.reason().as_str(), self.what.message(), self.warning).hash(&mut hasher);
        format!("{}.{:016x}", self.about.name.as_deref().unwrap_or(COMPONENT), hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use quorate_api::Reason;

    use super::*;

    fn notice(message: &str) -> Notice {
        let about = ObjectReference { name: Some("demo".to_owned()), ..ObjectReference::default() };
        Notice {
            about,
            warning: true,
            what: Explanation::new(Reason::MemberUnhealthy, message),
            at: Instant(0),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_is_not_said_again_for_a_while_but_something_else_is() {
        let mut said = Reported::default();
        assert!(said.is_news(&notice("demo-0")));
        assert!(!said.is_news(&notice("demo-0")));
        assert!(said.is_news(&notice("demo-1")));
        tokio::time::advance(AGAIN).await;
        assert!(said.is_news(&notice("demo-0")));
    }

    #[test]
    fn a_message_that_is_too_long_is_cut_between_characters() {
        let message = notice(&"ü".repeat(2000)).event().message.unwrap();
        assert!(message.len() <= LONGEST && message.ends_with("ü..."));
    }

    #[test]
    fn the_same_thing_said_is_the_same_event_object() {
        assert_eq!(notice("a").name(), notice("a").name());
        assert_ne!(notice("a").name(), notice("b").name());
    }
}
