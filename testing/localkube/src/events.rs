//! Events, recorded as the real recorder does: a repeated event raises the count and the last time of the one that
//! exists.

use jiff::{SignedDuration, Timestamp};
use quorate_apistore::ApiError;
use quorate_apistore::fields::{integer, name, namespace, seconds, text, time, uid};
use quorate_apistore::store::{Part, Store};
use quorate_apistore::{ObjectKey, ResourceKey};
use serde_json::{Value, json};

use crate::fingerprint::fingerprint;

/// How long the API keeps an event after its last occurrence.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);

/// An event before it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// The object it is about, or a reference to it with `apiVersion`, `kind` and `metadata`.
    pub about: Value,
    /// A field of the object such as `spec.containers{etcd}`, or empty.
    pub field: String,
    /// Whether it is a warning.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// The reporting component, `kubelet`.
    pub component: String,
    /// The node of the component, or empty.
    pub host: String,
}

impl Note {
    /// An event of type Normal.
    pub fn normal(about: &Value, reason: &str, message: impl Into<String>, component: &str) -> Self {
        let [reason, component] = [reason, component].map(str::to_owned);
        let (field, host) = (String::new(), String::new());
        Self { about: about.clone(), field, warning: false, reason, message: message.into(), component, host }
    }

    /// An event of type Warning.
    pub fn warning(about: &Value, reason: &str, message: impl Into<String>, component: &str) -> Self {
        Self { warning: true, ..Self::normal(about, reason, message, component) }
    }

    /// Sets the field of the object: `spec.containers{etcd}`.
    #[must_use]
    pub fn field(self, field: impl Into<String>) -> Self {
        Self { field: field.into(), ..self }
    }

    /// Sets the node of the component.
    #[must_use]
    pub fn host(self, host: impl Into<String>) -> Self {
        Self { host: host.into(), ..self }
    }

    /// The key of the event. Its name is a hash of everything that makes two notes equal, so that the second
    /// occurrence finds the first; it has the format of the real recorder's names.
    pub fn key(&self) -> ObjectKey {
        let same = [
            uid(&self.about),
            &self.field,
            self.kind(),
            &self.reason,
            &self.message,
            &self.component,
            &self.host,
        ];
        let name = format!("{}.{:016x}", name(&self.about), fingerprint(&same));
        // Events of cluster-scoped objects are in `default`.
        let namespace =
            Some(namespace(&self.about)).filter(|namespace| !namespace.is_empty()).unwrap_or("default");
        ObjectKey::new(ResourceKey::new("", "events"), namespace, name)
    }

    fn kind(&self) -> &'static str {
        if self.warning { "Warning" } else { "Normal" }
    }

    fn event(&self, now: Timestamp) -> Value {
        let key = self.key();
        let mut about = json!({
            "apiVersion": text(&self.about, "/apiVersion"),
            "kind": text(&self.about, "/kind"),
            "name": name(&self.about),
            "uid": uid(&self.about),
            "resourceVersion": text(&self.about, "/metadata/resourceVersion"),
        });
        for (field, value) in [("namespace", namespace(&self.about)), ("fieldPath", &self.field)] {
            if !value.is_empty() {
                about[field] = json!(value);
            }
        }
        let mut source = json!({ "component": self.component });
        if !self.host.is_empty() {
            source["host"] = json!(self.host);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": key.name, "namespace": key.namespace },
            "involvedObject": about,
            "type": self.kind(),
            "reason": self.reason,
            "message": self.message,
            "source": source,
            "reportingComponent": self.component,
            "reportingInstance": self.host,
            "firstTimestamp": seconds(now),
            "lastTimestamp": seconds(now),
            "count": 1,
            "eventTime": null,
        })
    }
}

/// Records a note: creates an event, or raises the count of the existing one.
pub fn record(store: &Store, note: &Note) -> Result<(), ApiError> {
    let key = note.key();
    let now = store.now();
    if store.get(&key).is_none() {
        return store.create(&key.resource, &key.namespace, note.event(now), false).map(drop);
    }
    let again = |event: &Value| {
        let mut event = event.clone();
        event["count"] = json!(integer(&event, "/count").unwrap_or(1) + 1);
        event["lastTimestamp"] = json!(seconds(now));
        Ok(event)
    };
    store.modify(&key, Part::Main, false, again).map(drop)
}

/// Whether an event has expired.
pub(crate) fn is_over(event: &Value, now: Timestamp) -> bool {
    let last = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"]
        .iter()
        .find_map(|pointer| time(event, pointer));
    last.is_some_and(|last| now.duration_since(last) > KEPT_FOR)
}
