//! Events about Pods and nodes, as the kubelet writes them: a repeated one counts up, and one that repeats too often is
//! dropped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

use crate::clock::{now, seconds};

/// How many events about one object are written in a row, and how long one more takes to be allowed.
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// Writes events.
pub struct Events {
    client: Client,
    told: Mutex<HashMap<Key, Told>>,
    budget: Mutex<HashMap<String, (f64, Instant)>>,
}

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// As it should be.
    Normal,
    /// Not as it should be.
    Warning,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    field: Option<String>,
    reason: String,
    message: String,
}

struct Told {
    name: String,
    count: i32,
}

impl Events {
    /// Writes through this client.
    pub fn new(client: Client) -> Self {
        Self { client, told: Mutex::default(), budget: Mutex::default() }
    }

    /// Tells of a Pod, or of one of its containers. An event that cannot be written is lost, as on a real node.
    pub async fn tell(&self, pod: &Pod, container: Option<&str>, kind: Kind, reason: &str, message: &str) {
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
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.get_mut(&key).map(|told| {
                told.count += 1;
                (told.name.clone(), told.count)
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
            tracing::debug!(%error, reason, "an event was not written");
            return;
        }
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Told { name, count: 1 });
    }

    /// Forgets a Pod that is gone.
    pub fn forget(&self, uid: &str) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| key.uid != uid);
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
