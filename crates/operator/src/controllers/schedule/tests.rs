//! What is next for an EtcdBackupSchedule, at given times.

use jiff::Timestamp;
use quorate_api::job::{Answer, Failure, FailureKind, Verified};
use quorate_api::{EtcdBackup, EtcdBackupSchedule};
use quorate_model::Instant;
use serde_json::{Value, json};

use super::decide::{Decision, FirstWrite, NextAct, Seen, decide};
use super::pass::is_of;
use crate::controllers::backup::JobOutcome;

fn at(text: &str) -> Instant {
    Instant(text.parse::<Timestamp>().unwrap().as_millisecond())
}

#[expect(clippy::needless_pass_by_value, reason = "a literal of the test")]
fn schedule(spec: Value, status: Value) -> EtcdBackupSchedule {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {"name": "nightly", "namespace": "default", "uid": "0000-00ab", "creationTimestamp": "2026-11-01T00:30:00Z"},
        "spec": {
            "schedule": "0 * * * *",
            "backupTemplate": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}},
            },
        },
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn child(time: &str, phase: &str) -> EtcdBackup {
    let result = json!({"key": "k", "clusterID": "a1", "storedSha256": "s", "storedBytes": 100, "etcdVersion": "3.6.16", "finished": time});
    let result = if phase == "Complete" { result } else { Value::Null };
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": format!("at-{time}"), "namespace": "default", "uid": format!("uid-{time}"),
            "annotations": {"operator.etcd.io/backup-schedule-uid": "0000-00ab", "operator.etcd.io/scheduled-at": time}},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}},
        "status": {"phase": phase, "result": result},
    }))
    .unwrap()
}

fn next(schedule: &EtcdBackupSchedule, backups: &[EtcdBackup], now: &str) -> Decision {
    let backups: Vec<&EtcdBackup> = backups.iter().collect();
    decide(Seen { schedule, backups: &backups, jobs: &[], now: at(now) })
}

fn created(decision: &Decision) -> Option<String> {
    let FirstWrite::Create(child) = decision.first.as_ref()?;
    child.metadata.annotations.as_ref()?.get("operator.etcd.io/scheduled-at").cloned()
}

fn ready(decision: &Decision) -> String {
    let ready = decision.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    format!("{} {}", ready.status, ready.reason)
}

#[test]
fn a_backup_is_created_in_time_once_and_the_next_one_is_announced() {
    let fresh = schedule(json!({}), Value::Null);
    let early = next(&fresh, &[], "2026-11-01T00:45:00Z");
    assert_eq!((created(&early), ready(&early)), (None, "Unknown NoBackupYet".to_owned()));
    assert_eq!(early.status.next.as_ref().unwrap().0.to_string(), "2026-11-01T01:00:00Z");
    let due = next(&fresh, &[], "2026-11-01T01:00:00.150Z");
    assert_eq!(created(&due).unwrap(), "2026-11-01T01:00:00Z");
    let Some(FirstWrite::Create(made)) = &due.first else { panic!() };
    let labels = made.metadata.labels.as_ref().unwrap();
    assert_eq!(
        (labels["team"].as_str(), labels["operator.etcd.io/backup-schedule"].as_str()),
        ("a", "nightly")
    );
    assert!(made.metadata.owner_references.is_none(), "it stays when the schedule is deleted");
    assert_eq!(
        made.metadata.name.as_deref(),
        Some(format!("nightly-00ab{}", at("2026-11-01T01:00:00Z").0 / 60_000).as_str())
    );
    // After a crash between the two writes the backup exists, and the time is only recorded.
    let mut exists = child("2026-11-01T01:00:00Z", "Complete");
    exists.metadata.name = made.metadata.name.clone();
    let again = next(&fresh, &[exists], "2026-11-01T01:00:20Z");
    assert_eq!(
        (created(&again), again.status.last_scheduled.clone()),
        (None, due.status.last_scheduled.clone())
    );
    let recorded = schedule(json!({}), json!({"lastScheduled": "2026-11-01T01:00:00Z"}));
    assert_eq!(created(&next(&recorded, &[], "2026-11-01T01:59:59Z")), None);
}

#[test]
fn of_what_was_missed_the_last_one_is_made_up_for_and_nothing_runs_beside_another() {
    let recorded = schedule(json!({}), json!({"lastScheduled": "2026-11-01T01:00:00Z"}));
    let after_outage = next(&recorded, &[], "2026-11-01T06:20:00Z");
    assert_eq!(created(&after_outage).unwrap(), "2026-11-01T06:00:00Z");
    let active = next(&recorded, &[child("2026-11-01T01:00:00Z", "Running")], "2026-11-01T06:20:00Z");
    assert_eq!((created(&active), active.status.active.len()), (None, 1));
    assert_eq!(
        active.status.last_scheduled,
        recorded.status.as_ref().unwrap().last_scheduled,
        "it is not forgotten"
    );
    assert_eq!(ready(&active), "Unknown NoBackupYet", "it has begun");
    let mut waits = child("2026-11-01T01:00:00Z", "Pending");
    waits.status.as_mut().unwrap().conditions = serde_json::from_value(json!([{"type": "Pending", "status": "True",
        "reason": "ClusterNotServing", "message": "no quorum", "lastTransitionTime": "2026-11-01T01:00:00Z"}]))
    .unwrap();
    let early = next(&recorded, std::slice::from_ref(&waits), "2026-11-01T01:20:00Z");
    assert_eq!(ready(&early), "Unknown NoBackupYet");
    let missed = next(&recorded, &[waits], "2026-11-01T02:00:00Z");
    assert_eq!(ready(&missed), "False BackupMissed");
    assert!(missed.status.conditions[0].message.contains("ClusterNotServing: no quorum"));
    let strict =
        schedule(json!({"startingDeadline": "10m"}), json!({"lastScheduled": "2026-11-01T01:00:00Z"}));
    let late = next(&strict, &[], "2026-11-01T06:20:00Z");
    assert_eq!((created(&late), late.events[0].1.reason().as_str()), (None, "BackupMissed"));
    assert_eq!(late.status.last_scheduled.unwrap().0.to_string(), "2026-11-01T06:00:00Z");
}

#[test]
fn a_clock_that_is_set_back_neither_stops_the_schedule_nor_repeats_it() {
    let ahead = schedule(json!({}), json!({"lastScheduled": "2027-11-01T01:00:00Z"}));
    let back = next(&ahead, &[], "2026-11-01T01:10:00Z");
    assert_eq!(created(&back), None, "nothing is due between now and now");
    assert_eq!(back.status.next.unwrap().0.to_string(), "2026-11-01T02:00:00Z");
    // The time that comes is later than now was, so it is found although the recorded time lies ahead.
    let status = json!({"lastScheduled": "2026-11-01T02:00:00Z"});
    let repeated = schedule(json!({}), status);
    assert_eq!(created(&next(&repeated, &[], "2026-11-01T02:00:00Z")), None);
}

#[test]
fn what_cannot_be_read_is_reported_and_a_suspended_schedule_rests() {
    for spec in [
        json!({"schedule": "0 0 31 2 *"}),
        json!({"schedule": "* * * * *"}),
        json!({"timeZone": "Nowhere/Else"}),
        json!({"verify": {"schedule": "61 * * * *"}}),
    ] {
        let decision = next(&schedule(spec, Value::Null), &[], "2026-11-01T06:20:00Z");
        assert_eq!((ready(&decision), &decision.then), ("False ScheduleInvalid".to_owned(), &NextAct::Edit));
        assert_eq!((decision.first, decision.status.next), (None, None));
    }
    let old = [child("2026-11-01T05:00:00Z", "Complete"), child("2026-11-01T04:00:00Z", "Complete")];
    let rests = schedule(json!({"suspend": true, "retention": {"keepLast": 1}}), Value::Null);
    let decision = next(&rests, &old, "2026-11-01T06:20:00Z");
    assert_eq!((ready(&decision), created(&decision)), ("False Suspended".to_owned(), None));
    assert!(matches!(decision.then, NextAct::Wait(_)), "nothing is deleted: {:?}", decision.then);
}

#[test]
fn failures_count_once_until_a_good_one_and_retention_keeps_the_last_good_one() {
    let spec = json!({"retention": {"maxAge": "1s"}, "historyLimit": {"failed": 1}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let backups = [
        child("2026-11-01T03:00:00Z", "Complete"),
        child("2026-11-01T04:00:00Z", "Complete"),
        child("2026-11-01T05:00:00Z", "Failed"),
        child("2026-11-01T06:00:00Z", "Failed"),
    ];
    let first = next(&schedule(spec.clone(), status), &backups, "2026-11-01T06:20:00Z");
    assert_eq!((ready(&first), first.status.consecutive_failures), ("False BackupFailing".to_owned(), 2));
    let NextAct::Prune { names, floor } = &first.then else { panic!("{first:?}") };
    assert_eq!(names, &["at-2026-11-01T03:00:00Z", "at-2026-11-01T05:00:00Z"]);
    assert_eq!(floor.as_deref(), Some("at-2026-11-01T04:00:00Z"), "kept although it is too old for the rule");
    let second = next(&schedule(spec.clone(), json!(first.status)), &backups[1..], "2026-11-01T06:30:00Z");
    assert_eq!(second.status.consecutive_failures, 2, "each counts once");
    let good = [backups[3].clone(), child("2026-11-01T07:00:00Z", "Complete")];
    let status = json!(second.status);
    let third = next(&schedule(spec, status), &good, "2026-11-01T06:40:00Z");
    assert_eq!((ready(&third), third.status.consecutive_failures), ("True BackupsHealthy".to_owned(), 0));
    assert_eq!(third.status.last_success.unwrap().0.to_string(), "2026-11-01T07:00:00Z");
}

#[test]
fn a_backup_that_a_restore_uses_is_not_deleted() {
    let mut used = child("2026-11-01T03:00:00Z", "Complete");
    used.metadata.finalizers = Some(vec!["operator.etcd.io/used-by-restore".to_owned()]);
    let backups =
        [used, child("2026-11-01T04:00:00Z", "Complete"), child("2026-11-01T05:00:00Z", "Complete")];
    let keep_one =
        schedule(json!({"retention": {"keepLast": 1}}), json!({"lastScheduled": "2026-11-01T06:00:00Z"}));
    let decision = next(&keep_one, &backups, "2026-11-01T06:20:00Z");
    let NextAct::Prune { names, .. } = decision.then else { panic!() };
    assert_eq!(names, ["at-2026-11-01T04:00:00Z"]);
}

#[test]
fn a_restore_test_is_recorded_then_made_of_the_newest_good_backup_and_its_answer_is_kept() {
    let spec = json!({"verify": {"schedule": "30 * * * *"}, "retention": {"keepLast": 1}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let backups = [child("2026-11-01T05:00:00Z", "Complete"), child("2026-11-01T06:00:00Z", "Complete")];
    let begun = next(&schedule(spec.clone(), status), &backups, "2026-11-01T06:31:00Z");
    let test = begun.status.test.clone().unwrap();
    assert_eq!(test.backup, "at-2026-11-01T06:00:00Z");
    let NextAct::Test { order, .. } = &begun.then else { panic!("{begun:?}") };
    assert_eq!(order.source.sha256.as_deref(), Some("s"));
    // A crash after the record: the same Job.
    let recorded = schedule(spec.clone(), json!(begun.status));
    let again = next(&recorded, &backups, "2026-11-01T06:32:00Z");
    assert_eq!((&again.then, again.status.test.as_ref()), (&begun.then, Some(&test)));

    let job = serde_json::from_value(json!({"metadata": {"name": test.job_name, "uid": "j"}})).unwrap();
    let seen: Vec<&EtcdBackup> = backups.iter().collect();
    let ended = |answer| {
        let jobs = [(&job, JobOutcome::Answered(answer))];
        decide(Seen { schedule: &recorded, backups: &seen, jobs: &jobs, now: at("2026-11-01T06:35:00Z") })
    };
    let passed = ended(Answer::Verified(Verified { revision: 9, keys: 4, ..Verified::default() }));
    let verified = |decision: &Decision| {
        let one = decision.status.conditions.iter().find(|one| one.type_ == "Verified").unwrap();
        format!("{} {}", one.status, one.reason)
    };
    assert_eq!(
        (verified(&passed), &passed.then),
        ("True RestoreTested".to_owned(), &NextAct::DeleteJob(test.job_name.clone()))
    );
    assert_eq!(passed.status.last_verified.clone().unwrap().revision, 9);
    let failed = ended(Answer::Failed(Failure::new(FailureKind::Mismatch, "it is damaged")));
    assert_eq!((verified(&failed), failed.status.test.clone()), ("False ChecksumMismatch".to_owned(), None));
    let mut refused = begun.status.clone();
    let seen_then = Seen { schedule: &recorded, backups: &seen, jobs: &[], now: at("2026-11-01T06:35:00Z") };
    let why = super::verify::refused(seen_then, &mut refused, "exceeded quota");
    assert!(why.message().contains("exceeded quota") && refused.test.is_none());
    assert!(why.message().contains("EtcdBackup at-2026-11-01T06:00:00Z"), "{}", why.message());
    let after = next(&schedule(spec.clone(), json!(refused)), &backups, "2026-11-01T06:36:00Z");
    assert_eq!(verified(&after), "False WriteRefused");
    assert!(matches!(after.then, NextAct::Prune { .. }), "the rest goes on: {:?}", after.then);
    // The answer is recorded, and the operator died before it deleted the Job.
    let left = schedule(spec, json!(passed.status));
    let jobs = [(&job, JobOutcome::Running(None))];
    let cleaned =
        decide(Seen { schedule: &left, backups: &seen, jobs: &jobs, now: at("2026-11-01T06:36:00Z") });
    assert_eq!(cleaned.then, NextAct::DeleteJob(test.job_name));
}

/// What the restore test of the newest backup comes to, and then what is next.
fn tested(spec: &Value, status: Value, backups: &[EtcdBackup], answer: Answer, now: &str) -> Decision {
    let begun = next(&schedule(spec.clone(), status), backups, now);
    let test = begun.status.test.clone().unwrap();
    let job = serde_json::from_value(json!({"metadata": {"name": test.job_name, "uid": "j"}})).unwrap();
    let seen: Vec<&EtcdBackup> = backups.iter().collect();
    let recorded = schedule(spec.clone(), json!(begun.status));
    let jobs = [(&job, JobOutcome::Answered(answer))];
    let ended = decide(Seen { schedule: &recorded, backups: &seen, jobs: &jobs, now: at(now) });
    next(&schedule(spec.clone(), json!(ended.status)), backups, now)
}

fn pruned(decision: &Decision) -> (Vec<String>, Option<String>) {
    match &decision.then {
        NextAct::Prune { names, floor } => (names.clone(), floor.clone()),
        NextAct::Test { .. } | NextAct::DeleteJob(_) | NextAct::Wait(_) | NextAct::Edit => (Vec::new(), None),
    }
}

#[test]
fn a_backup_that_cannot_be_restored_does_not_push_out_the_last_one_that_may_be() {
    let spec = json!({"verify": {"schedule": "30 * * * *"}, "retention": {"keepLast": 1}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let name = |time: &str| format!("at-2026-11-01T{time}:00Z");
    let of = |time: &str| child(&format!("2026-11-01T{time}:00Z"), "Complete");
    let failed = |kind| Answer::Failed(Failure::new(kind, "so it was"));
    let two = [of("05:00"), of("06:00")];
    // What says nothing about the backup changes nothing.
    let unavailable = failed(FailureKind::StoreUnavailable);
    let decision = tested(&spec, status.clone(), &two, unavailable, "2026-11-01T06:31:00Z");
    assert_eq!(pruned(&decision), (vec![name("05:00")], Some(name("06:00"))));

    for kind in
        [FailureKind::Mismatch, FailureKind::Unfit, FailureKind::CannotDecrypt, FailureKind::NotInStore]
    {
        let decision = tested(&spec, status.clone(), &two, failed(kind), "2026-11-01T06:31:00Z");
        assert_eq!(pruned(&decision), (Vec::new(), None), "{kind:?}: the older one may be whole");
        let known = &decision.status.failed_tests;
        assert_eq!((known.len(), known[0].backup.as_str()), (1, name("06:00").as_str()), "{kind:?}");
        let verified = decision.status.conditions.iter().find(|one| one.type_ == "Verified").unwrap();
        assert!(verified.message.contains(&name("06:00")), "it names what was tested: {}", verified.message);
    }

    // Later ones may have the same fault, until one passes.
    let decision =
        tested(&spec, status, &two, failed(FailureKind::CannotDecrypt), "2026-11-01T06:31:00Z").status;
    let three = [of("05:00"), of("06:00"), of("07:00")];
    let mut since = json!(decision);
    since["lastScheduled"] = json!("2026-11-01T07:00:00Z");
    let untested = next(&schedule(spec.clone(), since.clone()), &three, "2026-11-01T07:10:00Z");
    assert_eq!(pruned(&untested), (vec![name("06:00")], Some(name("05:00"))));
    let again = failed(FailureKind::CannotDecrypt);
    let again = tested(&spec, since.clone(), &three, again, "2026-11-01T07:31:00Z");
    assert_eq!(pruned(&again), (vec![name("06:00")], Some(name("05:00"))), "the first failure counts");
    let whole = Answer::Verified(Verified { revision: 9, keys: 4, ..Verified::default() });
    let passed = tested(&spec, since.clone(), &three, whole.clone(), "2026-11-01T07:31:00Z");
    assert_eq!(pruned(&passed), (vec![name("05:00"), name("06:00")], Some(name("07:00"))));
    assert!(passed.status.failed_tests.is_empty());

    // That of a new, empty cluster says nothing about those of the old one.
    let mut other = of("07:00");
    other.status.as_mut().unwrap().result.as_mut().unwrap().cluster_id = "b2".to_owned();
    let beside = [of("05:00"), of("06:00"), other.clone()];
    let passed = tested(&spec, since.clone(), &beside, whole, "2026-11-01T07:31:00Z");
    assert_eq!(pruned(&passed), (Vec::new(), None));
    // Nothing is kept in status about a cluster without backups.
    let left = next(&schedule(spec, since), &[other], "2026-11-01T07:10:00Z");
    assert!(left.status.failed_tests.is_empty());
}

/// Its annotations can be written by whoever may create EtcdBackups, or are copied with a manifest.
#[test]
fn a_backup_is_of_the_schedule_only_under_its_own_name_and_for_a_time_that_had_come() {
    let schedule = schedule(json!({}), Value::Null);
    let decision = next(&schedule, &[], "2026-11-24T12:00:10Z");
    let Some(FirstWrite::Create(own)) = decision.first else { panic!("it is due") };
    let own = EtcdBackup { metadata: own.metadata.clone(), ..*own };
    assert!(is_of(&own, &schedule), "before its creation");
    let created = |backup: &EtcdBackup, time: &str| {
        let mut backup = backup.clone();
        backup.metadata.creation_timestamp = serde_json::from_value(json!(time)).unwrap();
        backup
    };
    assert!(is_of(&created(&own, "2026-11-24T12:00:10Z"), &schedule));
    assert!(!is_of(&created(&own, "2026-11-23T12:00:10Z"), &schedule), "a time that was to come");
    let mut copied = own;
    copied.metadata.name = Some("copied".to_owned());
    assert!(!is_of(&copied, &schedule));
}
