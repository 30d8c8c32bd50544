//! What a node says of why a Pod does not start, or is not ready: the words of its last warning event. Of a volume that cannot be mounted or an
//! image that cannot be pulled the status of the Pod says nothing, or not why. Words decide nothing: they are quoted in messages.

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use quorate_model::Uid;
use tokio::time::timeout;

use crate::controllers::cluster::Shared;
use crate::runtime::lease::WRITE_DEADLINE;

/// How many events of a Pod are read at most: the API server merges those that repeat.
const MOST: u32 = 50;

/// How much of a message is quoted, in characters.
const QUOTED: usize = 400;

/// The reasons of the kubelet and of the attach controller that say why a Pod does not start, or is not ready.
const REASONS: [&str; 7] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "NetworkNotReady",
    "Failed",
    "Unhealthy",
];

/// The last words about a Pod.
pub(super) async fn read(shared: &Shared, namespace: &str, pod: &Uid) -> Result<Option<String>, String> {
    let said = &shared.sites.said;
    let read = said.get(pod.as_str(), async || ask(shared, namespace, pod).await);
    let read = timeout(WRITE_DEADLINE, read).await;
    read.map_err(|_| format!("no answer within {WRITE_DEADLINE:?}"))?.map_err(|error| error.to_string())
}

async fn ask(shared: &Shared, namespace: &str, pod: &Uid) -> kube::Result<Option<String>> {
    let _permit = shared.runtime.readers.acquire().await;
    let events = Api::<Event>::namespaced(shared.runtime.client.clone(), namespace);
    let of_it = ListParams::default().fields(&format!("involvedObject.uid={pod},type=Warning")).limit(MOST);
    Ok(last(&events.list(&of_it).await?.items, pod))
}

/// Who may create events chooses what is in them, so the object is compared as well.
fn last(events: &[Event], pod: &Uid) -> Option<String> {
    let of_it = events.iter().filter(|event| event.involved_object.uid.as_deref() == Some(pod.as_str()));
    let telling = of_it.filter_map(|event| {
        let reason = event.reason.as_deref().filter(|reason| REASONS.contains(reason))?;
        let message = event.message.as_deref().map(str::trim).filter(|message| !message.is_empty())?;
        // "Error: ImagePullBackOff" says less than the failed pull before it.
        let is_told = reason != "Failed" || message.starts_with("Failed to pull");
        is_told.then_some((event.last_timestamp.as_ref().map(|time| time.0), reason, message))
    });
    let (_, reason, message) = telling.max_by_key(|(at, ..)| *at)?;
    let quoted: String = without_numbers(message).chars().take(QUOTED).collect();
    Some(format!("{reason}: {quoted}"))
}

/// A probe says for how many seconds it got no answer. Status would change with each of them.
fn without_numbers(message: &str) -> String {
    match message.split_once("no answer for ") {
        Some((before, _)) => format!("{before}no answer"),
        None => message.replace(['\n', '\r'], " "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(uid: &str, reason: &str, at: &str, message: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {"kind": "Pod", "uid": uid}, "reason": reason, "message": message, "lastTimestamp": at,
        }))
        .unwrap()
    }

    #[test]
    fn the_last_words_of_the_node_are_quoted() {
        let pod = Uid::new("a");
        let events = [
            event(
                "a",
                "FailedMount",
                "2026-11-27T06:00:00Z",
                "MountVolume.SetUp failed for volume \"pvc-1\": earlier",
            ),
            event(
                "a",
                "FailedMount",
                "2026-11-27T06:01:00Z",
                "MountVolume.SetUp failed: path \"/data/1\" does not exist",
            ),
            event("a", "BackOff", "2026-11-27T06:02:00Z", "Back-off restarting failed container"),
            event("a", "Failed", "2026-11-27T06:02:00Z", "Error: ImagePullBackOff"),
            event("b", "FailedMount", "2026-11-27T06:03:00Z", "of another Pod"),
        ];
        assert_eq!(
            last(&events, &pod).as_deref(),
            Some("FailedMount: MountVolume.SetUp failed: path \"/data/1\" does not exist")
        );
        assert_eq!(last(&events[2..], &pod), None);
        let hung = event(
            "a",
            "Unhealthy",
            "2026-11-27T06:04:00Z",
            "Readiness probe failed: hung: no answer for 35 s",
        );
        assert_eq!(
            last(&[hung], &pod).as_deref(),
            Some("Unhealthy: Readiness probe failed: hung: no answer")
        );
    }
}
