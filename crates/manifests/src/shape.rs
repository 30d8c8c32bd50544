//! Whether an object stands as wanted, and the patch that brings it there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

/// Whether everything that is wanted is there as wanted. What is not mentioned, such as what Kubernetes fills in, is free.
pub(crate) fn stands(seen: &impl Serialize, wanted: &Value) -> bool {
    serde_json::to_value(seen).is_ok_and(|seen| holds(&seen, wanted))
}

/// A merge patch that brings an object of ours, as it was seen, to its wanted form. It fails if the object has changed.
pub(crate) fn towards(seen: &ObjectMeta, wanted: &Value) -> Value {
    let mut patch = json!({
        "metadata": {
            "uid": seen.uid,
            "resourceVersion": seen.resource_version,
            "labels": wanted["metadata"]["labels"],
            "ownerReferences": wanted["metadata"]["ownerReferences"],
        },
    });
    patch["spec"] = wanted["spec"].clone();
    patch
}

fn holds(seen: &Value, wanted: &Value) -> bool {
    match (seen, wanted) {
        (Value::Object(seen), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| seen.get(key).is_some_and(|seen| holds(seen, wanted)))
        }
        (Value::Array(seen), Value::Array(wanted)) => {
            seen.len() == wanted.len() && seen.iter().zip(wanted).all(|(seen, wanted)| holds(seen, wanted))
        }
        (seen, wanted) => seen == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_fills_in_is_free_and_what_we_want_is_not() {
        let wanted = json!({"spec": {"ports": [{"port": 1}], "type": "ClusterIP"}});
        let filled =
            json!({"spec": {"ports": [{"port": 1, "protocol": "TCP"}], "type": "ClusterIP", "ip": "x"}});
        assert!(stands(&filled, &wanted));
        let another_port = json!({"spec": {"ports": [{"port": 1}, {"port": 2}], "type": "ClusterIP"}});
        assert!(!stands(&another_port, &wanted));
        assert!(!stands(&json!({"spec": {"type": "ClusterIP"}}), &wanted));
    }
}
