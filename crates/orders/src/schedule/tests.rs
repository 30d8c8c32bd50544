//! What is next for an EtcdBackupSchedule, at given times.

use jiff::Timestamp;
use quorate_api::backup::LastLook;
use quorate_api::job::{Answer, Compared, Failure, FailureKind, Looked, Verified};
use quorate_api::{EtcdBackup, EtcdBackupSchedule};
use quorate_model::{ClockDifference, Instant, Span};
use serde_json::{Value, json};

mod catalog;
mod looks;
mod missed;
mod stays;

use super::decide::{Decision, FirstWrite, NextAct, Seen, decide, is_of};
use crate::outcome::JobOutcome;

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

/// The name that the schedule gives to the backup of a time.
fn called(time: &str) -> String {
    super::decide::name(&schedule(json!({}), Value::Null), at(time))
}

fn child(time: &str, phase: &str) -> EtcdBackup {
    let result = json!({"key": "k", "clusterID": "a1", "storedSha256": "s", "storedBytes": 100, "etcdVersion": "3.6.16", "finished": time});
    let result = if phase == "Complete" { result } else { Value::Null };
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": called(time), "namespace": "default", "uid": format!("uid-{time}"),
            "annotations": {"operator.etcd.io/backup-schedule-uid": "0000-00ab", "operator.etcd.io/scheduled-at": time}},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}},
        "status": {"phase": phase, "result": result},
    }))
    .unwrap()
}

/// All of them were seen in the store just now, where a test says nothing else.
fn looked_for(backups: &[EtcdBackup], now: &str) -> Vec<EtcdBackup> {
    let mut backups = backups.to_vec();
    for status in backups.iter_mut().filter_map(|backup| backup.status.as_mut()) {
        let found = LastLook::new(serde_json::from_value(json!(now)).unwrap(), true);
        status.last_look.get_or_insert(found);
    }
    backups
}

fn next(schedule: &EtcdBackupSchedule, backups: &[EtcdBackup], now: &str) -> Decision {
    let backups = looked_for(backups, now);
    let backups: Vec<&EtcdBackup> = backups.iter().collect();
    decide(Seen { schedule, backups: &backups, others: &[], jobs: &[], clock: None, now: at(now) })
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
fn a_schedule_of_before_the_rule_takes_its_backups_of_a_quorum_and_says_so() {
    let spec = json!({"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}, "withoutQuorum": true});
    let old = schedule(json!({"backupTemplate": {"spec": spec}}), Value::Null);
    let decision = next(&old, &[], "2026-11-01T01:00:10Z");
    let Some(FirstWrite::Create(child)) = &decision.first else { panic!("{:?}", decision.first) };
    assert!(!child.spec.without_quorum);
    let ready = decision.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert!(ready.message.contains("withoutQuorum is true, and counts for nothing"), "{}", ready.message);
}

#[test]
fn a_backup_is_created_in_time_once_and_the_next_one_is_announced() {
    let fresh = schedule(json!({}), Value::Null);
    let early = next(&fresh, &[], "2026-11-01T00:45:00Z");
    assert_eq!((created(&early), ready(&early)), (None, "True NoBackupYet".to_owned()));
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
    assert_eq!(ready(&active), "False BackupMissed", "also when it has begun");
    let text = &active.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap().message;
    let name = called("2026-11-01T01:00:00Z");
    assert!(
        text.contains(&format!("of 2026-11-01T06:00:00Z waits: EtcdBackup {name} has not ended")),
        "{text}"
    );
    let mut waits = child("2026-11-01T01:00:00Z", "Pending");
    waits.status.as_mut().unwrap().conditions = serde_json::from_value(json!([{"type": "Pending", "status": "True",
        "reason": "ClusterNotServing", "message": "no quorum", "lastTransitionTime": "2026-11-01T01:00:00Z"}]))
    .unwrap();
    let early = next(&recorded, std::slice::from_ref(&waits), "2026-11-01T01:20:00Z");
    assert_eq!(ready(&early), "True NoBackupYet");
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
fn a_clock_that_was_far_ahead_does_not_stop_the_schedule_until_that_time() {
    let mut ahead = schedule(json!({}), json!({"lastScheduled": "2027-11-01T01:00:00Z"}));
    let noticed = next(&ahead, &[], "2026-11-01T01:10:00Z");
    assert_eq!(created(&noticed), None);
    ahead.status = Some(noticed.status);
    assert_eq!(created(&next(&ahead, &[], "2026-11-01T02:00:00Z")).as_deref(), Some("2026-11-01T02:00:00Z"));
}

#[test]
fn a_schedule_that_is_spread_is_late_by_the_same_time_always_and_its_times_stay_the_same() {
    let spread = |spec: Value, status| schedule(spec, status);
    let fresh = spread(json!({"spread": "30m"}), Value::Null);
    let announced = next(&fresh, &[], "2026-11-01T00:31:00Z").status.next.unwrap().0.to_string();
    assert_eq!(announced, "2026-11-01T01:11:23Z", "the same in every release");
    assert_eq!(created(&next(&fresh, &[], "2026-11-01T01:11:22Z")), None);
    let due = next(&fresh, &[], "2026-11-01T01:11:23Z");
    assert_eq!(
        created(&due).as_deref(),
        Some("2026-11-01T01:00:00Z"),
        "retention counts the time of the schedule"
    );
    assert_eq!(due.status.next.as_ref().unwrap().0.to_string(), "2026-11-01T02:11:23Z");
    // An edit of it gives no time a second backup.
    for spec in [json!({}), json!({"spread": "5m"}), json!({"spread": "0s"}), json!({"spread": "59m"})] {
        let edited = spread(spec, json!(due.status));
        assert_eq!(created(&next(&edited, &[], "2026-11-01T01:59:59Z")), None);
    }
    let strict = spread(json!({"spread": "30m", "startingDeadline": "1m"}), Value::Null);
    assert!(created(&next(&strict, &[], "2026-11-01T01:11:30Z")).is_some(), "that is in time");
    let mut other = fresh.clone();
    other.metadata.uid = Some("0000-00ac".to_owned());
    assert_ne!(next(&other, &[], "2026-11-01T00:31:00Z").status.next.unwrap().0.to_string(), announced);
}

#[test]
fn the_first_backup_is_taken_at_once_where_that_is_asked_for_and_only_the_first() {
    let fresh = schedule(json!({"immediate": true}), Value::Null);
    let first = next(&fresh, &[], "2026-11-01T00:30:01Z");
    assert_eq!(created(&first).as_deref(), Some("2026-11-01T00:30:00Z"));
    let Some(FirstWrite::Create(made)) = &first.first else { panic!() };
    assert!(is_of(made, &fresh));
    let again = next(&fresh, std::slice::from_ref(made), "2026-11-01T00:30:02Z");
    assert_eq!((created(&again), again.status.last_scheduled), (None, first.status.last_scheduled.clone()));
    let recorded = schedule(json!({"immediate": true}), json!(first.status));
    assert_eq!(created(&next(&recorded, &[], "2026-11-01T00:59:59Z")), None);
    assert_eq!(
        created(&next(&recorded, &[], "2026-11-01T01:00:00Z")).as_deref(),
        Some("2026-11-01T01:00:00Z")
    );
    let missed = next(&fresh, &[], "2026-11-01T03:10:00Z");
    assert_eq!(created(&missed).as_deref(), Some("2026-11-01T03:00:00Z"), "one is enough");
}

#[test]
fn a_backup_on_order_is_taken_once_for_each_word() {
    let ordered = |word: &str, spec, status| {
        let mut schedule = schedule(spec, status);
        schedule.metadata.annotations =
            Some([("operator.etcd.io/backup-now".to_owned(), word.to_owned())].into());
        schedule
    };
    let recorded = json!({"lastScheduled": "2026-11-01T01:00:00Z"});
    let now = "2026-11-01T01:20:00.500Z";
    let first = next(&ordered("before-work", json!({}), recorded.clone()), &[], now);
    assert_eq!(created(&first).as_deref(), Some("2026-11-01T01:20:00Z"));
    let Some(FirstWrite::Create(made)) = &first.first else { panic!() };
    let (name, word) = (made.metadata.name.clone().unwrap(), &first.status.orders[0]);
    assert_eq!((word.word.as_str(), word.backup.as_ref()), ("before-work", Some(&name)));
    assert!(name.starts_with("nightly-00abn") && name.len() == "nightly-00ab12345678".len(), "{name}");
    assert_eq!(first.events[0].1.reason().as_str(), "BackupOrdered");
    let schedule = ordered("before-work", json!({}), json!(first.status));
    assert!(is_of(made, &schedule), "it counts as one of the schedule's");
    assert_eq!(created(&next(&schedule, &[], now)), None, "also when it is gone");
    // A crash before the record.
    let again = next(
        &ordered("before-work", json!({}), recorded.clone()),
        std::slice::from_ref(made),
        "2026-11-01T01:21:00Z",
    );
    assert_eq!((created(&again), again.status.orders.len()), (None, 1));
    // Another word, and the first one once more.
    let second = next(&ordered("again", json!({}), json!(first.status)), &[], now);
    assert!(created(&second).is_some());
    assert_eq!(created(&next(&ordered("before-work", json!({}), json!(second.status)), &[], now)), None);
    // What cannot be carried out now is not carried out later.
    let rests = next(&ordered("w", json!({"suspend": true}), recorded.clone()), &[], now);
    assert_eq!((created(&rests), rests.events[0].1.reason().as_str()), (None, "BackupMissed"));
    assert_eq!(created(&next(&ordered("w", json!({}), json!(rests.status)), &[], now)), None);
    let long = next(&ordered(&"w".repeat(64), json!({}), recorded), &[], now);
    assert_eq!((created(&long), long.status.orders.len()), (None, 0));
    // It waits for none that is under way: the queue does that.
    let beside = next(
        &ordered("x", json!({}), json!({"lastScheduled": "2026-11-01T01:00:00Z"})),
        &[child("2026-11-01T01:00:00Z", "Running")],
        now,
    );
    assert!(created(&beside).is_some());
}

#[test]
fn o12_the_status_counts_backups_that_are_being_deleted() {
    let mut going = [child("2026-11-01T01:00:00Z", "Failed"), child("2026-11-01T02:00:00Z", "Deleting")];
    for one in &mut going {
        one.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-01T02:30:00Z")).unwrap();
    }
    let status = json!({"lastScheduled": "2026-11-01T02:00:00Z"});
    assert_eq!(next(&schedule(json!({}), status), &going, "2026-11-01T02:31:00Z").status.deleting, 2);
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
    assert_eq!((ready(&decision), created(&decision)), ("True Suspended".to_owned(), None));
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
    let (names, floor) = pruned(&first);
    assert_eq!(names, [called("2026-11-01T03:00:00Z"), called("2026-11-01T05:00:00Z")]);
    assert_eq!(
        floor.as_deref(),
        Some(called("2026-11-01T04:00:00Z").as_str()),
        "kept although it is too old for the rule"
    );
    let second = next(&schedule(spec.clone(), json!(first.status)), &backups[1..], "2026-11-01T06:30:00Z");
    assert_eq!(second.status.consecutive_failures, 2, "each counts once");
    let good = [backups[3].clone(), child("2026-11-01T07:00:00Z", "Complete")];
    let status = json!(second.status);
    let third = next(&schedule(spec, status), &good, "2026-11-01T07:10:00Z");
    assert_eq!((ready(&third), third.status.consecutive_failures), ("True BackupsHealthy".to_owned(), 0));
    assert_eq!(third.status.last_success.unwrap().0.to_string(), "2026-11-01T07:00:00Z");
}

#[test]
fn a_failed_backup_of_the_second_of_a_good_one_is_counted_once_until_the_next_good_one() {
    let mut ordered = child("2026-11-01T06:00:00Z", "Failed");
    ordered.metadata.name = Some("nightly-00abnabcdefg".to_owned());
    let backups = [child("2026-11-01T06:00:00Z", "Complete"), ordered];
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let first = next(&schedule(json!({}), status), &backups, "2026-11-01T06:20:00Z");
    assert_eq!((ready(&first), first.status.consecutive_failures), ("False BackupFailing".to_owned(), 1));
    let second = next(&schedule(json!({}), json!(first.status)), &backups, "2026-11-01T06:30:00Z");
    assert_eq!((ready(&second), second.status.consecutive_failures), ("False BackupFailing".to_owned(), 1));
    let [complete, failed] = backups;
    let all = [complete, failed, child("2026-11-01T07:00:00Z", "Complete")];
    let third = next(&schedule(json!({}), json!(second.status)), &all, "2026-11-01T07:10:00Z");
    assert_eq!((ready(&third), third.status.consecutive_failures), ("True BackupsHealthy".to_owned(), 0));
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
    let (names, _) = pruned(&decision);
    assert_eq!(names, [called("2026-11-01T04:00:00Z")]);
}

#[test]
fn a_restore_test_is_recorded_then_made_of_the_newest_good_backup_and_its_answer_is_kept() {
    let spec = json!({"verify": {"schedule": "30 * * * *"}, "retention": {"keepLast": 1}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let backups = [child("2026-11-01T05:00:00Z", "Complete"), child("2026-11-01T06:00:00Z", "Complete")];
    let begun = next(&schedule(spec.clone(), status), &backups, "2026-11-01T06:31:00Z");
    let test = begun.status.test.clone().unwrap();
    assert_eq!(test.backup, called("2026-11-01T06:00:00Z"));
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
        decide(Seen {
            schedule: &recorded,
            backups: &seen,
            others: &[],
            jobs: &jobs,
            clock: None,
            now: at("2026-11-01T06:35:00Z"),
        })
    };
    let compared = vec![Compared::Revision, Compared::Keys];
    let result = Verified { revision: 9, keys: 4, compared: compared.clone(), ..Verified::default() };
    let passed = ended(Answer::Verified(result));
    let verified = |decision: &Decision| {
        let one = decision.status.conditions.iter().find(|one| one.type_ == "Verified").unwrap();
        format!("{} {}", one.status, one.reason)
    };
    assert_eq!(
        (verified(&passed), &passed.then),
        ("True RestoreTested".to_owned(), &NextAct::DeleteJob(test.job_name.clone()))
    );
    let last = passed.status.last_verified.clone().unwrap();
    assert_eq!((last.revision, last.compared), (9, compared));
    let failed = ended(Answer::Failed(Failure::new(FailureKind::Mismatch, "it is damaged")));
    assert_eq!((verified(&failed), failed.status.test.clone()), ("False ChecksumMismatch".to_owned(), None));
    let mut refused = begun.status.clone();
    let seen_then = Seen {
        schedule: &recorded,
        backups: &seen,
        others: &[],
        jobs: &[],
        clock: None,
        now: at("2026-11-01T06:35:00Z"),
    };
    let why = super::verify::refused(seen_then, &mut refused, "exceeded quota");
    assert!(why.message().contains("exceeded quota") && refused.test.is_none());
    assert!(
        why.message().contains(&format!("EtcdBackup {}", called("2026-11-01T06:00:00Z"))),
        "{}",
        why.message()
    );
    let after = next(&schedule(spec.clone(), json!(refused)), &backups, "2026-11-01T06:36:00Z");
    assert_eq!(verified(&after), "False WriteRefused");
    assert!(matches!(after.then, NextAct::Prune(_)), "the rest goes on: {:?}", after.then);
    // The answer is recorded, and the operator died before it deleted the Job.
    let left = schedule(spec, json!(passed.status));
    let jobs = [(&job, JobOutcome::Running(None))];
    let cleaned = decide(Seen {
        schedule: &left,
        backups: &seen,
        others: &[],
        jobs: &jobs,
        clock: None,
        now: at("2026-11-01T06:36:00Z"),
    });
    assert_eq!(cleaned.then, NextAct::DeleteJob(test.job_name));
}

/// What the restore test of the newest backup comes to, and then what is next.
fn tested(spec: &Value, status: Value, backups: &[EtcdBackup], answer: Answer, now: &str) -> Decision {
    let begun = next(&schedule(spec.clone(), status), backups, now);
    let test = begun.status.test.clone().unwrap();
    let job = serde_json::from_value(json!({"metadata": {"name": test.job_name, "uid": "j"}})).unwrap();
    let looked_for = looked_for(backups, now);
    let seen: Vec<&EtcdBackup> = looked_for.iter().collect();
    let recorded = schedule(spec.clone(), json!(begun.status));
    let jobs = [(&job, JobOutcome::Answered(answer))];
    let ended = decide(Seen {
        schedule: &recorded,
        backups: &seen,
        others: &[],
        jobs: &jobs,
        clock: None,
        now: at(now),
    });
    next(&schedule(spec.clone(), json!(ended.status)), backups, now)
}

fn pruned(decision: &Decision) -> (Vec<String>, Option<String>) {
    match &decision.then {
        NextAct::Prune(all) => {
            let names = all.iter().map(|one| one.name.clone()).collect();
            (names, all.iter().find_map(|one| one.keeper.clone()))
        }
        NextAct::Test { .. }
        | NextAct::Look { .. }
        | NextAct::List { .. }
        | NextAct::DeleteJob(_)
        | NextAct::Wait(_)
        | NextAct::Edit => (Vec::new(), None),
    }
}

#[test]
fn a_backup_that_cannot_be_restored_does_not_push_out_the_last_one_that_may_be() {
    let spec = json!({"verify": {"schedule": "30 * * * *"}, "retention": {"keepLast": 1}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let name = |time: &str| called(&format!("2026-11-01T{time}:00Z"));
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

/// The condition of the schedule about what is in the store.
fn in_store(decision: &Decision) -> String {
    let one = decision.status.conditions.iter().find(|one| one.type_ == "InStore").unwrap();
    format!("{} {}", one.status, one.reason)
}

/// What is next when the look in the status has answered so, and its Job was created at this time.
fn answered(
    schedule: &EtcdBackupSchedule,
    backups: &[EtcdBackup],
    begun: &Decision,
    answer: Answer,
    now: &str,
) -> Decision {
    let name = begun.status.look.as_ref().unwrap().job_name.clone();
    let job = json!({"metadata": {"name": name, "uid": "j", "creationTimestamp": now}});
    let job = serde_json::from_value(job).unwrap();
    let mut recorded = schedule.clone();
    recorded.status = Some(begun.status.clone());
    let seen: Vec<&EtcdBackup> = backups.iter().collect();
    let jobs = [(&job, JobOutcome::Answered(answer))];
    decide(Seen { schedule: &recorded, backups: &seen, others: &[], jobs: &jobs, clock: None, now: at(now) })
}

/// The backups with what a decision has written into them.
fn with_sightings(backups: &[EtcdBackup], decision: &Decision) -> Vec<EtcdBackup> {
    let mut backups = backups.to_vec();
    for found in &decision.sightings {
        let backup =
            backups.iter_mut().find(|backup| backup.metadata.name.as_ref() == Some(&found.backup)).unwrap();
        backup.status = Some(found.status_of(backup, Instant(found.look.time.0.as_millisecond())));
    }
    backups
}

#[test]
fn o15_before_a_deletion_the_one_that_stays_is_looked_for_in_the_store() {
    let spec = json!({"retention": {"keepLast": 1}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let backups = [child("2026-11-01T05:00:00Z", "Complete"), child("2026-11-01T06:00:00Z", "Complete")];
    let plain = |schedule: &EtcdBackupSchedule, backups: &[EtcdBackup], now: &str| {
        let seen: Vec<&EtcdBackup> = backups.iter().collect();
        decide(Seen { schedule, backups: &seen, others: &[], jobs: &[], clock: None, now: at(now) })
    };
    let of = |status: Value| schedule(spec.clone(), status);
    let soon = plain(&of(status.clone()), &backups, "2026-11-01T06:10:00Z");
    assert_eq!(pruned(&soon).0.len(), 1, "the Job that wrote it has just seen it");
    let begun = plain(&of(status.clone()), &backups, "2026-11-01T06:20:00Z");
    let NextAct::Look { order, .. } = &begun.then else { panic!("{:?}", begun.then) };
    assert_eq!(order.objects.len(), 1);
    assert_eq!(
        (order.objects[0].backup.as_str(), order.objects[0].sha256.as_str()),
        (&*called("2026-11-01T06:00:00Z"), "s")
    );
    // A crash after the record: the same Job.
    let recorded = of(json!(begun.status));
    let again = plain(&recorded, &backups, "2026-11-01T06:20:30Z");
    assert_eq!((&again.then, &again.status.look), (&begun.then, &begun.status.look));

    let there = Answer::Looked(Looked::default());
    let found = answered(&recorded, &backups, &begun, there, "2026-11-01T06:21:00Z");
    assert_eq!(found.then, NextAct::DeleteJob(begun.status.look.as_ref().unwrap().job_name.clone()));
    assert!(found.status.look.is_none() && found.events.is_empty());
    let then = plain(&of(json!(found.status)), &with_sightings(&backups, &found), "2026-11-01T06:22:00Z");
    assert_eq!(pruned(&then), (vec![called("2026-11-01T05:00:00Z")], Some(called("2026-11-01T06:00:00Z"))));
    assert_eq!(in_store(&then), "True SeenInStore");

    // While the next one is under way nothing is looked for: it will have been seen itself.
    let active = [backups.as_slice(), &[child("2026-11-01T07:00:00Z", "Pending")]].concat();
    let waits = plain(&of(json!({"lastScheduled": "2026-11-01T07:00:00Z"})), &active, "2026-11-01T07:20:00Z");
    assert!(matches!(waits.then, NextAct::Wait(_)), "{:?}", waits.then);
}

#[test]
fn o15_a_backup_that_is_gone_from_the_store_is_no_success_and_pushes_out_nothing() {
    let spec = json!({"retention": {"keepLast": 1}, "verify": {"schedule": "30 * * * *"}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z", "lastTest": "2026-11-01T05:30:00Z",
        "lastSuccess": "2026-11-01T06:00:00Z"});
    let time = |hour: u8| format!("2026-11-01T{hour:02}:00:00Z");
    let mut backups: Vec<EtcdBackup> = (4..=6).map(|hour| child(&time(hour), "Complete")).collect();
    let complete = json!([{"type": "Complete", "status": "True", "reason": "BackupComplete", "message": "",
        "lastTransitionTime": time(6)}]);
    backups[2].status.as_mut().unwrap().conditions = serde_json::from_value(complete).unwrap();
    let seen: Vec<&EtcdBackup> = backups.iter().collect();
    let of = schedule(spec, status);
    let begun = decide(Seen {
        schedule: &of,
        backups: &seen,
        others: &[],
        jobs: &[],
        clock: None,
        now: at("2026-11-01T06:20:00Z"),
    });
    let gone = Looked { gone: vec![called(&time(6))], ..Looked::default() };
    let found = answered(&of, &backups, &begun, Answer::Looked(gone.clone()), "2026-11-01T06:21:00Z");
    let (warning, event) = &found.events[0];
    assert!(*warning && event.message().contains(&called(&time(6))), "{event}");
    let backups = with_sightings(&backups, &found);
    let lost = backups.iter().find(|backup| backup.metadata.name == Some(called(&time(6)))).unwrap();
    for (type_, is) in [("InStore", "False"), ("Ready", "False"), ("Stalled", "True")] {
        let conditions = &lost.status.as_ref().unwrap().conditions;
        let one = conditions.iter().find(|one| one.type_ == type_).unwrap();
        assert_eq!((one.status.as_str(), one.reason.as_str()), (is, "GoneFromStore"), "{type_}");
    }
    let mut since = of.clone();
    since.status = Some(found.status);
    let after = next(&since, &backups, "2026-11-01T06:22:00Z");
    assert_eq!(
        (ready(&after), in_store(&after)),
        ("False GoneFromStore".to_owned(), "False GoneFromStore".to_owned())
    );
    assert_eq!(after.status.last_success.as_ref().unwrap().0.to_string(), time(5));
    assert_eq!(
        pruned(&after),
        (vec![called(&time(4))], Some(called(&time(5)))),
        "that of five is the last one"
    );
    let mut told = since.clone();
    told.status = Some(after.status.clone());
    let health = super::health("demo", [&told].into_iter(), at("2026-11-01T06:22:00Z")).unwrap();
    assert_eq!((health.healthy, health.why.reason().as_str()), (Some(false), "GoneFromStore"));
    // A restore test is of what is there.
    let tested = next(&since, &backups, "2026-11-01T06:31:00Z");
    assert_eq!(tested.status.test.unwrap().backup, called(&time(5)));
    // Before anything is deleted in its favour, the one that is left is looked for.
    let plain = |schedule: &EtcdBackupSchedule, now: &str| {
        let seen: Vec<&EtcdBackup> = backups.iter().collect();
        decide(Seen { schedule, backups: &seen, others: &[], jobs: &[], clock: None, now: at(now) })
    };
    let left = plain(&since, "2026-11-01T06:22:00Z");
    assert_eq!(left.status.look.unwrap().backups, [called(&time(5))]);
    // It is looked for again each hour, since a person may have put it back.
    let mut late = since.clone();
    late.spec.retention = None;
    late.spec.verify = None;
    late.status.as_mut().unwrap().last_scheduled = serde_json::from_value(json!(time(7))).unwrap();
    assert!(matches!(plain(&late, "2026-11-01T07:20:00Z").then, NextAct::Wait(_)));
    let begun = plain(&late, "2026-11-01T07:22:00Z");
    assert!(matches!(begun.then, NextAct::Look { .. }), "{:?}", begun.then);
    let still = answered(&late, &backups, &begun, Answer::Looked(gone), "2026-11-01T07:23:00Z");
    assert!(still.events.is_empty());
    let back = answered(&late, &backups, &begun, Answer::Looked(Looked::default()), "2026-11-01T07:23:00Z");
    let whole = next(&late, &with_sightings(&backups, &back), "2026-11-01T07:24:00Z");
    assert_eq!(
        (ready(&whole), in_store(&whole)),
        ("True BackupsHealthy".to_owned(), "True SeenInStore".to_owned())
    );
    // Without its bucket nothing is left.
    let lost = Failure::new(FailureKind::NotInStore, "the bucket does not exist");
    let none = answered(&late, &backups, &begun, Answer::Failed(lost), "2026-11-01T07:23:00Z");
    assert!(!none.sightings.is_empty() && none.sightings.iter().all(|one| !one.look.found));
}

#[test]
fn o15_each_backup_is_looked_for_once_a_day_and_a_store_that_refuses_says_nothing_about_it() {
    let status = json!({"lastScheduled": "2026-11-05T06:00:00Z"});
    let mut backups: Vec<EtcdBackup> =
        (1..=3).map(|day| child(&format!("2026-11-0{day}T06:00:00Z"), "Complete")).collect();
    backups[0].spec.destination.s3.as_mut().unwrap().bucket = "of-before".to_owned();
    let of = schedule(json!({}), status);
    let all = |backups: &[EtcdBackup], schedule: &EtcdBackupSchedule, now: &str| {
        let seen: Vec<&EtcdBackup> = backups.iter().collect();
        decide(Seen { schedule, backups: &seen, others: &[], jobs: &[], clock: None, now: at(now) })
    };
    let names = |decision: &Decision| decision.status.look.as_ref().map(|look| look.backups.clone());
    let begun = all(&backups, &of, "2026-11-05T06:10:00Z");
    assert_eq!(
        names(&begun).unwrap(),
        [called("2026-11-03T06:00:00Z"), called("2026-11-02T06:00:00Z")],
        "of one place"
    );
    let refused = Failure::new(FailureKind::StoreForbidden, "the store refuses the credentials");
    let failed = answered(&of, &backups, &begun, Answer::Failed(refused), "2026-11-05T06:11:00Z");
    assert!(failed.sightings.is_empty());
    assert_eq!(in_store(&failed), "Unknown StoreForbidden");
    let mut since = of.clone();
    since.status = Some(failed.status);
    let waits = all(&backups, &since, "2026-11-05T06:30:00Z");
    assert!(matches!(waits.then, NextAct::Wait(_)), "{:?}", waits.then);
    assert_eq!(in_store(&waits), "Unknown StoreForbidden");
    // It does not keep the other place from being looked at.
    let other = all(&backups, &since, "2026-11-05T07:11:30Z");
    assert_eq!(names(&other).unwrap(), [called("2026-11-01T06:00:00Z")]);
    let calm = all(&looked_for(&backups, "2026-11-05T06:00:00Z"), &of, "2026-11-06T05:00:00Z");
    assert_eq!(names(&calm), None, "not within a day");
    let mut resting = since;
    resting.spec.suspend = true;
    assert_eq!(
        names(&all(&backups, &resting, "2026-11-05T09:00:00Z")),
        names(&begun),
        "the record stays, and nothing begins"
    );
    assert!(!matches!(all(&backups, &resting, "2026-11-05T09:00:00Z").then, NextAct::Look { .. }));
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

fn of_revision(time: &str, revision: i64) -> EtcdBackup {
    let mut backup = child(time, "Complete");
    backup.status.as_mut().unwrap().result.as_mut().unwrap().revision = revision;
    backup
}

#[test]
fn o11_until_its_time_comes_a_backup_of_clocks_that_were_ahead_hides_no_failure_and_is_not_tested() {
    let spec = json!({"verify": {"schedule": "30 6 * * *"}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let backups = [
        of_revision("2026-11-01T05:00:00Z", 5),
        child("2026-11-01T06:00:00Z", "Failed"),
        of_revision("2026-11-01T09:00:00Z", 4),
    ];
    let begun = next(&schedule(spec, status), &backups, "2026-11-01T06:31:00Z");
    assert_eq!(begun.status.test.as_ref().unwrap().backup, called("2026-11-01T05:00:00Z"));
    assert_eq!((begun.status.consecutive_failures, ready(&begun).as_str()), (1, "False BackupFailing"));
}

#[test]
fn o11_a_time_whose_name_a_backup_of_clocks_that_were_ahead_has_is_reported_as_missed() {
    let of = schedule(json!({}), json!({"lastScheduled": "2026-11-01T08:00:00Z"}));
    let told = |ahead: i64| {
        let backups = [of_revision("2026-11-01T08:00:00Z", 8), of_revision("2026-11-01T09:00:00Z", ahead)];
        let next = next(&of, &backups, "2026-11-01T09:00:10Z");
        assert_eq!(created(&next), None);
        next.events.iter().map(|(_, why)| why.reason().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(told(5), ["BackupMissed"]);
    assert!(told(9).is_empty(), "a crash came before the record");
}

/// A backup of a time that is still to come by the API server's clock is nobody's, and has the name when that comes.
#[test]
fn o11_while_the_operators_clock_is_ahead_times_come_by_the_api_servers() {
    let of = schedule(json!({}), json!({"lastScheduled": "2026-11-01T06:00:00Z"}));
    let ahead = |now: &str| {
        let clock = Some(ClockDifference::Ahead(Span::seconds(3 * 3600)));
        decide(Seen { schedule: &of, backups: &[], others: &[], jobs: &[], clock, now: at(now) })
    };
    let early = ahead("2026-11-01T09:59:00Z");
    assert_eq!(created(&early), None);
    assert_eq!(early.status.next.as_ref().unwrap().0.to_string(), "2026-11-01T07:00:00Z");
    assert_eq!(early.then, NextAct::Wait(Some(at("2026-11-01T10:00:00Z"))));
    assert_eq!(created(&ahead("2026-11-01T10:00:10Z")).unwrap(), "2026-11-01T07:00:00Z");
}

#[test]
fn o04_a_backup_in_the_store_of_another_person_is_neither_tested_nor_hides_failures() {
    let spec = json!({"verify": {"schedule": "30 6 * * *"}});
    let status = json!({"lastScheduled": "2026-11-01T06:00:00Z"});
    let mut forged = child("2026-11-01T06:10:00Z", "Complete");
    forged.spec.destination.s3.as_mut().unwrap().bucket = "his-own".to_owned();
    let backups =
        [child("2026-11-01T05:00:00Z", "Complete"), child("2026-11-01T06:00:00Z", "Failed"), forged];
    let begun = next(&schedule(spec, status), &backups, "2026-11-01T06:31:00Z");
    assert_eq!(begun.status.test.as_ref().unwrap().backup, called("2026-11-01T05:00:00Z"));
    assert_eq!((begun.status.consecutive_failures, ready(&begun).as_str()), (1, "False BackupFailing"));
}
