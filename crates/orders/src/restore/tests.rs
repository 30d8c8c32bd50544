//! What an EtcdRestore reports, in each of its states.

mod before;

use k8s_openapi::api::batch::v1::Job;
use quorate_api::job::{Answer, Failure, FailureKind, Manifest, Origin};
use quorate_api::restore::{EtcdRestoreStatus, RestorePhase};
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore};
use quorate_manifests::restored;
use quorate_model::Instant;
use serde_json::{Value, json};

use super::decide::{Decision, Seen, decide};
use super::reading::{NextAct, refused};
use crate::outcome::JobOutcome;

const NOW: Instant = Instant(1_800_000_000_000);

const SHA256: &str = "5555555555555555555555555555555555555555555555555555555555555555";

/// Its snapshot was read.
fn read() -> Value {
    json!({"snapshot": {"sha256": SHA256, "bytes": 4096, "time": "2027-01-15T08:00:00Z", "attempt": 1}})
}

fn decided(status: &Value, of: Option<&EtcdCluster>, jobs: &[(&Job, JobOutcome)], now: Instant) -> Decision {
    let restore = restore(status);
    let found = found(&restore, of);
    decide(Seen { restore: &restore, cluster: of, backup: Some(&found), backups: &[], jobs, now })
}

/// The EtcdBackup that stands for the snapshot of an order, and has found it.
fn found(restore: &EtcdRestore, cluster: Option<&EtcdCluster>) -> EtcdBackup {
    let mut made = restored::for_restore(restore, cluster).unwrap();
    let result = json!({"key": "k", "storedSha256": SHA256});
    made.status =
        Some(serde_json::from_value(json!({"phase": "Complete", "attempts": 1, "result": result})).unwrap());
    made
}

fn restore(status: &Value) -> EtcdRestore {
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore",
        "metadata": {"name": "back", "namespace": "default", "uid": "u1", "creationTimestamp": "2027-01-15T08:00:00Z"},
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
    let sums_up = |type_: &str| type_ == "Ready" || type_ == "Stalled";
    let is_true = status.conditions.iter().filter(|one| one.status == "True" && !sums_up(&one.type_));
    let is_true: Vec<_> = is_true.collect();
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
    let refused = json!({"clusterID": "a1", "waitingOrders": [{
        "orderedBy": ordered_by("u1"), "reason": "RestoreRefused", "message": "too large",
    }]});
    assert_eq!(reports(&read(), Some(&refused), Pending, "RestoreRefused"), "too large");
}

#[test]
fn o02_an_order_tells_the_age_of_its_snapshot_if_that_is_a_day_or_more() {
    let id = json!({"clusterID": "a1"});
    let told = |taken: &str| {
        let mut status = read();
        status["snapshot"]["taken"] = json!(taken);
        reports(&status, Some(&id), RestorePhase::Pending, "OrderPending")
    };
    let text = told("2026-10-15T07:00:00Z");
    let age = "takes it up with its next look at it. The snapshot is of 2026-10-15T07:00:00Z, 92 days before this EtcdRestore was created: what was \
               written since is not in it";
    assert!(text.ends_with(age), "{text}");
    assert!(told("2027-01-14T07:00:00Z").contains("a day before"));
    for young in ["2027-01-14T09:00:00Z", "2027-02-01T00:00:00Z"] {
        assert!(!told(young).contains("The snapshot is of"), "{young}");
    }
    // Before it was read, the EtcdBackup tells; and once it is carried out, too.
    let backup: EtcdBackup = serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup", "metadata": {"name": "b"},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "b"}}},
        "status": {"attempts": 1, "result": {"started": "2027-01-10T08:00:00Z"}},
    }))
    .unwrap();
    let serves = cluster(&json!({
        "clusterID": "b2", "bootstrap": {"attempt": 2, "restore": snapshot()},
        "incarnation": {"number": 1, "firstOrdinal": 3, "orderedBy": ordered_by("u1"), "replacedClusterID": "a1"},
        "conditions": [{"type": "Available", "status": "True", "reason": "Available", "message": "",
            "lastTransitionTime": "2026-11-24T00:00:00Z"}],
    }));
    let order = restore(&json!({"phase": "Running"}));
    let seen = Seen {
        restore: &order,
        cluster: Some(&serves),
        backup: Some(&backup),
        backups: &[],
        jobs: &[],
        now: NOW,
    };
    let (_, why) = decide(seen).event.unwrap();
    assert!(
        why.message().contains("its cluster ID is b2. The snapshot is of 2027-01-10T08:00:00Z, 5 days"),
        "{why:?}"
    );
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

/// What an order comes to whose snapshot was read, with this manifest, and the EtcdBackup that it orders first.
fn of_data(of: &Value, manifest: Manifest) -> (EtcdRestoreStatus, NextAct) {
    let mut order = restore(&json!({}));
    order.spec.snapshot.of = serde_json::from_value(of.clone()).unwrap();
    let waits = json!([{"orderedBy": ordered_by("u1"), "reason": "RestoreBackupFirst", "message": "a backup comes first"}]);
    let present = cluster(&json!({"clusterID": "a1", "waitingOrders": waits}));
    let decided = |order: &EtcdRestore, jobs: &[(&Job, JobOutcome)]| {
        let found = found(order, Some(&present));
        decide(Seen {
            restore: order,
            cluster: Some(&present),
            backup: Some(&found),
            backups: &[],
            jobs,
            now: NOW,
        })
    };
    order.status = Some(decided(&order, &[]).status);
    let manifest = Manifest { snapshot_bytes: 4096, ..manifest };
    let read = JobOutcome::Answered(Answer::Read(manifest));
    order.status = Some(decided(&order, &[(&job("read-backup-u1-1"), read)]).status);
    let next = decided(&order, &[]);
    (next.status, next.then)
}

#[test]
fn n02_the_data_of_another_cluster_are_restored_only_where_the_order_says_so() {
    let manifest = |namespace: &str, cluster: &str, id: &str| Manifest {
        origin: Origin {
            namespace: namespace.to_owned(),
            cluster: Some(cluster.to_owned()),
            ..Origin::default()
        },
        cluster_id: id.to_owned(),
        ..Manifest::default()
    };
    let refused = |of: Value, manifest: Manifest| {
        let (status, then) = of_data(&of, manifest);
        assert_eq!((status.phase, then), (Some(RestorePhase::Failed), NextAct::Wait));
        let why = status.conditions.iter().find(|one| one.type_ == "Failed").unwrap();
        assert_eq!(why.reason, "OtherCluster");
        why.message.clone()
    };
    let text = refused(json!(null), manifest("default", "other", "b2"));
    assert!(
        text.contains("EtcdCluster default/other (cluster ID b2)") && text.contains("spec.snapshot.of"),
        "{text}"
    );
    refused(json!(null), manifest("tenants", "demo", "b2"));
    // What the order says is what comes, also where it would be the cluster's own.
    refused(json!({"cluster": "third"}), manifest("default", "other", "b2"));
    refused(json!({"cluster": "other", "clusterID": "b3"}), manifest("default", "other", "b2"));
    refused(json!({"cluster": "other"}), manifest("default", "demo", "a1"));
    let taken_up = |of: Value, manifest: Manifest| {
        let (status, then) = of_data(&of, manifest);
        assert_eq!(status.phase, Some(RestorePhase::Pending));
        matches!(then, NextAct::Backup(_))
    };
    // Of its own data a backup is taken to where the snapshot is; never to where those of another cluster are.
    assert!(taken_up(json!(null), manifest("default", "demo", "b2")), "the name is its own");
    assert!(taken_up(json!(null), manifest("old", "name", "a1")), "the cluster ID is its own");
    assert!(taken_up(json!(null), Manifest::default()), "nothing tells");
    assert!(!taken_up(json!({"cluster": "other"}), manifest("default", "other", "b2")));
    assert!(!taken_up(
        json!({"cluster": "demo", "clusterNamespace": "tenants"}),
        manifest("tenants", "demo", "b2")
    ));
    assert!(!taken_up(json!({"clusterID": "0b2"}), manifest("default", "other", "b2")));
}

#[test]
fn n02_a_restore_of_another_clusters_data_names_it_when_it_is_done() {
    let serves = json!({
        "clusterID": "c3", "bootstrap": {"attempt": 2, "restore": snapshot()},
        "incarnation": {"number": 1, "firstOrdinal": 3, "orderedBy": ordered_by("u1"), "replacedClusterID": "a1"},
        "conditions": [{"type": "Available", "status": "True", "reason": "Available", "message": "",
            "lastTransitionTime": "2026-11-24T00:00:00Z"}],
    });
    let told = |cluster: Value, id: Value| {
        let mut status = read();
        (status["snapshot"]["cluster"], status["snapshot"]["clusterID"]) = (cluster, id);
        reports(&status, Some(&serves), RestorePhase::Complete, "RestoredInPlace")
    };
    let text = told(json!("default/other"), json!("b2"));
    assert!(
        text.ends_with(
            "its cluster ID is c3. The data are those of EtcdCluster default/other (cluster ID b2)"
        ),
        "{text}"
    );
    assert!(told(json!("default/demo"), json!("a1")).ends_with("its cluster ID is c3"));
    assert!(told(json!(null), json!(null)).contains("whose data they are is not known"));
}

#[test]
fn o15_a_snapshot_that_was_read_long_ago_is_read_again_before_anything_is_stopped() {
    let present = cluster(&json!({"clusterID": "a1"}));
    let begun = decided(&json!({}), Some(&present), &[], NOW);
    let whole =
        || JobOutcome::Answered(Answer::Read(Manifest { snapshot_bytes: 4096, ..Manifest::default() }));
    let first = job("read-backup-u1-1");
    let read = decided(&kept(&begun.status), Some(&present), &[(&first, whole())], NOW);
    let read = kept(&read.status);
    let later = |seconds: i64| Instant(NOW.0 + seconds * 1000);
    assert_eq!(decided(&read, Some(&present), &[], later(599)).then, NextAct::Wait);
    assert_eq!(decided(&read, Some(&present), &[], later(600)).then, NextAct::Wait, "nobody needs it yet");
    let waiting = |reason: &str| {
        let waiting = json!([{"orderedBy": ordered_by("u1"), "reason": reason, "message": "so it is"}]);
        cluster(&json!({"clusterID": "a1", "waitingOrders": waiting}))
    };
    let needs = waiting("RestoreReadAgain");
    let again = decided(&read, Some(&needs), &[], later(600));
    assert!(matches!(again.then, NextAct::Read { attempt: 2, .. }), "{:?}", again.then);
    assert_eq!(again.status.snapshot, None);
    // The answer of the first Job, which is still seen, counts no second time.
    let old = decided(&kept(&again.status), Some(&needs), &[(&first, whole())], later(601));
    assert_eq!((old.then, old.status.snapshot), (NextAct::DeleteJob("read-backup-u1-1".to_owned()), None));
    // An answer that is found late counts from the end of its Job.
    let mut ended = first.clone();
    ended.status = serde_json::from_value(json!({"completionTime": "2027-01-15T08:00:00Z"})).unwrap();
    let late = decided(&kept(&begun.status), Some(&present), &[(&ended, whole())], later(7200));
    assert!(late.status.snapshot.is_none_or(|read| read.time.unwrap().0.as_millisecond() <= NOW.0));
    // What else holds it up comes first.
    let mut paused = present.clone();
    paused.spec.paused = true;
    assert_eq!(decided(&read, Some(&paused), &[], later(1200)).then, NextAct::Wait);
    let refused = decided(&read, Some(&waiting("RestoreRefused")), &[], later(1200));
    assert_eq!((refused.then, refused.event.unwrap().1.reason().as_str()), (NextAct::Wait, "RestoreRefused"));
    let mended = decided(&read, Some(&needs), &[], later(1200));
    assert!(matches!(mended.then, NextAct::Read { attempt: 2, .. }), "{:?}", mended.then);
    // It has been read since, and the EtcdCluster has not looked yet.
    let since = decided(&read, Some(&needs), &[], later(60));
    let text = kept(&since.status).to_string();
    assert!(since.then == NextAct::Wait && text.contains("with its next look"), "{text}");
}

#[test]
fn o15_what_was_read_is_not_read_again_while_the_order_waits_for_something_else() {
    let later = Instant(NOW.0 + 3_000_000);
    let replacing = cluster(&json!({"clusterID": "a1", "replacing": {
        "orderedBy": ordered_by("u2"), "clusterID": "a1", "restore": snapshot(), "since": "2026-11-24T00:00:00.000000Z",
    }}));
    assert_eq!(decided(&read(), Some(&replacing), &[], later).then, NextAct::Wait);
    let waiting = json!([{"orderedBy": ordered_by("u1"), "reason": "RestoreWaiting", "message": "claims are being deleted"}]);
    let waits =
        decided(&read(), Some(&cluster(&json!({"clusterID": "a1", "waitingOrders": waiting}))), &[], later);
    assert_eq!((waits.then, waits.status.snapshot.is_some()), (NextAct::Wait, true));
    assert!(waits.event.unwrap().1.message().contains("claims are being deleted"));
}

/// The clock of kube-controller-manager writes when a Job ended, that of the API server when it was created.
#[test]
fn o15_an_answer_counts_by_the_time_of_its_job_whatever_the_clock_of_the_job_controller_says() {
    let present = cluster(&json!({"clusterID": "a1"}));
    let begun = kept(&decided(&json!({}), Some(&present), &[], NOW).status);
    let ended = |created: &str, started: &str, completed: &str| {
        let mut job = job("read-backup-u1-1");
        job.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
        job.status =
            serde_json::from_value(json!({"startTime": started, "completionTime": completed})).unwrap();
        let whole =
            JobOutcome::Answered(Answer::Read(Manifest { snapshot_bytes: 4096, ..Manifest::default() }));
        let status = decided(&begun, Some(&present), &[(&job, whole)], NOW).status;
        status.snapshot.unwrap().time.unwrap().0.to_string()
    };
    // It is 08:00. It took two minutes, and was created three minutes ago.
    assert_eq!(
        ended("2027-01-15T07:57:00Z", "2027-01-15T07:57:00Z", "2027-01-15T07:59:00Z"),
        "2027-01-15T07:59:00Z"
    );
    assert_eq!(
        ended("2027-01-15T07:57:00Z", "2027-01-15T06:57:00Z", "2027-01-15T06:59:00Z"),
        "2027-01-15T07:59:00Z"
    );
    assert_eq!(
        ended("2027-01-15T05:57:00Z", "2027-01-15T05:57:00Z", "2027-01-15T05:59:00Z"),
        "2027-01-15T05:59:00Z"
    );
    assert_eq!(
        ended("2027-01-15T07:57:00Z", "2027-01-15T08:57:00Z", "2027-01-15T08:59:00Z"),
        "2027-01-15T08:00:00Z"
    );
}

#[test]
fn o05_a_backup_that_comes_first_for_a_moment_ends_no_reading_and_no_job_has_a_name_of_before() {
    let present = cluster(&json!({"clusterID": "a1"}));
    let runs_first = backup("demo", "2027-01-15T07:00:00Z", &json!({}), "Running");
    let waiting = |status: &Value, jobs: &[(&Job, JobOutcome)]| {
        let restore = restore(status);
        decide(Seen {
            restore: &restore,
            cluster: Some(&present),
            backup: Some(&found(&restore, None)),
            backups: &[&runs_first],
            jobs,
            now: NOW,
        })
    };
    let reading = json!({"reading": {"sha256": SHA256, "attempt": 3}});
    let third = job("read-backup-u1-3");
    let held = waiting(&reading, &[(&third, JobOutcome::Running(None))]);
    assert_eq!((held.then, kept(&held.status)["reading"]["attempt"].as_u64()), (NextAct::Wait, Some(3)));
    // What was read does not count any more, and is read again by a Job of another name.
    let held = waiting(&read(), &[]);
    assert_eq!((held.then, &held.status.snapshot), (NextAct::Wait, &None));
    let after = decided(&kept(&held.status), Some(&present), &[], NOW);
    assert!(matches!(after.then, NextAct::Read { attempt: 2, .. }), "{:?}", after.then);
    // As is another object.
    let other =
        json!({"snapshot": {"sha256": "0", "bytes": 4096, "time": "2027-01-15T08:00:00Z", "attempt": 4}});
    let after = decided(&other, Some(&present), &[], NOW);
    assert!(matches!(after.then, NextAct::Read { attempt: 5, .. }), "{:?}", after.then);
}

#[test]
fn a_job_that_the_api_server_refuses_is_a_try_that_failed() {
    let mut status = decided(&json!({}), Some(&cluster(&json!({"clusterID": "a1"}))), &[], NOW).status;
    refused(&mut status, "exceeded quota", NOW);
    let waits = decided(&kept(&status), Some(&cluster(&json!({"clusterID": "a1"}))), &[], NOW);
    assert_eq!(waits.then, NextAct::Wait);
    assert!(kept(&waits.status).to_string().contains("exceeded quota"));
}

#[test]
fn o01_an_order_that_could_not_begin_in_time_has_failed_for_good_and_names_what_it_waited_for() {
    let present = cluster(&json!({"clusterID": "a1"}));
    let mut status = decided(&json!({}), Some(&present), &[], NOW).status;
    refused(&mut status, "exceeded quota", NOW);
    let before = decided(&kept(&status), Some(&present), &[], Instant(NOW.0 + 3_659_000));
    assert_eq!(before.status.phase, Some(RestorePhase::Pending));
    let late = Instant(NOW.0 + 3_660_000);
    let failed = decided(&kept(&status), Some(&present), &[], late);
    let (is_warning, why) = failed.event.expect("it is news");
    assert!(is_warning && why.reason().as_str() == "OrderExpired", "{why:?}");
    let text = why.message();
    assert!(
        text.contains("within 1h of its creation") && text.contains("create another EtcdRestore"),
        "{text}"
    );
    assert!(text.contains("with a longer spec.startingDeadline"), "{text}");
    assert_eq!((failed.status.phase, failed.then), (Some(RestorePhase::Failed), NextAct::Wait));
    assert!(failed.status.finished.is_some());
    let after = decided(&json!(failed.status), Some(&present), &[], late).status;
    assert_eq!(after, failed.status, "for good");
    // Nobody looked at it for the whole hour.
    let unseen = decided(&json!({}), Some(&present), &[], late);
    assert_eq!((unseen.status.phase, unseen.then), (Some(RestorePhase::Failed), NextAct::Wait));
    // One that was begun goes on.
    let replacing = json!({"clusterID": "a1", "replacing": {
        "orderedBy": ordered_by("u1"), "clusterID": "a1", "restore": snapshot(), "since": "2026-11-24T00:00:00.000000Z",
    }});
    assert_eq!(
        decided(&read(), Some(&cluster(&replacing)), &[], late).status.phase,
        Some(RestorePhase::Running)
    );
}

#[test]
fn o01_an_order_that_waits_for_another_one_names_it() {
    let other = json!({"etcdRestore": {"name": "other", "uid": "u2"}});
    let replacing = json!({"clusterID": "a1", "replacing": {
        "orderedBy": other, "clusterID": "a1", "restore": snapshot(), "since": "2026-11-24T00:00:00.000000Z",
    }});
    let text = reports(&read(), Some(&replacing), RestorePhase::Pending, "OrderPending");
    assert!(text.contains("EtcdRestore other"), "{text}");
}

fn backup(of: &str, created: &str, spec: &Value, phase: &str) -> EtcdBackup {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": "before", "namespace": "default", "uid": "b1", "creationTimestamp": created},
        "spec": {"source": {"cluster": of}, "destination": {"s3": {"bucket": "b"}}},
        "status": {"phase": phase, "attempts": 0},
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn o05_a_backup_that_was_ordered_before_it_is_over_before_a_member_is_stopped() {
    let quorum = |is: &str, since: &str| {
        cluster(
            &json!({"clusterID": "a1", "conditions": [{"type": "QuorumAvailable", "status": is, "reason": "X",
            "message": "", "lastTransitionTime": since}]}),
        )
    };
    let serves = quorum("True", "2027-01-15T07:00:00Z");
    let decided = |backup: &EtcdBackup, of: &EtcdCluster| {
        let restore = restore(&read());
        let seen = Seen {
            restore: &restore,
            cluster: Some(of),
            backup: Some(&found(&restore, None)),
            backups: &[backup],
            jobs: &[],
            now: NOW,
        };
        decide(seen).status
    };
    let waits = |status: &EtcdRestoreStatus| {
        assert_eq!(status.phase, Some(RestorePhase::Pending));
        status.snapshot.is_none()
    };
    // The EtcdRestore is of 08:00:00, so the first two come before it. `kubectl apply` gives both the same second.
    let of = |created: &str, phase: &str| backup("demo", created, &json!({}), phase);
    for older in ["2027-01-15T07:00:00Z", "2027-01-15T08:00:00Z"] {
        for phase in ["Running", "Pending"] {
            let status = decided(&of(older, phase), &serves);
            assert!(waits(&status), "not taken up: {status:?}");
            let text = kept(&status).to_string();
            assert!(
                text.contains("EtcdBackup before") && text.contains("delete EtcdBackup before"),
                "{text}"
            );
        }
        for over in ["Complete", "Failed"] {
            assert!(!waits(&decided(&of(older, over), &serves)), "{over}");
        }
    }
    assert!(!waits(&decided(&of("2027-01-15T08:00:01Z", "Running"), &serves)), "ordered later");
    let other = backup("other", "2027-01-15T07:00:00Z", &json!({}), "Running");
    assert!(!waits(&decided(&other, &serves)), "of another cluster");
    // Without a quorum the restore is what brings the cluster back. A moment without one is none.
    let of_old = of("2027-01-15T07:00:00Z", "Pending");
    assert!(waits(&decided(&of_old, &quorum("False", "2027-01-15T07:59:30Z"))));
    let lost = quorum("False", "2027-01-15T07:58:00Z");
    assert!(!waits(&decided(&of_old, &lost)));
    assert!(waits(&decided(&of("2027-01-15T07:00:00Z", "Running"), &lost)), "its Job may be there yet");
    let without = backup("demo", "2027-01-15T07:00:00Z", &json!({"withoutQuorum": true}), "Pending");
    assert!(waits(&decided(&without, &lost)));
}

#[test]
fn o05_it_waits_for_no_backup_that_waits_for_it_or_that_nobody_knows_to_begin() {
    let of = |name: &str, status: Value| {
        let mut own = backup("demo", "2027-01-15T07:00:00Z", &json!({}), "Pending");
        (own.metadata.name, own.metadata.uid) = (Some(name.to_owned()), Some(name.to_owned()));
        own.status = serde_json::from_value(status).unwrap();
        own
    };
    let pending = |name: &str, reason: &str| {
        let condition = json!({"type": "Pending", "status": "True", "reason": reason, "message": "",
            "lastTransitionTime": "2027-01-15T07:00:00Z"});
        of(name, json!({"phase": "Pending", "conditions": [condition]}))
    };
    let running = |since: Option<&str>| {
        of("runs", json!({"phase": "Running", "attempts": 1, "jobName": "j", "notStartedSince": since}))
    };
    let quorum = |is: &str, since: &str| {
        json!({"clusterID": "a1", "conditions": [{"type": "QuorumAvailable", "status": is, "reason": "X", "message": "",
            "lastTransitionTime": since}]})
    };
    let waits_in = |cluster_status: &Value, backups: &[&EtcdBackup]| {
        let (restore, present) = (restore(&read()), cluster(cluster_status));
        let found = found(&restore, None);
        let backup = Some(&found);
        let seen = Seen { restore: &restore, cluster: Some(&present), backup, backups, jobs: &[], now: NOW };
        decide(seen).status.snapshot.is_none()
    };
    let serves = quorum("True", "2027-01-15T07:00:00Z");
    let waits = |backups: &[&EtcdBackup]| waits_in(&serves, backups);
    // They begin by themselves.
    for soon in ["RetryPending", "BackupQueued"] {
        assert!(waits(&[&pending("soon", soon)]), "{soon}");
    }
    // These wait for what the restore cures, or for all other clusters.
    let held = ["DataInconsistent", "ClusterNotServing", "ClusterNotFound", "BackupLimitReached"];
    for reason in held {
        assert!(!waits(&[&pending("held", reason)]), "{reason}");
    }
    // So does what is queued behind such a one, unless one runs.
    let (queued, limit) = (pending("queued", "BackupQueued"), pending("limit", "BackupLimitReached"));
    assert!(!waits(&[&queued, &limit]));
    assert!(waits(&[&queued, &limit, &running(None)]));
    // Its Pod does not start, and the restore is what frees the place, the volume or the node.
    assert!(waits(&[&running(Some("2027-01-15T07:55:00Z"))]));
    assert!(!waits(&[&running(Some("2027-01-15T07:54:59Z"))]));
    // Nobody knows whether there is a quorum: a backup that needs one does not begin.
    let fresh = of("fresh", json!({"phase": "Pending"}));
    assert!(!waits_in(&quorum("Unknown", "2027-01-15T07:58:00Z"), &[&fresh]));
    assert!(waits_in(&quorum("Unknown", "2027-01-15T07:59:30Z"), &[&fresh]));
    // A change of the leader is no lost quorum.
    let not_serving = pending("held", "ClusterNotServing");
    assert!(waits_in(&quorum("False", "2027-01-15T07:59:30Z"), &[&not_serving]));
}

#[test]
fn n14_an_order_names_the_tenants_whose_data_go_back() {
    let message = "DataStore shared is written. Tenants a/one, b/two use it";
    let told = |annotations: Value| {
        let mut of =
            cluster(&json!({"clusterID": "a1", "conditions": [{"type": "DataStoreReady", "status": "True",
            "reason": "Published", "message": message, "lastTransitionTime": "2027-01-15T07:00:00Z"}]}));
        of.metadata.annotations = serde_json::from_value(annotations).unwrap();
        let status = decided(&read(), Some(&of), &[], NOW).status;
        status.conditions.iter().find(|one| one.type_ == "Pending").unwrap().message.clone()
    };
    let text = told(json!({"operator.etcd.io/kamaji-datastore": "shared"}));
    assert!(text.contains("one that was created since begins empty") && text.ends_with(message), "{text}");
    assert!(!told(json!({})).contains("Kamaji"));
}

#[test]
fn o13_an_order_that_git_gives_again_after_the_way_back_has_failed_and_says_how_to_mean_it() {
    let taken_back =
        json!({"clusterID": "a1", "bootstrap": {"attempt": 1, "adoptedBy": "c1", "takenBack": true}});
    let text = reports(&json!({}), Some(&taken_back), RestorePhase::Failed, "ClusterIDMismatch");
    assert!(text.contains("operator.etcd.io/give-up-again: c1"), "{text}");
}

#[test]
fn o02_what_is_named_by_its_place_is_found_by_an_etcdbackup_then_read_and_no_other_one_is_restored() {
    let newest = |status: &Value| -> EtcdRestore {
        let mut restore = restore(status);
        restore.spec.snapshot = serde_json::from_value(json!({"latest": {
            "destination": {"s3": {"bucket": "b"}}, "clusterID": "a1",
        }}))
        .unwrap();
        restore
    };
    let cluster = cluster(&json!({"clusterID": "a1"}));
    let decided = |status: &Value, backup: Option<&EtcdBackup>, jobs: &[(&Job, JobOutcome)]| {
        decide(Seen {
            restore: &newest(status),
            cluster: Some(&cluster),
            backup,
            backups: &[],
            jobs,
            now: NOW,
        })
    };
    let begun = decided(&json!({}), None, &[]);
    let NextAct::Backup(made) = &begun.then else { panic!("{:?}", begun.then) };
    assert_eq!(made.metadata.name.as_deref(), Some("restored-u1"));
    assert_eq!(made.metadata.owner_references.as_ref().unwrap()[0].kind, "EtcdRestore");
    let latest = made.spec.existing.as_ref().unwrap().latest.as_ref().unwrap();
    assert_eq!(latest.cluster_id.as_deref(), Some("a1"));
    assert_eq!(begun.status.conditions[0].reason, "OrderPending");
    let status = |of: &Decision| serde_json::to_value(&of.status).unwrap();

    let mut found = made.as_ref().clone();
    let waits = decided(&status(&begun), Some(&found), &[]);
    assert_eq!(waits.then, NextAct::Wait, "it is looked for");
    found.status = serde_json::from_value(json!({"phase": "Complete", "attempts": 1,
        "result": {"key": "k", "storedSha256": SHA256, "revision": 7}}))
    .unwrap();
    let reading = decided(&status(&waits), Some(&found), &[]);
    let NextAct::Read { order, .. } = &reading.then else { panic!("{:?}", reading.then) };
    assert_eq!((order.source.key.as_str(), order.source.sha256.as_deref()), ("k", Some(SHA256)));
    // It is not in the store any more: that is reported, and no other one is taken.
    let reads: Job = serde_json::from_value(json!({"metadata": {"name": "read-backup-u1-1"}})).unwrap();
    let gone = Answer::Failed(Failure::new(FailureKind::NotInStore, "b/k does not exist"));
    let gone = decided(&status(&reading), Some(&found), &[(&reads, JobOutcome::Answered(gone))]);
    assert_eq!(gone.status.conditions[0].reason, "NotInStore");
    // Who may create EtcdBackups may have created one of that name.
    found.metadata.owner_references = None;
    assert_eq!(decided(&status(&waits), Some(&found), &[]).then, NextAct::Wait);
}
