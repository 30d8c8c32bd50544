//! Kubernetes events. Each distinct message is one Event object, whose count grows when the message is repeated. They are
//! sent beside the passes: no pass waits for an event.

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

/// The component that reports the events.
const COMPONENT: &str = "quorate";

/// The same message about the same object is repeated after this time at the earliest.
const REPEAT: Duration = Duration::from_mins(5);

/// How many events may wait to be sent. Further ones are dropped.
const QUEUE: usize = 1024;

/// The longest message that Kubernetes accepts, in bytes.
const MAX_MESSAGE: usize = 1024;

/// An event to be published.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The object that it is about.
    pub about: ObjectReference,
    /// Whether its type is Warning.
    pub warning: bool,
    /// What happened, and what is done about it.
    pub what: Explanation,
    /// When it happened.
    pub at: Instant,
}

/// The queue of events.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<Notice>,
    metrics: Metrics,
}

/// Sends what is in the queue.
pub struct Publisher {
    queue: mpsc::Receiver<Notice>,
    client: kube::Client,
    leadership: Leadership,
    metrics: Metrics,
}

/// The events of one object that were published lately.
#[derive(Debug, Default)]
pub struct Reported(HashMap<Explanation, tokio::time::Instant>);

/// A queue and its publisher.
pub fn events(client: kube::Client, leadership: Leadership, metrics: Metrics) -> (Events, Publisher) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let publisher = Publisher { queue: receiver, client, leadership, metrics: metrics.clone() };
    (Events { queue: sender, metrics }, publisher)
}

impl Events {
    /// Publishes an event, unless it was published lately or the queue is full.
    pub fn publish(&self, reported: &mut Reported, notice: Notice) {
        if reported.is_news(&notice) && self.queue.try_send(notice).is_err() {
            self.metrics.event("dropped");
        }
    }
}

impl Reported {
    fn is_news(&mut self, notice: &Notice) -> bool {
        let now = tokio::time::Instant::now();
        self.0.retain(|_, at| now.duration_since(*at) < REPEAT);
        self.0.insert(notice.what.clone(), now).is_none()
    }
}

impl Publisher {
    /// Sends until the queue is closed.
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
                Err(_) => "timed_out",
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
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE - 3));
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

    /// The same for the same event, so that a new operator counts it up too.
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
    async fn the_same_event_is_not_repeated_for_a_while() {
        let mut reported = Reported::default();
        assert!(reported.is_news(&notice("demo-0")));
        assert!(!reported.is_news(&notice("demo-0")));
        assert!(reported.is_news(&notice("demo-1")));
        tokio::time::advance(REPEAT).await;
        assert!(reported.is_news(&notice("demo-0")));
    }

    #[test]
    fn a_message_that_is_too_long_is_truncated_between_characters() {
        let message = notice(&"ü".repeat(2000)).event().message.unwrap();
        assert!(message.len() <= MAX_MESSAGE && message.ends_with("ü..."));
    }

    #[test]
    fn the_same_event_has_the_same_name() {
        assert_eq!(notice("a").name(), notice("a").name());
        assert_ne!(notice("a").name(), notice("b").name());
    }
}
