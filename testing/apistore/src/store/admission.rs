//! Admission: defaults and checks before an object is stored. Custom resources follow their schema; of the built-in
//! kinds those fields are checked that the operator and kubectl use.

mod claim;
mod custom;
mod job;
mod metadata;
mod names;
mod pod;
mod policy;
mod secret;
mod service;

use serde_json::{Value, json};

use super::{Inner, Part};
use crate::cause::Cause;
use crate::errors::ApiError;
use crate::fields::name;
use crate::resources::ResourceInfo;

pub(super) fn on_create(inner: &Inner, info: &ResourceInfo, object: &mut Value) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    metadata::check(info, object, &mut causes);
    if let Some(schema) = &info.compiled {
        custom::on_create(info, schema, object, &mut causes);
    }
    match (info.group.as_str(), info.plural.as_str()) {
        ("", "pods") => pod::on_create(info, object, &mut causes)?,
        ("", "services") => service::on_create(inner, object, &mut causes),
        ("", "persistentvolumeclaims") => claim::on_create(inner, object, &mut causes),
        ("", "persistentvolumes") => object["status"] = json!({"phase": "Pending"}),
        ("", "namespaces") => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = json!(name(object));
        }
        ("", "secrets") => secret::on_create(object, &mut causes),
        ("", "configmaps") => secret::check_keys(object, &mut causes),
        ("policy", "poddisruptionbudgets") => {
            object["status"] = json!({
                "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
            });
            policy::check_budget(object, &mut causes);
        }
        ("coordination.k8s.io", "leases") => policy::check_lease(object, &mut causes),
        ("batch", "jobs") => job::on_create(object, &mut causes),
        (_, _) => {}
    }
    refuse(info, object, &causes)
}

pub(super) fn on_update(
    inner: &Inner,
    info: &ResourceInfo,
    part: Part,
    old: &Value,
    new: &mut Value,
) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    metadata::check_change(info, old, new, &mut causes);
    if let Some(schema) = &info.compiled {
        custom::on_update(info, schema, part, old, new, &mut causes);
    }
    if part == Part::Main {
        match (info.group.as_str(), info.plural.as_str()) {
            ("", "pods") => pod::on_update(old, new, &mut causes),
            ("", "persistentvolumeclaims") => claim::on_update(old, new, &mut causes),
            ("", "services") => service::on_update(old, new, &mut causes),
            ("", "secrets") => secret::on_update(old, new, &mut causes),
            ("", "configmaps") => {
                secret::check_immutable(old, new, &mut causes);
                secret::check_keys(new, &mut causes);
            }
            ("policy", "poddisruptionbudgets") => policy::check_budget(new, &mut causes),
            ("coordination.k8s.io", "leases") => policy::check_lease(new, &mut causes),
            ("batch", "jobs") => job::on_update(old, new, &mut causes),
            (_, _) => {}
        }
    }
    refuse(info, new, &causes)?;
    match (part, info.plural.as_str()) {
        (Part::Main, "persistentvolumeclaims") => claim::may_grow(inner, info, old, new),
        (Part::Main | Part::Status, _) => Ok(()),
    }
}

fn refuse(info: &ResourceInfo, object: &Value, causes: &[Cause]) -> Result<(), ApiError> {
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(info, name(object), causes)) }
}

/// Sets a field that is absent or null.
fn set_default(object: &mut Value, pointer: &str, default: Value) {
    if object.pointer(pointer).is_some_and(|value| !value.is_null()) {
        return;
    }
    let mut place = object;
    for part in pointer.trim_start_matches('/').split('/') {
        place = &mut place[part];
    }
    *place = default;
}

/// The entries of an optional list.
fn entries_mut<'a>(object: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}
