//! A backup and a defragmentation of one member wait for each other.

use std::collections::BTreeSet;

use quorate_model::ClusterRef;

use super::*;
use crate::backup::running;

fn demo() -> ClusterRef {
    ClusterRef::new("default", "demo")
}

fn counts(backup: &EtcdBackup) -> bool {
    running(&demo(), [backup], &[&user("billing", "demo"), &user("other", "other")], NOW)
        == BTreeSet::from(["b".to_owned()])
}

#[test]
fn o08_what_reads_a_snapshot_of_a_cluster_is_what_runs_and_names_it_or_its_endpoints() {
    let of = |spec: Value| backup(spec, json!({}), running_now());
    assert!(counts(&of(json!({}))));
    let endpoints = |url: &str| of(json!({"source": {"endpoints": {"urls": [url]}}}));
    assert!(counts(&endpoints("https://demo-client.default.svc:2379")));
    assert!(counts(&endpoints("https://demo-1.demo.default.svc:2379")));
    assert!(!counts(&endpoints("https://other-client.default.svc:2379")));
    let with = |secret: &str| {
        let endpoints = json!({"urls": ["https://etcd.example.com:2379"], "tlsSecret": {"name": secret}});
        of(json!({"source": {"endpoints": endpoints}}))
    };
    assert!(counts(&with("billing-etcd")));
    assert!(!counts(&with("other-etcd")));
    assert!(!counts(&of(json!({"source": {"cluster": "other"}}))));
    let elsewhere = backup(json!({}), json!({"namespace": "other"}), running_now());
    assert!(!counts(&elsewhere));
}

#[test]
fn o08_a_backup_that_does_not_run_or_cannot_read_any_more_holds_no_defragmentation_up() {
    let with = |change: Value| {
        let mut status = running_now();
        json_merge(&mut status, change);
        backup(json!({"deadline": "10m"}), json!({}), status)
    };
    assert!(counts(&with(json!({}))));
    for phase in ["Pending", "Complete", "Failed", "Deleting"] {
        assert!(!counts(&with(json!({ "phase": phase }))), "{phase}");
    }
    assert!(counts(&with(json!({"notStartedSince": at(-299)}))), "its Pod may start in a moment");
    assert!(!counts(&with(json!({"notStartedSince": at(-301)}))), "it has no Pod that reads");
    assert!(counts(&with(json!({"started": at(-599)}))));
    assert!(!counts(&with(json!({"started": at(-600)}))), "its Job has ended, whatever status says");
}

#[test]
fn o08_a_backup_begins_after_the_defragmentation_of_a_member_and_waits_for_no_record_that_stays() {
    let defragmenting = |seconds: i64| {
        let mut cluster = cluster(true, json!({}));
        let ordered = json!({"member": "demo-2", "podUid": "p2", "restarts": 0, "since": at(-seconds)});
        cluster.status.as_mut().unwrap().defragmenting = Some(serde_json::from_value(ordered).unwrap());
        cluster
    };
    let begun = |cluster: &EtcdCluster, spec: Value| {
        let backup = backup(spec, json!({}), Value::Null);
        decide(Seen { cluster: Some(cluster), ..Seen::only(&backup, NOW) })
    };
    let waits = begun(&defragmenting(300), json!({}));
    let (state, reason, message) = holds(&waits);
    assert_eq!((&*state, &*reason, &waits.act), ("Pending", "Defragmenting", &Act::Wait(None)));
    assert!(message.starts_with("demo-2 of EtcdCluster demo is being defragmented"), "{message}");
    assert_eq!((waits.status.attempts, waits.status.started), (0, None), "its deadline does not begin");
    let is_begun = |decision: &Decision| matches!(decision.act, Act::Backup { .. });
    assert!(is_begun(&begun(&defragmenting(301), json!({}))), "the cluster is paused, or being deleted");
    assert!(is_begun(&begun(&defragmenting(-1), json!({}))), "the clock was set back");
    let saves = json!({"withoutQuorum": true});
    assert!(is_begun(&begun(&defragmenting(1), saves)), "it saves what one member has");
}

/// The operator does not see yet the Job that it created a moment ago. It may read the snapshot.
#[test]
fn o08_an_attempt_that_is_recorded_goes_on_beside_a_defragmentation() {
    let mut cluster = cluster(true, json!({}));
    let ordered = json!({"member": "demo-2", "podUid": "p2", "restarts": 0, "since": at(-1)});
    cluster.status.as_mut().unwrap().defragmenting = Some(serde_json::from_value(ordered).unwrap());
    let backup = backup(json!({}), json!({}), running_now());
    let decision = decide(Seen { cluster: Some(&cluster), ..Seen::only(&backup, NOW) });
    assert!(matches!(decision.act, Act::Backup { .. }), "{decision:?}");
    assert_eq!((decision.status.attempts, decision.status.next_attempt), (1, None), "it has not failed");
}

fn running_now() -> Value {
    super::running()
}
