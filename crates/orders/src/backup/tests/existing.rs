//! EtcdBackups that stand for an object which another one wrote.

use quorate_api::backup::BackupPhase;
use quorate_api::job::FoundBackup;
use quorate_manifests::backup::ExistingOrder;
use quorate_model::ClusterRef;

use super::*;
use crate::backup::{blocker, inspects_before, is_in_queue, running};

const KEY: &str = "default/demo/old-0c8f27b4-8a5d-4f39-9a94-6a5b7f1f6f0e.db.zst";
const LOOKS: &str = "inspect-backup-u1-1";

fn existing(status: Value) -> EtcdBackup {
    let object = json!({"key": KEY, "sha256": "5".repeat(64)});
    backup(json!({"existing": object}), json!({"finalizers": null}), status)
}

fn looking() -> Value {
    json!({"phase": "Running", "attempts": 1, "started": at(-60), "jobName": LOOKS})
}

fn found(change: impl FnOnce(&mut Manifest)) -> JobOutcome {
    let origin = quorate_api::job::Origin { cluster: Some("demo".to_owned()), ..Default::default() };
    let mut manifest = Manifest {
        origin,
        key: KEY.to_owned(),
        stored_sha256: "5".repeat(64),
        revision: 7,
        cluster_id: "a1".to_owned(),
        recipients: vec!["age1x".to_owned()],
        ..Manifest::default()
    };
    change(&mut manifest);
    JobOutcome::Answered(Answer::Inspected(manifest))
}

#[test]
fn o02_what_stands_for_an_object_of_before_is_never_taken_and_is_complete_by_its_own_look() {
    let begun = next(&existing(Value::Null), &[]);
    let Act::Inspect { order, seconds } = &begun.act else { panic!("{:?}", begun.act) };
    let ExistingOrder::Inspect(order) = order.as_ref() else { panic!("{order:?}") };
    assert_eq!((order.key.as_str(), order.cluster.as_deref(), *seconds), (KEY, Some("demo"), 600));
    assert_eq!((begun.status.job_name.as_deref(), begun.status.attempts), (Some(LOOKS), 1));
    // It is of the data of then, whatever the cluster has now.
    assert_eq!(begun.status.cluster_id, None);
    // A crash before the Job: the same one.
    let again = next(&existing(json!(begun.status)), &[]);
    assert_eq!((&again.act, &again.status), (&begun.act, &begun.status));
    let waits = next(&existing(looking()), &[(LOOKS, JobOutcome::Running(Some("no node fits".to_owned())))]);
    assert!(holds(&waits).2.ends_with("no node fits"), "{:?}", holds(&waits));
    let done = next(&existing(looking()), &[(LOOKS, found(|_| {}))]);
    let result = done.status.result.clone().unwrap();
    assert_eq!((result.key.as_str(), result.revision, result.encrypted), (KEY, 7, true));
    assert_eq!(holds(&done).1, "BackupComplete");
    // Its Job goes, and then nothing is left to do: neither a finalizer nor a removal.
    let ended = next(&existing(json!(done.status)), &[(LOOKS, found(|_| {}))]);
    assert_eq!(ended.act, Act::DeleteJob(LOOKS.to_owned()));
    assert_eq!(next(&existing(json!(done.status)), &[]).act, Act::Rest);
}

#[test]
fn o02_an_object_that_is_not_there_or_is_another_one_ends_it_and_a_store_that_sleeps_does_not() {
    let ended = |outcome: JobOutcome| {
        let ended = next(&existing(looking()), &[(LOOKS, outcome)]);
        assert_eq!(ended.status.result, None);
        (ended.status.phase.unwrap(), holds(&ended).1)
    };
    let failed = |reason: &str| (BackupPhase::Failed, reason.to_owned());
    assert_eq!(ended(failure(FailureKind::NotInStore)), failed("NotInStore"));
    assert_eq!(ended(failure(FailureKind::Mismatch)), failed("ChecksumMismatch"));
    let again = (BackupPhase::Pending, "RetryPending".to_owned());
    assert_eq!(ended(failure(FailureKind::StoreUnavailable)), again);
    assert_eq!(ended(JobOutcome::Lost("its Pod is gone".to_owned())), again);
    // The answer of a backup is none, nor is that about another object.
    assert_eq!(ended(answer("u1")), again);
    assert_eq!(ended(found(|one| one.key = "default/demo/new.db".to_owned())), failed("ChecksumMismatch"));
    assert_eq!(ended(found(|one| one.stored_sha256 = "6".repeat(64))), failed("ChecksumMismatch"));
    assert_eq!(ended(found(|one| one.origin.cluster = None)), failed("ChecksumMismatch"));
}

#[test]
fn o02_what_stands_for_an_object_of_before_holds_up_no_backup_and_no_defragmentation() {
    let runs = existing(looking());
    let mut own = backup(json!({}), json!({"name": "own", "uid": "u2"}), Value::Null);
    own.metadata.creation_timestamp = serde_json::from_value(json!(at(0))).unwrap();
    assert!(blocker(&own, [&runs].into_iter(), NOW).is_none());
    assert!(running(&ClusterRef::new("default", "demo"), [&runs], &[], NOW).is_empty());
    let given = |finalizer: bool| {
        let mut one = existing(Value::Null);
        one.metadata.finalizers = finalizer.then(|| vec!["operator.etcd.io/backup-cleanup".to_owned()]);
        one
    };
    assert!(!is_in_queue(&given(true)));
    // Who deletes one with the finalizer of a backup loses no object, also where the policy would remove it.
    let mut going = given(true);
    going.metadata.deletion_timestamp = serde_json::from_value(json!(at(-1))).unwrap();
    going.spec.deletion_policy = quorate_api::backup::DeletionPolicy::Delete;
    going.status =
        serde_json::from_value(json!({"phase": "Complete", "attempts": 1, "result": {"key": KEY}})).unwrap();
    assert_eq!(next(&going, &[]).act, Act::RemoveFinalizer);
}

#[test]
fn o02_what_lost_the_object_that_it_stands_for_to_an_older_definition_is_no_order_for_a_backup() {
    let mut one = existing(Value::Null);
    one.spec.existing = None;
    assert_eq!(next(&one, &[]).act, Act::AddFinalizer, "an order of a person");
    one.metadata.annotations = Some([("operator.etcd.io/existing-object".to_owned(), KEY.to_owned())].into());
    let refused = next(&one, &[]);
    assert_eq!((refused.status.phase, holds(&refused).1.as_str()), (Some(BackupPhase::Failed), "CrdTooOld"));
    one.status = Some(refused.status);
    assert_eq!(next(&one, &[]).act, Act::Rest);
}

#[test]
fn o02_only_so_many_look_for_their_object_at_a_time_the_oldest_first() {
    let one = |number: u32, status: Value| {
        let mut one = existing(status);
        one.metadata.name = Some(format!("existing-{number}"));
        one.metadata.uid = Some(format!("u{number}"));
        one
    };
    let all: Vec<EtcdBackup> = (1..=9).map(|number| one(number, Value::Null)).collect();
    let begin = all.iter().filter(|own| inspects_before(own, all.iter(), NOW).is_none()).count();
    assert_eq!(begin, 4);
    let mut all = all;
    all[0].status = one(1, json!({"phase": "Complete"})).status;
    assert_eq!(all.iter().filter(|own| inspects_before(own, all.iter(), NOW).is_none()).count(), 5);
    // One whose Pod never starts holds up nobody.
    let stuck = json!({"phase": "Running", "attempts": 1, "notStartedSince": at(-301)});
    all[1].status = one(2, stuck).status;
    let waits = inspects_before(&all[5], all.iter(), NOW);
    assert!(waits.is_none(), "{waits:?}");
    let mut of_restore = all[8].clone();
    of_restore.metadata.name = Some("restored-c1".to_owned());
    let owner = json!([{"apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "name": "demo", "uid": "c1"}]);
    of_restore.metadata.owner_references = serde_json::from_value(owner).unwrap();
    assert!(inspects_before(&of_restore, all[2..].iter(), NOW).is_none());
    let held = decide(Seen { waits_for: Some("existing-1"), ..Seen::only(&all[8], NOW) });
    assert_eq!((holds(&held).1.as_str(), held.status.attempts), ("BackupQueued", 0));
}

/// One that stands for the newest backup of a cluster.
fn newest(status: Value) -> EtcdBackup {
    let object = json!({"latest": {"cluster": "lost", "clusterNamespace": "tenant"}, "before": "2026-11-24T02:00:00Z"});
    backup(json!({"existing": object, "deadline": "8760h"}), json!({"finalizers": null}), status)
}

#[test]
fn o02_what_stands_for_the_newest_backup_finds_it_once_and_says_what_was_left_out() {
    let begun = next(&newest(Value::Null), &[]);
    let Act::Inspect { order, seconds: 3600 } = &begun.act else { panic!("{:?}", begun.act) };
    let ExistingOrder::Find(order) = order.as_ref() else { panic!("{order:?}") };
    let of = order.cluster.as_ref().unwrap();
    assert_eq!((of.namespace.as_str(), of.name.as_str()), ("tenant", "lost"));
    assert_eq!(order.before.as_deref(), Some("2026-11-24T02:00:00Z"));
    assert!(
        holds(&begun).2.contains("looks for the newest backup of EtcdCluster tenant/lost in"),
        "{:?}",
        holds(&begun)
    );
    let JobOutcome::Answered(Answer::Inspected(manifest)) =
        found(|one| one.key = "tenant/lost/new.db".to_owned())
    else {
        panic!()
    };
    let answer = FoundBackup {
        manifest,
        age: "2h5m".to_owned(),
        seen: "6 objects were seen".to_owned(),
        skipped: vec!["one is not signed".to_owned()],
    };
    let answered = |answer: Answer| (LOOKS, JobOutcome::Answered(answer));
    let done = next(&newest(looking()), &[answered(Answer::Found(answer))]);
    assert_eq!(done.status.result.as_ref().unwrap().key, "tenant/lost/new.db");
    let (_, reason, text) = holds(&done);
    assert_eq!(reason, "BackupComplete");
    for words in ["2h5m old when it was found", "6 objects were seen", "Left out: one is not signed"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Another one is never looked for.
    assert_eq!(next(&newest(json!(done.status)), &[]).act, Act::Rest);
    // An answer that names nothing is no backup.
    let empty = next(&newest(looking()), &[answered(Answer::Found(FoundBackup::default()))]);
    assert_eq!(empty.status.result, None);
}

#[test]
fn o02_what_a_restore_waits_for_is_looked_for_until_it_is_there_and_why_it_was_not_stays_known() {
    let object = json!({"key": KEY, "sha256": "5".repeat(64), "withoutManifest": true});
    let by_key = |status: Value| {
        backup(json!({"existing": object, "deadline": "8760h"}), json!({"finalizers": null}), status)
    };
    for one in [&newest as &dyn Fn(Value) -> EtcdBackup, &by_key] {
        let mut status = looking();
        for attempt in 1..=200 {
            status["attempts"] = json!(attempt);
            let name = format!("inspect-backup-u1-{attempt}");
            status["jobName"] = json!(name);
            let again = next(&one(status.clone()), &[(&name, failure(FailureKind::NotInStore))]);
            assert_eq!(again.status.phase, Some(BackupPhase::Pending), "attempt {attempt}");
            let failed = again.status.failed_look.clone().unwrap();
            assert_eq!(failed.reason, "NotInStore");
            // The next one runs, and it is still known.
            status["failedLook"] = json!(failed);
            let runs = next(&one(status.clone()), &[(&name, JobOutcome::Running(None))]);
            assert_eq!(runs.status.failed_look, Some(failed));
        }
    }
    let JobOutcome::Answered(Answer::Inspected(of_none)) = found(|one| one.origin.cluster = None) else {
        panic!()
    };
    let status = json!({"phase": "Running", "attempts": 1, "started": at(-60), "jobName": LOOKS,
        "failedLook": {"reason": "NotInStore", "message": "x"}});
    let done = next(&by_key(status), &[(LOOKS, JobOutcome::Answered(Answer::Inspected(of_none)))]);
    assert_eq!((done.status.phase, done.status.failed_look), (Some(BackupPhase::Complete), None));
    assert!(
        holds(&next(&by_key(looking()), &[(LOOKS, found(|one| one.origin.cluster = None))]))
            .2
            .contains("not known before it is read")
    );
}

#[test]
fn o02_what_no_restore_waits_for_any_more_is_not_looked_for() {
    let rests = json!({"phase": "Pending", "attempts": 3, "started": at(-3000), "nextAttempt": at(-1)});
    let ended = decide(Seen { is_given_up: true, ..Seen::only(&newest(rests), NOW) });
    assert_eq!((ended.status.phase, holds(&ended).1.as_str()), (Some(BackupPhase::Failed), "OrderExpired"));
    // What was found stays.
    let complete =
        json!({"phase": "Complete", "attempts": 1, "result": {"key": "k", "storedSha256": "5".repeat(64)}});
    let kept = decide(Seen { is_given_up: true, ..Seen::only(&newest(complete), NOW) });
    assert_eq!((kept.status.phase, kept.act), (Some(BackupPhase::Complete), Act::Rest));
}
