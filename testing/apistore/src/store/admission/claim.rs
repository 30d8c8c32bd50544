//! PersistentVolumeClaims are immutable, except that a bound claim may grow if its class allows it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::super::Inner;
use super::set_default;
use crate::cause::Cause;
use crate::errors::ApiError;
use crate::fields::{annotation, items, name, text, time};
use crate::quantity::millis;
use crate::resources::{ObjectKey, ResourceInfo, ResourceKey};

const SIZE: &str = "/spec/resources/requests/storage";

pub(super) fn on_create(inner: &Inner, claim: &mut Value, causes: &mut Vec<Cause>) {
    claim["status"] = json!({"phase": "Pending"});
    set_default(claim, "/spec/volumeMode", json!("Filesystem"));
    if claim["spec"].get("storageClassName").is_none()
        && let Some(class) = default_class(inner)
    {
        claim["spec"]["storageClassName"] = json!(class);
    }
    let mut finalizers = items(claim, "/metadata/finalizers").to_vec();
    let protection = json!("kubernetes.io/pvc-protection");
    if !finalizers.contains(&protection) {
        finalizers.push(protection);
        claim["metadata"]["finalizers"] = json!(finalizers);
    }
    check(claim, causes);
}

pub(super) fn on_update(old: &Value, new: &mut Value, causes: &mut Vec<Cause>) {
    set_default(new, "/spec/volumeMode", json!("Filesystem"));
    check(new, causes);
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            if text(old, "/status/phase") == "Bound" {
                fields.remove("resources");
            }
            // The binder sets both once if they were absent.
            for open in ["volumeName", "storageClassName"] {
                if old["spec"].get(open).is_none() {
                    fields.remove(open);
                }
            }
        }
        spec
    };
    let size = |claim: &Value| claim.pointer(SIZE).and_then(millis).unwrap_or(0);
    let capacity = old.pointer("/status/capacity/storage").and_then(millis).unwrap_or(0);
    if fixed(old) != fixed(new) {
        causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    if size(new) < size(old) && size(new) <= capacity {
        let why = "field can not be less than status.capacity";
        causes.push(Cause::forbidden("spec.resources.requests.storage", why));
    }
}

/// Refuses to expand a claim whose class does not allow expansion.
pub(super) fn may_grow(inner: &Inner, info: &ResourceInfo, old: &Value, new: &Value) -> Result<(), ApiError> {
    let size = |claim: &Value| claim.pointer(SIZE).and_then(millis).unwrap_or(0);
    if size(new) <= size(old) {
        return Ok(());
    }
    let class = ObjectKey::new(classes(), "", text(old, "/spec/storageClassName"));
    if inner.get(&class).is_some_and(|class| class["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    Err(ApiError::forbidden(
        info,
        name(new),
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support \
         resize",
    ))
}

fn check(claim: &Value, causes: &mut Vec<Cause>) {
    let modes = items(claim, "/spec/accessModes");
    if modes.is_empty() {
        causes.push(Cause::required_because("spec.accessModes", "at least 1 access mode is required"));
    }
    let known = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"].map(Value::from);
    for mode in modes.iter().filter(|mode| !known.contains(mode)) {
        causes.push(Cause::unsupported("spec.accessModes", mode, &known));
    }
    match claim.pointer(SIZE) {
        None => causes.push(Cause::required("spec.resources[storage]")),
        Some(size) if millis(size).is_none_or(|size| size <= 0) => {
            causes.push(Cause::invalid("spec.resources[storage]", size, "must be greater than zero"));
        }
        Some(_) => {}
    }
}

/// The newest class that is annotated as the default.
fn default_class(inner: &Inner) -> Option<&str> {
    let marked = |class: &&Arc<Value>| {
        annotation(class, "storageclass.kubernetes.io/is-default-class") == Some("true")
    };
    let classes = inner.objects.get(&classes())?.values();
    let made = |class: &&Arc<Value>| time(class, "/metadata/creationTimestamp");
    classes.filter(marked).max_by_key(made).map(|class| name(class))
}

fn classes() -> ResourceKey {
    ResourceKey::new("storage.k8s.io", "storageclasses")
}
