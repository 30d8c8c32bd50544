//! Bad EtcdRestores are refused with a message that says what to do, and the sample passes.

use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, crd};
use serde_json::{Value, json};

use crate::validation::judge;

fn schema() -> Value {
    let version = crd("EtcdRestore").unwrap().spec.versions.remove(0);
    serde_json::to_value(version.schema.unwrap().open_api_v3_schema.unwrap()).unwrap()
}

fn order(patch: &Value) -> Value {
    let mut spec = json!({
        "clusterName": "demo", "clusterID": "8e9e05c52164694d", "snapshot": {"backupRef": {"name": "first"}},
    });
    json_merge(&mut spec, patch);
    json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back"}, "spec": spec,
    })
}

fn json_merge(into: &mut Value, from: &Value) {
    for (field, value) in from.as_object().unwrap() {
        into[field] = value.clone();
    }
}

fn refusals(before: Option<&Value>, patch: &Value) -> Vec<String> {
    judge::refusals(&schema(), before, &order(patch))
}

#[test]
fn a_bad_order_is_refused_and_says_why() {
    let source = json!({"destination": {"s3": {"bucket": "bucket"}}, "key": "k", "sha256": "a".repeat(64)});
    let cases = [
        (json!({"clusterID": "8E9E"}), "clusterID must be status.clusterID of the EtcdCluster"),
        (json!({"clusterID": ""}), "clusterID must be status.clusterID of the EtcdCluster"),
        (json!({"backupBefore": "Sometimes"}), "spec.backupBefore: Unsupported value"),
        (json!({"startingDeadline": "soon"}), "startingDeadline must be a duration"),
        (json!({"snapshot": {}}), "snapshot must have exactly one of backupRef, source and latest"),
        (
            json!({"snapshot": {"backupRef": {"name": "first"}, "source": source}}),
            "snapshot must have exactly one of backupRef, source and latest",
        ),
        (
            json!({"snapshot": {"backupRef": {"name": "first"}, "bumpRevision": 0}}),
            "snapshot.bumpRevision must be above 0",
        ),
        (
            json!({"snapshot": {"backupRef": {"name": "first"}, "notOlderThan": "168h"}}),
            "notOlderThan is a field of bootstrap.restore",
        ),
        (
            json!({"snapshot": {"backupRef": {"name": "first"}, "of": {}}}),
            "snapshot.of: cluster or clusterID must be given",
        ),
        (
            json!({"snapshot": {"backupRef": {"name": "first"}, "of": {"clusterID": "a1", "clusterNamespace": "b"}}}),
            "snapshot.of: clusterNamespace needs cluster",
        ),
    ];
    for (patch, expected) in cases {
        let refused = refusals(None, &patch);
        assert_eq!(refused.len(), 1, "{patch}: {refused:?}");
        assert!(refused[0].contains(expected), "{patch}: {refused:?}");
    }
    assert_eq!(refusals(None, &json!({})), Vec::<String>::new());
    assert_eq!(refusals(None, &json!({"snapshot": {"source": source}})), Vec::<String>::new());
    let of_other = json!({"snapshot": {"backupRef": {"name": "first"}, "of": {"cluster": "other"}}});
    assert_eq!(refusals(None, &of_other), Vec::<String>::new());
}

#[test]
fn an_order_is_immutable() {
    let before = order(&json!({}));
    let refused = refusals(Some(&before), &json!({"clusterID": "91bc3c398fb3c146"}));
    assert!(refused.len() == 1 && refused[0].contains("create another EtcdRestore"), "{refused:?}");
}

#[test]
fn the_sample_is_accepted_and_its_status_survives_the_types() {
    let mut sample: Value =
        serde_yaml_ng::from_str(include_str!("../../../config/samples/etcdrestore.yaml")).unwrap();
    assert_eq!(judge::refusals(&schema(), None, &sample), Vec::<String>::new());
    sample["status"] = json!({
        "phase": "Complete", "oldClusterID": "8e9e05c52164694d", "newClusterID": "91bc3c398fb3c146", "url": "s3://b/k",
        "revision": 1_000_000_007, "quarantinedVolumes": ["demo-0"], "started": "2026-10-03T12:00:00Z",
        "finished": "2026-10-03T12:01:00Z",
        "conditions": [{"type": "Complete", "status": "True", "reason": "RestoredInPlace", "message": "x",
            "lastTransitionTime": "2026-10-03T12:01:00Z"}],
    });
    assert_eq!(judge::refusals(&schema(), None, &sample), Vec::<String>::new());
    let read: EtcdRestore = serde_json::from_value(sample.clone()).unwrap();
    assert_eq!(json!(read)["status"], sample["status"]);
}

#[test]
fn o02_the_backup_that_a_restore_still_needs_is_the_recorded_one_whatever_the_spec_says_now() {
    let source = json!({"destination": {"s3": {"bucket": "bucket"}}, "key": "k", "sha256": "a".repeat(64)});
    for bootstrap in [json!(null), json!({"restore": {"backupRef": {"name": "edited"}}})] {
        let cluster: EtcdCluster = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "demo"},
            "spec": {"size": 1, "version": "3.6.16", "bootstrap": bootstrap},
            "status": {
                "clusterID": "a1", "members": [{"name": "demo-0", "phase": "Voter", "phaseSince": "2026-09-21T00:00:00Z"}],
                "bootstrap": {"attempt": 1, "restore": {"backup": "first", "source": source, "bumpRevision": 1}},
            },
        }))
        .unwrap();
        assert_eq!(cluster.needs().unwrap().backup.as_deref(), Some("first"), "demo-0 may still restore it");
    }
}

#[test]
fn o02_what_a_restore_needs_is_known_by_its_object_too_whoever_names_it_and_from_where() {
    let backup: EtcdBackup = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "nightly", "namespace": "a"},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket", "prefix": "etcd"}}},
        "status": {"attempts": 1, "result": {"key": "k", "storedSha256": "a".repeat(64)}},
    }))
    .unwrap();
    // What the operator has created for the EtcdRestore of namespace `a` has found that object.
    let mut found = backup.clone();
    found.spec.existing = serde_json::from_value(json!({"latest": {"cluster": "demo"}})).unwrap();
    let needs = |namespace: &str, snapshot: serde_json::Value, status: serde_json::Value| {
        let restore: EtcdRestore = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "r", "namespace": namespace, "uid": "u1"},
            "spec": {"clusterName": "demo", "clusterID": "a1", "snapshot": snapshot}, "status": status,
        }))
        .unwrap();
        let stands_for = |at: &str, name: &str| {
            (at == "a" && name == "restored-u1").then(|| found.stands_for().map(str::to_owned)).flatten()
        };
        restore.needs().is_some_and(|needed| needed.is(&backup, stands_for))
    };
    let source = |sha256: &str| json!({"source": {"destination": {"s3": {"bucket": "bucket"}}, "key": "k", "sha256": sha256.repeat(64)}});
    let latest = json!({"latest": {"destination": {"s3": {"bucket": "bucket"}}, "cluster": "demo"}});
    for namespace in ["a", "of-another"] {
        assert!(needs(namespace, source("a"), json!(null)));
        assert!(!needs(namespace, source("b"), json!(null)));
        assert_eq!(
            needs(namespace, latest.clone(), json!(null)),
            namespace == "a",
            "where it is found already"
        );
        let reading = json!({"reading": {"attempt": 1, "sha256": "a".repeat(64)}});
        assert!(needs(namespace, latest.clone(), reading));
        assert!(needs(
            namespace,
            latest.clone(),
            json!({"snapshot": {"sha256": "a".repeat(64), "bytes": 1, "attempt": 1}})
        ));
    }
    let named = json!({"backupRef": {"name": "nightly"}});
    assert!(needs("a", named.clone(), json!(null)));
    assert!(!needs("of-another", named, json!(null)), "that is another EtcdBackup");
}
