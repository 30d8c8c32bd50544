//! What retention leaves in the store.

use serde_json::{Value, json};

use super::{next, schedule};

#[test]
fn ready_says_what_retention_leaves() {
    let says = |retention: Value, policy: &str| {
        let spec = json!({"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}, "deletionPolicy": policy});
        let spec = json!({"retention": retention, "backupTemplate": {"spec": spec}});
        let decision = next(&schedule(spec, Value::Null), &[], "2026-11-01T01:00:10Z");
        let ready = decision.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True");
        ready.message.clone()
    };
    let plain = says(json!({"keepLast": 3}), "Delete");
    assert_eq!(says(Value::Null, "Retain"), plain);
    let stay = says(json!({"keepLast": 3}), "Retain");
    assert!(stay.starts_with(&plain) && stay.contains("their objects stay in the store"), "{stay}");
    for policy in ["Retain", "Delete"] {
        let none = says(json!({}), policy);
        assert!(none.contains("spec.retention has no rule"), "{none}");
    }
}
