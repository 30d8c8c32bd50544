//! Kubernetes events. Each distinct message is one Event object, whose count grows when the message is repeated. They are
//! sent beside the passes: no pass waits for an event. Several are sent at a time, each of another object, so that an object whose events are
//! slow does not delay those of others.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use quorate_api::Explanation;
use quorate_model::Instant;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::runtime::clock::timestamp;
use crate::runtime::lease::{Leadership, WRITE_DEADLINE};
use crate::runtime::metrics::Metrics;

/// The component that reports the events.
const COMPONENT: &str = "quorate";

/// The same message about the same object is repeated after this time at the earliest.
const REPEAT: Duration = Duration::from_mins(5);

/// How many events of one object may wait to be sent. The oldest one is dropped for a further one.
const QUEUE: usize = 16;

/// How many events are sent at a time. Those of one object are sent one after the other.
const SENDERS: usize = 8;

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

/// The queues of events, one for each object that they are about.
#[derive(Clone, Debug)]
pub struct Events {
    waiting: Arc<Waiting>,
    metrics: Metrics,
}

/// Sends what is in the queues.
pub struct Publisher {
    waiting: Arc<Waiting>,
    client: kube::Client,
    leadership: Leadership,
    metrics: Metrics,
}

/// What waits to be sent.
#[derive(Debug)]
struct Waiting {
    queues: Mutex<Queues>,
    /// A permit for each object whose turn a sender may take.
    turns: Semaphore,
}

#[derive(Debug, Default)]
struct Queues {
    /// By the object that they are about. An object is in here while it waits for its turn, and while a sender has its turn.
    by_object: HashMap<About, VecDeque<Notice>>,
    /// The objects in the order of their turns: each one sends one event, and goes to the end.
    turns: VecDeque<About>,
}

/// The object that an event is about.
type About = (Option<String>, Option<String>, Option<String>);

/// The events of one object that were published lately.
#[derive(Debug, Default)]
pub struct Reported(HashMap<Explanation, tokio::time::Instant>);

/// The queues and their publisher.
pub fn events(client: kube::Client, leadership: Leadership, metrics: Metrics) -> (Events, Publisher) {
    let waiting = Arc::new(Waiting { queues: Mutex::default(), turns: Semaphore::new(0) });
    let publisher = Publisher { waiting: waiting.clone(), client, leadership, metrics: metrics.clone() };
    (Events { waiting, metrics }, publisher)
}

impl Events {
    /// Publishes an event, unless it was published lately. It takes the place of the oldest one of its object where too many wait.
    pub fn publish(&self, reported: &mut Reported, notice: Notice) {
        if reported.is_news(&notice) && self.waiting.push(notice).is_some() {
            self.metrics.event("dropped");
        }
    }
}

impl Waiting {
    /// Returns the event that is dropped for it.
    fn push(&self, notice: Notice) -> Option<Notice> {
        let about = notice.object();
        let mut queues = self.queues();
        if let Some(queue) = queues.by_object.get_mut(&about) {
            let oldest = if queue.len() >= QUEUE { queue.pop_front() } else { None };
            queue.push_back(notice);
            return oldest;
        }
        queues.by_object.insert(about.clone(), VecDeque::from([notice]));
        self.give_turn(&mut queues, about);
        None
    }

    /// Waits for the turn of an object: no other sender sends an event of it until [`Waiting::end_turn`].
    async fn turn(&self) -> Option<(About, Notice)> {
        // The semaphore is never closed.
        self.turns.acquire().await.ok()?.forget();
        let mut queues = self.queues();
        let about = queues.turns.pop_front()?;
        let notice = queues.by_object.get_mut(&about)?.pop_front()?;
        Some((about, notice))
    }

    fn end_turn(&self, about: About) {
        let mut queues = self.queues();
        if queues.by_object.get(&about).is_some_and(|queue| !queue.is_empty()) {
            self.give_turn(&mut queues, about);
        } else {
            queues.by_object.remove(&about);
        }
    }

    fn give_turn(&self, queues: &mut Queues, about: About) {
        queues.turns.push_back(about);
        self.turns.add_permits(1);
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Sends until it is dropped.
    pub async fn run(self) {
        join_all((0..SENDERS).map(|_| self.send())).await;
    }

    async fn send(&self) {
        while let Some((about, notice)) = self.waiting.turn().await {
            self.send_one(&notice).await;
            self.waiting.end_turn(about);
        }
    }

    async fn send_one(&self, notice: &Notice) {
        if !self.leadership.may_act() {
            self.metrics.dropped_write();
            return;
        }
        let outcome = match tokio::time::timeout(WRITE_DEADLINE, self.publish(notice)).await {
            Ok(Ok(())) => "ok",
            Ok(Err(error)) => {
                tracing::warn!(reason = %notice.what.reason(), %error, "event not published");
                "failed"
            }
            Err(_) => "timed_out",
        };
        self.metrics.event(outcome);
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
    fn object(&self) -> About {
        let ObjectReference { kind, namespace, name, .. } = &self.about;
        (kind.clone(), namespace.clone(), name.clone())
    }

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

    /// Queues whose publisher runs, with an API server that answers no event of `slow-*`, and the names of the events that it answered.
    fn published() -> (Events, Arc<Mutex<Vec<String>>>, tokio::task::JoinHandle<()>) {
        let answered = Arc::new(Mutex::new(Vec::new()));
        let log = answered.clone();
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let log = log.clone();
            async move {
                if request.uri().path().contains("/slow") {
                    std::future::pending::<()>().await;
                }
                let body = request.into_body().collect_bytes().await?;
                let event: Event = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
                log.lock().unwrap().push(event.message.unwrap_or_default());
                Ok::<_, kube::Error>(http::Response::new(kube::client::Body::from(body.to_vec())))
            }
        });
        let metrics = Metrics::new(&mut prometheus_client::registry::Registry::default());
        let client = kube::Client::new(server, "default");
        let (events, publisher) = events(client, Leadership::endless(), metrics);
        (events, answered, tokio::spawn(publisher.run()))
    }

    fn about(namespace: &str, name: &str, message: &str) -> Notice {
        let mut notice = notice(message);
        notice.about.namespace = Some(namespace.to_owned());
        notice.about.name = Some(name.to_owned());
        notice
    }

    #[tokio::test(start_paused = true)]
    async fn n20_objects_whose_events_hang_do_not_delay_those_of_others_by_more_than_a_turn() {
        let (events, answered, publisher) = published();
        for object in 0..40 {
            let mut reported = Reported::default();
            for message in 0..QUEUE {
                events.publish(&mut reported, about(&format!("slow{object}"), "demo", &message.to_string()));
            }
        }
        events.publish(&mut Reported::default(), about("well", "demo", "of the well"));
        let turns = 40_u32.div_ceil(u32::try_from(SENDERS).unwrap());
        tokio::time::sleep(WRITE_DEADLINE * turns + Duration::from_millis(1)).await;
        assert_eq!(*answered.lock().unwrap(), ["of the well"]);
        publisher.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn n20_the_oldest_events_of_an_object_are_dropped_and_those_that_stay_are_sent_in_order() {
        let (events, answered, publisher) = published();
        let mut reported = Reported::default();
        let messages: Vec<String> = (0..QUEUE + 3).map(|message| message.to_string()).collect();
        for message in &messages {
            events.publish(&mut reported, about("well", "demo", message));
        }
        events.publish(&mut Reported::default(), about("well", "other", "of the other"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answered = answered.lock().unwrap().clone();
        let (other, own): (Vec<_>, Vec<_>) = answered.into_iter().partition(|one| one == "of the other");
        assert_eq!(own, messages[3..]);
        assert_eq!(other.len(), 1, "the queue of one object takes no place of another's");
        publisher.abort();
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
