//! Saves the whole state as one document and restores it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Store, history};
use crate::errors::ApiError;
use crate::fields::{name, namespace};
use crate::resources::{ResourceInfo, ResourceKey, Resources};

/// How far the version jumps on restore, so that no earlier watch finds its version again.
const GAP: u64 = 1000;

/// The document is not a saved state.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A part is missing or malformed.
    #[error("the saved state has no valid field {0:?}")]
    Malformed(&'static str),
    /// A custom resource definition in it cannot be served.
    #[error("the saved state contains a custom resource definition that cannot be served: {0}")]
    Definition(String),
}

impl Store {
    /// The whole state as one document.
    pub fn snapshot(&self) -> Value {
        let inner = self.lock();
        let objects: Vec<Value> = inner
            .objects
            .iter()
            .flat_map(|(resource, objects)| objects.values().map(move |object| (resource, object)))
            .map(|(resource, object)| {
                json!({"group": resource.group, "plural": resource.plural, "object": **object})
            })
            .collect();
        json!({"version": inner.version, "objects": objects, "writes": inner.writes})
    }

    /// Replaces the state with a document of [`Store::snapshot`]. Earlier watches must list again. A document that
    /// cannot be read changes nothing.
    pub fn restore(&self, state: &Value) -> Result<(), RestoreError> {
        self.restore_at(state, |version| version + GAP)
    }

    /// Replaces the state as a restore of Kubernetes' own etcd does whose revisions are not raised: versions go back with the objects, and earlier
    /// watches are silent until their versions are reached again.
    pub fn go_back(&self, state: &Value) -> Result<(), RestoreError> {
        self.restore_at(state, |version| version)
    }

    /// Replaces the objects by those of an earlier version, as [`Store::go_back`] does, and goes on from that version. Kinds that were defined
    /// since are still served. How often names were used is kept, so that no uid is given twice.
    pub fn go_back_to(&self, version: u64) -> Result<(), ApiError> {
        let mut inner = self.lock();
        for change in inner.history.go_back_to(version)? {
            let place = (namespace(&change.object).to_owned(), name(&change.object).to_owned());
            let objects = inner.objects.entry(change.resource).or_default();
            match change.before {
                Some(before) => drop(objects.insert(place, before)),
                None => drop(objects.remove(&place)),
            }
        }
        inner.version = version;
        drop(inner);
        self.version.send_replace(version);
        Ok(())
    }

    fn restore_at(&self, state: &Value, reached: impl FnOnce(u64) -> u64) -> Result<(), RestoreError> {
        let version = state["version"].as_u64().ok_or(RestoreError::Malformed("version"))?;
        let entries = state["objects"].as_array().ok_or(RestoreError::Malformed("objects"))?;
        let mut resources = Resources::builtin();
        let mut objects: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for entry in entries {
            let text = |key: &str| entry[key].as_str().ok_or(RestoreError::Malformed("objects"));
            let resource = ResourceKey::new(text("group")?, text("plural")?);
            let object = entry["object"].clone();
            if resource.plural == "customresourcedefinitions" {
                resources.add(ResourceInfo::from_definition(&object).map_err(RestoreError::Definition)?);
            }
            let key = (namespace(&object).to_owned(), name(&object).to_owned());
            objects.entry(resource).or_default().insert(key, Arc::new(object));
        }
        let reached = reached(version);
        let mut inner = self.lock();
        inner.objects = objects;
        inner.resources = resources;
        inner.writes = serde_json::from_value(state["writes"].clone()).unwrap_or_default();
        inner.version = reached;
        inner.history = history::History::starting_at(reached);
        drop(inner);
        self.version.send_replace(reached);
        Ok(())
    }
}
