//! Whether an object matches its desired form, and the patch to that form.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_model::ObservedObject;
use serde::Serialize;
use serde_json::{Value, json};

/// Whether every desired field has its desired value. Other fields, such as those that Kubernetes fills in, are free.
pub(crate) fn matches(seen: &impl Serialize, desired: &Value) -> bool {
    serde_json::to_value(seen).is_ok_and(|seen| contains(&seen, desired))
}

/// The merge patch from an observed object to its desired form. The API server refuses it if the object has changed.
pub(crate) fn merge_patch(seen: &ObjectMeta, desired: &Value) -> Value {
    let mut patch = json!({
        "metadata": {
            "uid": seen.uid,
            "resourceVersion": seen.resource_version,
            "labels": desired["metadata"]["labels"],
            "ownerReferences": desired["metadata"]["ownerReferences"],
        },
    });
    patch["spec"] = desired["spec"].clone();
    patch
}

/// An object as it was observed.
pub(crate) fn observed(meta: &ObjectMeta) -> ObservedObject {
    let (uid, version) = (meta.uid.clone(), meta.resource_version.clone());
    ObservedObject::new(uid.unwrap_or_default(), version.unwrap_or_default())
}

/// The metadata of a patch that the API server refuses if the object is another one, or has changed since it was observed.
pub(crate) fn precondition(observed: &ObservedObject) -> Value {
    json!({ "uid": observed.uid.as_str(), "resourceVersion": observed.resource_version })
}

fn contains(seen: &Value, desired: &Value) -> bool {
    match (seen, desired) {
        (Value::Object(seen), Value::Object(desired)) => {
            desired.iter().all(|(key, desired)| seen.get(key).is_some_and(|seen| contains(seen, desired)))
        }
        (Value::Array(seen), Value::Array(desired)) => {
            seen.len() == desired.len()
                && seen.iter().zip(desired).all(|(seen, desired)| contains(seen, desired))
        }
        (seen, desired) => seen == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_kubernetes_fills_in_are_free_and_desired_ones_are_not() {
        let desired = json!({"spec": {"ports": [{"port": 1}], "type": "ClusterIP"}});
        let filled =
            json!({"spec": {"ports": [{"port": 1, "protocol": "TCP"}], "type": "ClusterIP", "ip": "x"}});
        assert!(matches(&filled, &desired));
        let another_port = json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "type": "ClusterIP"}});
        assert!(!matches(&another_port, &desired));
        assert!(!matches(&json!({"spec": {"type": "ClusterIP"}}), &desired));
    }
}
