//! The writes of controllers, as values. Applying one involves no decision.

use quorate_apistore::ApiError;
use quorate_apistore::fields::{name, namespace, uid};
use quorate_apistore::store::{DeleteOptions, Part, Propagation, Store};
use quorate_apistore::{ObjectKey, ResourceKey};
use serde_json::Value;

use super::view::{Kind, kinds};
use crate::events::{self, Note};

/// One write. An update carries the resourceVersion that the controller read and is refused if the object has changed;
/// the next step then decides again.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create an object.
    Create(ResourceKey, Value),
    /// Replace an object's metadata and spec.
    Update(ResourceKey, Value),
    /// Replace an object's status.
    UpdateStatus(ResourceKey, Value),
    /// Bind a Pod to a node, as the `binding` subresource does.
    Bind {
        /// The Pod as the controller read it.
        pod: Value,
        /// The node's name.
        node: String,
    },
    /// Delete exactly this object.
    Delete {
        /// Its key.
        key: ObjectKey,
        /// Its uid: another object of this name is not deleted.
        uid: String,
        /// What happens to its dependents.
        propagation: Propagation,
    },
    /// Record an event.
    Record(Note),
}

impl Action {
    /// Deletes an object; the garbage collector deletes its dependents afterwards.
    pub(super) fn delete(kind: Kind, object: &Value) -> Self {
        Self::delete_as(kind.into(), object, Propagation::Background)
    }

    /// Deletes an object of any kind.
    pub(super) fn delete_as(resource: ResourceKey, object: &Value, propagation: Propagation) -> Self {
        Self::Delete { key: key(resource, object), uid: uid(object).to_owned(), propagation }
    }

    /// Applies the write. A refusal is no error: the object has changed, and the next step reads it again.
    pub fn apply(self, store: &Store) -> Result<(), ApiError> {
        match self {
            Self::Create(resource, object) => {
                let namespace = namespace(&object).to_owned();
                store.create(&resource, &namespace, object, false).map(drop)
            }
            Self::Update(resource, object) => {
                let key = key(resource, &object);
                store.update(&key, Part::Main, object, false).map(drop)
            }
            Self::UpdateStatus(resource, object) => {
                let key = key(resource, &object);
                store.update(&key, Part::Status, object, false).map(drop)
            }
            Self::Bind { pod, node } => store.bind(&key(kinds::PODS.into(), &pod), &node),
            Self::Delete { key, uid, propagation } => {
                let options = DeleteOptions { uid: Some(uid), propagation, ..DeleteOptions::default() };
                store.delete(&key, &options).map(drop)
            }
            Self::Record(note) => events::record(store, &note),
        }
    }
}

fn key(resource: ResourceKey, object: &Value) -> ObjectKey {
    ObjectKey::new(resource, namespace(object), name(object))
}
