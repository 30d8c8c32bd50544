//! The whole state as one document, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Store, history};
use crate::fields::{name, namespace};
use crate::resources::{ResourceInfo, ResourceKey, Resources};

/// How far versions jump, so that no watch of before finds its version among the new ones.
const GAP: u64 = 1000;

/// The state is not one of ours.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A part is missing or of another form.
    #[error("the saved state has no proper {0:?}")]
    Malformed(&'static str),
    /// A custom resource definition in it can not be served.
    #[error("the saved state holds a definition that can not be served: {0}")]
    Definition(String),
}

impl Store {
    /// The whole state, to be kept in a file.
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

    /// Puts a state back that [`Store::snapshot`] gave, in place of what is here. Watches of before are told to list
    /// again. A state that can not be read changes nothing.
    pub fn restore(&self, state: &Value) -> Result<(), RestoreError> {
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
        let reached = version + GAP;
        let mut inner = self.lock();
        inner.objects = objects;
        inner.resources = resources;
        inner.writes = serde_json::from_value(state["writes"].clone()).unwrap_or_default();
        inner.version = reached;
        inner.history = history::History::beginning_at(reached);
        drop(inner);
        self.version.send_replace(reached);
        Ok(())
    }
}
