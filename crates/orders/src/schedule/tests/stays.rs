//! What a person may expect otherwise: what retention leaves in the store, and a backup that may take longer than until the next one.

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

#[test]
fn ready_says_that_a_backup_may_take_longer_than_until_the_next_one() {
    let says = |cron: &str, deadline: &str| {
        let template = json!({"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}, "deadline": deadline});
        let spec = json!({"schedule": cron, "backupTemplate": {"spec": template}});
        let decision = next(&schedule(spec, Value::Null), &[], "2026-11-01T01:00:10Z");
        decision.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap().message.clone()
    };
    let text = says("*/5 * * * *", "1h");
    assert!(text.contains("deadline (1h) is longer than the 300 s between two backups"), "{text}");
    for (cron, deadline) in [("*/5 * * * *", "300s"), ("0 * * * *", "1h"), ("0 2 * * *", "4h")] {
        assert!(!says(cron, deadline).contains("is longer than"), "{cron} {deadline}");
    }
}
