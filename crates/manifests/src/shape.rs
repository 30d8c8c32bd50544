//! Whether an object stands as desired, and the patch that brings it there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

/// Whether everything that is desired is there as desired. What is not mentioned, such as what Kubernetes fills in, is free.
pub(crate) fn stands(seen: &impl Serialize, desired: &Value) -> bool {
    serde_json::to_value(seen).is_ok_and(|seen| holds(&seen, desired))
}

/// A merge patch that brings an object of ours, as it was seen, to its desired form. It fails if the object has changed.
pub(crate) fn towards(seen: &ObjectMeta, desired: &Value) -> Value {
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

fn holds(seen: &Value, desired: &Value) -> bool {
    match (seen, desired) {
        (Value::Object(seen), Value::Object(desired)) => {
            desired.iter().all(|(key, desired)| seen.get(key).is_some_and(|seen| holds(seen, desired)))
        }
        (Value::Array(seen), Value::Array(desired)) => {
            seen.len() == desired.len()
                && seen.iter().zip(desired).all(|(seen, desired)| holds(seen, desired))
        }
        (seen, desired) => seen == desired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_fills_in_is_free_and_what_we_want_is_not() {
        let desired = json!({"spec": {"ports": [{"port": 1}], "type": "ClusterIP"}});
        let filled =
            json!({"spec": {"ports": [{"port": 1, "protocol": "TCP"}], "type": "ClusterIP", "ip": "x"}});
        assert!(stands(&filled, &desired));
        let another_port = json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "type": "ClusterIP"}});
        assert!(!stands(&another_port, &desired));
        assert!(!stands(&json!({"spec": {"type": "ClusterIP"}}), &desired));
    }
}
