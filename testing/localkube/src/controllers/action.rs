//! What a controller wants done, as a value. Whoever applies it has no choices.

use quorate_apistore::ApiError;
use quorate_apistore::fields::{name, namespace, uid};
use quorate_apistore::store::{DeleteOptions, Part, Propagation, Store};
use quorate_apistore::{ObjectKey, ResourceKey};
use serde_json::Value;

use super::view::{Kind, kinds};
use crate::events::{self, Note};

/// One write. Updates carry the resource version that was looked at and are refused when the object has moved on;
/// the next step then decides anew.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make an object.
    Create(ResourceKey, Value),
    /// Write an object's metadata and spec.
    Update(ResourceKey, Value),
    /// Write an object's status.
    UpdateStatus(ResourceKey, Value),
    /// Place a Pod on a node, as the `binding` subresource does.
    Bind {
        /// The Pod as it was looked at.
        pod: Value,
        /// The node's name.
        node: String,
    },
    /// Ask for the deletion of exactly this object.
    Delete {
        /// Where it is.
        key: ObjectKey,
        /// Its uid: a namesake is left alone.
        uid: String,
        /// What becomes of its dependents.
        propagation: Propagation,
    },
    /// Tell what happened, to be read with `kubectl describe`.
    Record(Note),
}

impl Action {
    /// The deletion of an object that was looked at, its dependents to follow.
    pub(super) fn delete(kind: Kind, object: &Value) -> Self {
        Self::delete_as(kind.into(), object, Propagation::Background)
    }

    /// The deletion of an object of any kind that was looked at.
    pub(super) fn delete_as(resource: ResourceKey, object: &Value, propagation: Propagation) -> Self {
        Self::Delete { key: key(resource, object), uid: uid(object).to_owned(), propagation }
    }

    /// Does it. A refusal is no fault: the state has moved on, and the next step looks at it anew.
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
