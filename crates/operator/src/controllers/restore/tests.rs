//! What an EtcdRestore reports, in each of its states.

use k8s_openapi::api::batch::v1::Job;
use quorate_api::job::{Answer, Failure, FailureKind, Manifest};
use quorate_api::restore::{EtcdRestoreStatus, RestorePhase};
use quorate_api::{EtcdCluster, EtcdRestore};
use quorate_model::Instant;
use serde_json::{Value, json};

use super::decide::{Decision, Seen, decide};
use super::reading::{NextAct, refused};
use crate::controllers::backup::JobOutcome;

const NOW: Instant = Instant(1_800_000_000_000);

const SHA256: &str = "5555555555555555555555555555555555555555555555555555555555555555";

/// Its snapshot was read.
fn read() -> Value {
    json!({"snapshot": {"sha256": SHA256, "bytes": 4096}})
}

fn decided(status: &Value, of: Option<&EtcdCluster>, jobs: &[(&Job, JobOutcome)], now: Instant) -> Decision {
    decide(Seen { restore: &restore(status), cluster: of, backup: None, jobs, now })
}

fn restore(status: &Value) -> EtcdRestore {
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
        "metadata": {"name": "back", "namespace": "default", "uid": "u1"},
        "spec": {"clusterName": "demo", "clusterID": "a1", "snapshot": {"source": {
            "destination": {"s3": {"bucket": "b"}}, "key": "k", "sha256": SHA256,
        }}},
        "status": status,
    }))
    .unwrap()
}

fn cluster(status: &Value) -> EtcdCluster {
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "demo", "namespace": "default", "uid": "c1"},
        "spec": {"size": 3, "version": "3.6.16"},
        "status": status,
    }))
    .unwrap()
}

fn ordered_by(uid: &str) -> Value {
    json!({"etcdRestore": {"name": "back", "uid": uid}})
}

fn snapshot() -> Value {
    json!({
        "source": {"destination": {"s3": {"bucket": "b"}}, "key": "k", "sha256": "0"},
        "bumpRevision": 1000, "revision": 7,
    })
}

/// The phase and the reason.
#[track_caller]
fn reports(status: &Value, of: Option<&Value>, phase: RestorePhase, reason: &str) -> String {
    let cluster = of.map(cluster);
    let status = decided(status, cluster.as_ref(), &[], NOW).status;
    assert_eq!(status.phase, Some(phase));
    let is_true: Vec<_> = status.conditions.iter().filter(|condition| condition.status == "True").collect();
    assert_eq!(is_true.len(), 1, "{is_true:?}");
    assert_eq!((is_true[0].type_.as_str(), is_true[0].reason.as_str()), (phase.as_str(), reason));
    is_true[0].message.clone()
}

#[test]
fn an_order_waits_for_its_cluster_and_reports_why_that_has_not_begun_it() {
    use RestorePhase::Pending;
    reports(&json!({}), None, Pending, "ClusterNotFound");
    reports(&json!({}), Some(&json!({})), Pending, "OrderPending");
    let text = reports(&json!({}), Some(&json!({"clusterID": "a1"})), Pending, "OrderPending");
    assert!(text.contains("is read from beginning to end"), "{text}");
    reports(&read(), Some(&json!({"clusterID": "a1"})), Pending, "OrderPending");
    let refused = json!({"clusterID": "a1", "waitingOrder": {
        "orderedBy": ordered_by("u1"), "reason": "RestoreRefused", "message": "too large",
    }});
    assert_eq!(reports(&read(), Some(&refused), Pending, "RestoreRefused"), "too large");
}

#[test]
fn an_order_that_names_another_cluster_id_has_failed_and_says_which_one_there_is() {
    let other = json!({"clusterID": "b2"});
    let text = reports(&json!({}), Some(&other), RestorePhase::Failed, "ClusterIDMismatch");
    assert!(text.contains("clusterID b2"), "{text}");
    // Another order has replaced it, and its new members have no id yet.
    let replaced = json!({"incarnation": {
        "number": 1, "firstOrdinal": 3, "orderedBy": ordered_by("u2"), "replacedClusterID": "a1",
    }});
    reports(&json!({}), Some(&replaced), RestorePhase::Failed, "ClusterIDMismatch");
}

#[test]
fn an_order_runs_from_its_record_until_the_new_members_serve() {
    let stopping = json!({"clusterID": "a1", "replacing": {
        "orderedBy": ordered_by("u1"), "clusterID": "a1", "restore": snapshot(), "since": "2026-11-24T00:00:00.000000Z",
    }});
    reports(&json!({}), Some(&stopping), RestorePhase::Running, "RestoringInPlace");
    let present = json!({
        "number": 1, "firstOrdinal": 3, "orderedBy": ordered_by("u1"), "replacedClusterID": "a1",
    });
    let begins = json!({
        "incarnation": present, "bootstrap": {"attempt": 2, "restore": snapshot()},
        "conditions": [{"type": "Bootstrapped", "status": "False", "reason": "RestoreFailed", "message": "no store",
            "lastTransitionTime": "2026-11-24T00:00:00Z"}],
    });
    assert_eq!(reports(&json!({}), Some(&begins), RestorePhase::Running, "RestoreFailed"), "no store");
    let mut serves = begins;
    serves["clusterID"] = json!("b2");
    reports(&json!({}), Some(&serves), RestorePhase::Running, "RestoringInPlace");
    serves["conditions"] = json!([{"type": "Available", "status": "True", "reason": "Available", "message": "",
        "lastTransitionTime": "2026-11-24T00:00:00Z"}]);
    serves["quarantinedVolumes"] = json!([{"name": "demo-0"}, {"name": "demo-4"}]);
    reports(&json!({}), Some(&serves), RestorePhase::Complete, "RestoredInPlace");
    let Decision { status, event, .. } =
        decided(&json!({"phase": "Running"}), Some(&cluster(&serves)), &[], NOW);
    assert_eq!(status.old_cluster_id.as_deref(), Some("a1"));
    assert_eq!(status.new_cluster_id.as_deref(), Some("b2"));
    assert_eq!(status.revision, Some(1007));
    assert_eq!(status.quarantined_volumes, ["demo-0"], "demo-4 is of the new members");
    assert!(status.finished.is_some() && event.is_some());
}

#[test]
fn what_has_ended_stays_as_it_is_whatever_becomes_of_the_cluster() {
    let complete = json!({"phase": "Complete", "newClusterID": "b2"});
    let Decision { status, event, .. } =
        decided(&complete, Some(&cluster(&json!({"clusterID": "c3"}))), &[], NOW);
    assert_eq!(status.phase, Some(RestorePhase::Complete));
    assert_eq!(event, None);
    let failed = decided(&json!({"phase": "Running"}), None, &[], NOW);
    assert_eq!(failed.status.phase, Some(RestorePhase::Failed), "its cluster was deleted");
}

fn job(name: &str) -> Job {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
}

/// The status after a pass, as the API server keeps it.
fn kept(status: &EtcdRestoreStatus) -> Value {
    json!(status)
}

#[test]
fn the_snapshot_is_read_before_the_order_is_taken_up_and_what_cannot_be_read_is_tried_again() {
    let present = cluster(&json!({"clusterID": "a1"}));
    let begun = decided(&json!({}), Some(&present), &[], NOW);
    let NextAct::Read { attempt: 1, order } = &begun.then else { panic!("{:?}", begun.then) };
    assert_eq!((order.source.key.as_str(), order.source.sha256.as_deref()), ("k", Some(SHA256)));
    let recorded = kept(&begun.status);
    let again = decided(&recorded, Some(&present), &[], NOW);
    assert_eq!((&again.then, again.event), (&begun.then, None), "a crash before the Job was created");
    let first = job("read-backup-u1-1");
    let runs = [(&first, JobOutcome::Running(Some("Pod p is not scheduled".to_owned())))];
    let waits = decided(&recorded, Some(&present), &runs, NOW);
    assert_eq!(waits.then, NextAct::Wait);
    assert!(kept(&waits.status).to_string().contains("Pod p is not scheduled"));

    let gone = Answer::Failed(Failure::new(FailureKind::NotInStore, "it does not exist"));
    let ended = decided(&recorded, Some(&present), &[(&first, JobOutcome::Answered(gone))], NOW);
    assert_eq!(ended.then, NextAct::DeleteJob("read-backup-u1-1".to_owned()));
    let (is_warning, why) = ended.event.expect("it is news");
    assert!(is_warning && why.reason().as_str() == "NotInStore", "{why:?}");
    let failed = kept(&ended.status);
    assert_eq!(decided(&failed, Some(&present), &[], Instant(NOW.0 + 59_000)).then, NextAct::Wait);
    let later = Instant(NOW.0 + 60_000);
    let second = decided(&failed, Some(&present), &[], later);
    assert!(matches!(second.then, NextAct::Read { attempt: 2, .. }), "{:?}", second.then);
    assert_eq!(second.event, None, "the cause is the same as far as anybody knows");

    let (two, recorded) = (job("read-backup-u1-2"), kept(&second.status));
    let whole = JobOutcome::Answered(Answer::Read(Manifest { snapshot_bytes: 4096, ..Manifest::default() }));
    let done = decided(&recorded, Some(&present), &[(&two, whole)], later);
    assert_eq!(done.then, NextAct::DeleteJob("read-backup-u1-2".to_owned()));
    assert_eq!((done.status.snapshot.as_ref().unwrap().bytes, &done.status.reading), (4096, &None));
    assert_eq!(decided(&kept(&done.status), Some(&present), &[], later).then, NextAct::Wait);
}

#[test]
fn a_job_that_the_api_server_refuses_is_a_try_that_failed() {
    let mut status = decided(&json!({}), Some(&cluster(&json!({"clusterID": "a1"}))), &[], NOW).status;
    refused(&mut status, "exceeded quota", NOW);
    let waits = decided(&kept(&status), Some(&cluster(&json!({"clusterID": "a1"}))), &[], NOW);
    assert_eq!(waits.then, NextAct::Wait);
    assert!(kept(&waits.status).to_string().contains("exceeded quota"));
}
