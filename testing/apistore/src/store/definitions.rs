//! Custom resource definitions: creating one serves a kind, deleting it deletes the objects of the kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::deletion::{self, DeleteOptions};
use super::{Inner, metadata};
use crate::cause::Cause;
use crate::errors::ApiError;
use crate::fields::{deleting, drop_finalizer, items, name, namespace, set_condition};
use crate::resources::{ObjectKey, ResourceInfo, ResourceKey};

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Inner {
    /// Serves the kind of a definition.
    pub(super) fn define(
        &mut self,
        info: &ResourceInfo,
        definition: &mut Value,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let defined = ResourceInfo::from_definition(definition).map_err(|why| {
            let (field, message) = why.split_once(": ").unwrap_or(("spec", &why));
            let cause =
                Cause { field: field.to_owned(), reason: "FieldValueInvalid", message: message.to_owned() };
            ApiError::invalid(info, name(definition), &[cause])
        })?;
        if definition["spec"].get("conversion").is_none() {
            definition["spec"]["conversion"] = json!({"strategy": "None"});
        }
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": metadata::seconds(now),
            })
        };
        if definition.pointer("/status/conditions").is_none() {
            definition["status"] = json!({ "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ]});
        }
        definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
        definition["status"]["storedVersions"] = json!([defined.version]);
        self.resources.add(defined);
        Ok(())
    }

    /// Stops serving the kind of a definition.
    pub(super) fn undefine(&mut self, definition: &Value) {
        if let Ok(info) = ResourceInfo::from_definition(definition) {
            self.resources.remove(&info.key());
        }
    }

    /// Deletes every object of a kind whose definition is being deleted.
    pub(super) fn clear_out(&mut self, definition: &Value, now: Timestamp) {
        let Ok(info) = ResourceInfo::from_definition(definition) else { return };
        let key = ObjectKey::new(
            ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions"),
            "",
            name(definition),
        );
        let mut going = definition.clone();
        let why = "CustomResource deletion is in progress";
        if set_condition(&mut going, "Terminating", "True", "InstanceDeletionInProgress", why, now) {
            self.put(&key, going);
        }
        let objects = self.objects.get(&info.key()).into_iter().flat_map(BTreeMap::values);
        let staying: Vec<Arc<Value>> = objects.filter(|object| !deleting(object)).cloned().collect();
        for object in staying {
            let key = ObjectKey::new(info.key(), namespace(&object), name(&object));
            let mut marked = Value::clone(&object);
            deletion::mark(&info, &mut marked, &DeleteOptions::default(), now);
            if deletion::is_done(&info, &marked) {
                self.take(&key, Value::clone(&object));
            } else {
                self.put(&key, marked);
            }
        }
    }

    /// Removes a definition that is being deleted once no object of its kind is left.
    pub(super) fn release(&mut self, key: &ObjectKey) -> Option<Value> {
        let last = self.shared(key).filter(|definition| deleting(definition)).cloned()?;
        let mut definition = Value::clone(&last);
        let info = ResourceInfo::from_definition(&definition).ok()?;
        if self.objects.get(&info.key()).is_some_and(|objects| !objects.is_empty()) {
            return None;
        }
        drop_finalizer(&mut definition, CLEANUP);
        if !items(&definition, "/metadata/finalizers").is_empty() {
            self.put(key, definition);
            return None;
        }
        self.undefine(&definition);
        Some(self.take(key, Value::clone(&last)))
    }
}
