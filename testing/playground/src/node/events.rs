//! Events of Pods and nodes, as the kubelet records them: a repeated event raises its count, and one that repeats too
//! often is dropped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

use crate::clock::{now, seconds};

/// How many events of one object are recorded in a row, before one is allowed per refill interval.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// Records events.
pub struct Events {
    client: Client,
    recorded: Mutex<HashMap<Key, Recorded>>,
    budget: Mutex<HashMap<String, (f64, Instant)>>,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Information.
    Normal,
    /// A problem.
    Warning,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    field: Option<String>,
    reason: String,
    message: String,
}

struct Recorded {
    name: String,
    count: i32,
}

impl Events {
    /// Records with this client.
    pub fn new(client: Client) -> Self {
        Self { client, recorded: Mutex::default(), budget: Mutex::default() }
    }

    /// Records an event of a Pod or of one of its containers. As on a real node, an event that cannot be written is
    /// lost.
    pub async fn record(&self, pod: &Pod, container: Option<&str>, kind: Kind, reason: &str, message: &str) {
        let Some(uid) = pod.uid() else { return };
        if !self.allowed(&uid) {
            return;
        }
        let inits = || pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let field = container.map(|name| {
            let list = if inits().any(|one| one.name == name) { "initContainers" } else { "containers" };
            format!("spec.{list}{{{name}}}")
        });
        let key = Key { uid, field, reason: reason.to_owned(), message: message.to_owned() };
        let namespace = pod.namespace().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let known = {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            recorded.get_mut(&key).map(|recorded| {
                recorded.count += 1;
                (recorded.name.clone(), recorded.count)
            })
        };
        if let Some((name, count)) = known {
            let patch = json!({"count": count, "lastTimestamp": seconds(now())});
            if api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
                return;
            }
        }
        let event = event(pod, &key, kind);
        let name = event.name_any();
        if let Err(error) = api.create(&PostParams::default(), &event).await {
            tracing::debug!(%error, reason, "cannot write an event");
            return;
        }
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Recorded { name, count: 1 });
    }

    /// Forgets a deleted Pod.
    pub fn forget(&self, uid: &str) {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| key.uid != uid);
        self.budget.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    fn allowed(&self, uid: &str) -> bool {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, at) = budget.entry(uid.to_owned()).or_insert((BURST, Instant::now()));
        *left = (*left + at.elapsed().as_secs_f64() / REFILL.as_secs_f64()).min(BURST);
        *at = Instant::now();
        let allowed = *left >= 1.0;
        if allowed {
            *left -= 1.0;
        }
        allowed
    }
}

fn event(pod: &Pod, key: &Key, kind: Kind) -> Event {
    let at = now();
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    Event {
        metadata: kube::api::ObjectMeta {
            name: Some(format!("{}.{:x}", pod.name_any(), at.as_nanosecond())),
            namespace: pod.namespace(),
            ..Default::default()
        },
        involved_object: ObjectReference { field_path: key.field.clone(), ..pod.object_ref(&()) },
        reason: Some(key.reason.clone()),
        message: Some(key.message.clone()),
        type_: Some(match kind {
            Kind::Normal => "Normal".to_owned(),
            Kind::Warning => "Warning".to_owned(),
        }),
        count: Some(1),
        first_timestamp: Some(seconds(at)),
        last_timestamp: Some(seconds(at)),
        source: Some(EventSource { component: Some("kubelet".to_owned()), host: node.clone() }),
        reporting_component: Some("kubelet".to_owned()),
        reporting_instance: node,
        ..Event::default()
    }
}
