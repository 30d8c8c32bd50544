//! Looks into the store, and what waits, by clocks that are wrong and for Pods that do not run.

use quorate_api::job::{ObjectMark, ReadObject};
use quorate_model::{ClockDifference, Span};

use super::*;

/// What is next, with nothing but what the backups have recorded themselves.
fn plain(schedule: &EtcdBackupSchedule, backups: &[EtcdBackup], now: &str) -> Decision {
    let seen: Vec<&EtcdBackup> = backups.iter().collect();
    decide(Seen { schedule, backups: &seen, others: &[], jobs: &[], clock: None, now: at(now) })
}

fn looks_for(decision: &Decision) -> Option<Vec<String>> {
    let begins = matches!(decision.then, NextAct::Look { .. });
    decision.status.look.as_ref().filter(|_| begins).map(|look| look.backups.clone())
}

/// A schedule with nothing due but looks, and its only backup, of six o'clock, finished by the clock of its node.
fn of_a_node(finished: &str) -> (EtcdBackupSchedule, EtcdBackup) {
    let mut backup = child("2026-11-01T06:00:00Z", "Complete");
    backup.status.as_mut().unwrap().result.as_mut().unwrap().finished =
        serde_json::from_value(json!(finished)).unwrap();
    let spec = json!({"schedule": "0 6 * * *", "retention": {"keepLast": 1}});
    (schedule(spec, json!({"lastScheduled": "2026-11-01T06:00:00Z"})), backup)
}

#[test]
fn o15_the_clock_of_a_node_that_is_ahead_neither_repeats_looks_nor_ends_them() {
    for ahead in ["2026-11-01T06:30:00Z", "2026-11-01T09:00:00Z", "2046-11-01T06:00:00Z"] {
        let (schedule, backup) = of_a_node(ahead);
        let backups = [child("2026-10-31T06:00:00Z", "Complete"), backup];
        let begun = plain(&schedule, &backups, "2026-11-02T05:00:00Z");
        assert!(looks_for(&begun).is_some(), "{ahead}");
        let there = Answer::Looked(Looked::default());
        let found = answered(&schedule, &backups, &begun, there, "2026-11-02T05:01:00Z");
        let backups = with_sightings(&backups, &found);
        let mut since = schedule.clone();
        since.status = Some(found.status);
        let next = plain(&since, &backups, "2026-11-02T05:02:00Z");
        assert_eq!(looks_for(&next), None, "{ahead}: it was seen a minute ago");
        assert_eq!(pruned(&next).0.len(), 1, "{ahead}");
    }
}

#[test]
fn o15_what_a_node_says_of_the_time_counts_only_until_the_operator_has_recorded_it() {
    let (schedule, mut backup) = of_a_node("2026-11-01T06:25:00Z");
    let complete = json!([{"type": "Complete", "status": "True", "reason": "BackupComplete", "message": "",
        "lastTransitionTime": "2026-11-01T06:05:00Z"}]);
    backup.status.as_mut().unwrap().conditions = serde_json::from_value(complete).unwrap();
    let backups = [child("2026-10-31T06:00:00Z", "Complete"), backup];
    let soon = plain(&schedule, &backups, "2026-11-01T06:19:00Z");
    assert!(!soon.status.look.is_some_and(|look| look.backups.contains(&called("2026-11-01T06:00:00Z"))));
    let late = plain(&schedule, &backups, "2026-11-01T06:26:00Z");
    assert!(looks_for(&late).unwrap().contains(&called("2026-11-01T06:00:00Z")));
}

#[test]
fn o15_nothing_is_looked_for_by_a_clock_that_differs() {
    let (schedule, backup) = of_a_node("2026-11-01T06:00:30Z");
    let clock = Some(ClockDifference::Ahead(Span::seconds(90)));
    let now = at("2026-11-03T05:00:00Z");
    let differs =
        decide(Seen { schedule: &schedule, backups: &[&backup], others: &[], jobs: &[], clock, now });
    assert_eq!((looks_for(&differs), differs.status.look), (None, None));
    let agrees =
        decide(Seen { schedule: &schedule, backups: &[&backup], others: &[], jobs: &[], clock: None, now });
    assert!(agrees.status.look.is_some());
}

#[test]
fn o15_each_backup_that_is_gone_is_looked_for_again_within_an_hour() {
    let (mut schedule, backup) = of_a_node("2026-11-01T06:00:30Z");
    schedule.spec.retention = None;
    let mut older = child("2026-10-31T06:00:00Z", "Complete");
    let time = serde_json::from_value(json!("2026-11-01T06:10:00Z")).unwrap();
    older.status.as_mut().unwrap().last_look = Some(LastLook::new(time, false));
    let backups = [older, backup];
    assert_eq!(looks_for(&plain(&schedule, &backups, "2026-11-01T07:09:00Z")), None);
    let again = looks_for(&plain(&schedule, &backups, "2026-11-01T07:10:00Z"));
    assert_eq!(again.unwrap(), [called("2026-10-31T06:00:00Z")]);
}

#[test]
fn o15_the_clock_of_a_node_that_is_ahead_once_hides_no_overdue_backup() {
    let (mut schedule, mut backup) = of_a_node("2027-06-01T00:00:00Z");
    schedule.spec.retention = None;
    let complete = json!([{"type": "Complete", "status": "True", "reason": "BackupComplete", "message": "",
        "lastTransitionTime": "2026-11-01T06:05:00Z"}]);
    backup.status.as_mut().unwrap().conditions = serde_json::from_value(complete).unwrap();
    let now = "2026-11-01T06:10:00Z";
    let last = |decision: &Decision| decision.status.last_success.as_ref().map(|time| time.0.to_string());
    assert_eq!(last(&plain(&schedule, &[backup.clone()], now)).as_deref(), Some("2026-11-01T06:05:00Z"));
    // What an earlier look told is corrected, also without a backup that says better.
    let told = serde_json::from_value(json!("2027-06-01T00:00:00Z")).unwrap();
    schedule.status.as_mut().unwrap().last_success = told;
    assert_eq!(last(&plain(&schedule, &[backup], now)).as_deref(), Some("2026-11-01T06:05:00Z"));
    assert_eq!(last(&plain(&schedule, &[], now)), None);
}

#[test]
fn o12_backups_of_before_a_secret_had_another_name_are_looked_for_with_the_new_one() {
    let (mut schedule, backup) = of_a_node("2026-11-01T06:00:30Z");
    let backups = [child("2026-10-31T06:00:00Z", "Complete"), backup];
    let secret = Some(quorate_api::destination::SecretName { name: "s3-of-june".to_owned() });
    let s3 = schedule.spec.backup_template.spec.destination.s3.as_mut().unwrap();
    s3.credentials_secret.clone_from(&secret);
    let begun = plain(&schedule, &backups, "2026-11-02T07:20:00Z");
    let NextAct::Look { order, .. } = &begun.then else { panic!("{:?}", begun.then) };
    assert_eq!(order.objects.len(), 2);
    assert_eq!(order.destination.s3.as_ref().unwrap().credentials_secret, secret);
}

fn read_by(decision: &Decision) -> Vec<String> {
    decision.status.look.as_ref().map(|look| look.read.clone()).unwrap_or_default()
}

#[test]
fn o15_one_object_a_day_is_read_to_its_end_and_the_one_that_was_read_longest_ago() {
    let day = |day: u8| format!("2026-11-{day:02}T06:00:00Z");
    let mut backups: Vec<EtcdBackup> = (1..=3).map(|date| child(&day(date), "Complete")).collect();
    let of = schedule(json!({}), json!({"lastScheduled": "2026-11-05T06:00:00Z"}));
    for (oldest, today) in [(1, 5), (2, 6), (3, 7), (1, 8)] {
        let now = format!("2026-11-{today:02}T06:10:00Z");
        let begun = plain(&of, &backups, &now);
        assert_eq!(read_by(&begun), [called(&day(oldest))], "{now}");
        // A second look of the day reads nothing.
        let mark = Some(ObjectMark { etag: Some("e".to_owned()), ..ObjectMark::default() });
        let read = vec![ReadObject { backup: called(&day(oldest)), mark: mark.clone() }];
        let there = Answer::Looked(Looked { read, ..Looked::default() });
        let found = answered(&of, &backups, &begun, there, &now);
        backups = with_sightings(&backups, &found);
        let look = backups[usize::from(oldest) - 1].status.as_ref().unwrap().last_look.clone().unwrap();
        assert_eq!((look.found, look.read.as_ref(), &look.mark), (true, Some(&look.time), &mark));
    }
}

#[test]
fn o15_an_object_that_was_written_again_is_no_backup_until_its_bytes_were_read() {
    let (schedule, backup) = of_a_node("2026-11-01T06:00:30Z");
    let backups = [child("2026-10-31T06:00:00Z", "Complete"), backup];
    let newest = called("2026-11-01T06:00:00Z");
    let begun = plain(&schedule, &backups, "2026-11-01T06:20:00Z");
    let again = Answer::Looked(Looked { rewritten: vec![newest.clone()], ..Looked::default() });
    let found = answered(&schedule, &backups, &begun, again, "2026-11-01T06:21:00Z");
    let (warning, _) = &found.events[0];
    assert!(*warning);
    let doubted = with_sightings(&backups, &found);
    let in_store = |backup: &EtcdBackup| {
        let conditions = &backup.status.as_ref().unwrap().conditions;
        let one = conditions.iter().find(|one| one.type_ == "InStore").unwrap().clone();
        (one.status, one.reason, one.message)
    };
    let (is, reason, _) = in_store(&doubted[1]);
    assert_eq!((is.as_str(), reason.as_str()), ("False", "ChangedInStore"));
    // Nothing is deleted in its favour, and within an hour it is read.
    let mut since = schedule.clone();
    since.status = Some(found.status);
    assert!(pruned(&plain(&since, &doubted, "2026-11-01T06:22:00Z")).0.is_empty());
    let next = plain(&since, &doubted, "2026-11-01T07:30:00Z");
    assert!(read_by(&next).contains(&newest), "{:?}", next.status.look);
    let read = vec![ReadObject { backup: newest.clone(), mark: None }];
    let whole = Answer::Looked(Looked { read, ..Looked::default() });
    let found = answered(&since, &doubted, &next, whole, "2026-11-01T07:31:00Z");
    let (is, reason, text) = in_store(&with_sightings(&doubted, &found)[1]);
    assert_eq!((is.as_str(), reason.as_str()), ("True", "SeenInStore"));
    assert!(text.contains("read the object to its end"), "{text}");
    let changed = Answer::Looked(Looked { changed: vec![newest], ..Looked::default() });
    let found = answered(&since, &doubted, &next, changed, "2026-11-01T07:31:00Z");
    assert_eq!(in_store(&with_sightings(&doubted, &found)[1]).1, "GoneFromStore");
}

#[test]
fn o15_what_was_read_and_is_spoilt_is_believed_again_by_no_look_that_does_not_read_it() {
    let day = |day: u8| format!("2026-11-{day:02}T06:00:00Z");
    let mut backups: Vec<EtcdBackup> = (1..=5).map(|date| child(&day(date), "Complete")).collect();
    for backup in &mut backups {
        let time = serde_json::from_value(json!(day(6))).unwrap();
        backup.status.as_mut().unwrap().last_look = Some(LastLook::new(time, false));
    }
    let of = schedule(json!({}), json!({"lastScheduled": "2026-11-06T06:00:00Z"}));
    let first = plain(&of, &backups, "2026-11-06T07:10:00Z");
    let look = first.status.look.clone().unwrap();
    assert_eq!((look.backups.len(), &look.backups), (3, &look.read), "each of them is read");
    // The others keep what was found, and come next.
    let changed = Answer::Looked(Looked { changed: look.backups.clone(), ..Looked::default() });
    let found = answered(&of, &backups, &first, changed, "2026-11-06T07:11:00Z");
    let backups = with_sightings(&backups, &found);
    assert!(backups.iter().all(|backup| !backup.status.as_ref().unwrap().last_look.as_ref().unwrap().found));
    let mut since = of;
    since.status = Some(found.status);
    let next = plain(&since, &backups, "2026-11-06T07:12:00Z").status.look.unwrap();
    assert_eq!((next.backups.len(), &next.backups), (2, &next.read));
    assert!(next.backups.iter().all(|name| !look.backups.contains(name)));
}

#[test]
fn o12_a_backup_on_order_waits_while_the_clocks_differ() {
    let mut ordered = schedule(json!({}), json!({"lastScheduled": "2026-11-01T06:00:00Z"}));
    ordered.metadata.annotations =
        Some([("operator.etcd.io/backup-now".to_owned(), "please".to_owned())].into_iter().collect());
    let by = |clock| {
        decide(Seen {
            schedule: &ordered,
            backups: &[],
            others: &[],
            jobs: &[],
            clock,
            now: at("2026-11-01T06:10:00Z"),
        })
    };
    let waits = by(Some(ClockDifference::Ahead(Span::seconds(90))));
    assert!(waits.first.is_none() && waits.status.orders.is_empty() && waits.events.is_empty());
    let told = &waits.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap().message;
    assert!(told.contains("The backup by operator.etcd.io/backup-now waits meanwhile"), "{told}");
    assert!(by(None).first.is_some());
}

fn job(name: &str) -> k8s_openapi::api::batch::v1::Job {
    let job = json!({"metadata": {"name": name, "uid": "j", "creationTimestamp": "2026-11-02T05:00:00Z"}});
    serde_json::from_value(job).unwrap()
}

const REFUSED: &str = "no Pod of Job x is admitted: exceeded quota: small";

/// The status after these outcomes of one Job, one after another.
fn after(
    schedule: &EtcdBackupSchedule,
    backups: &[EtcdBackup],
    name: &str,
    outcomes: &[JobOutcome],
) -> Decision {
    let (job, seen) = (job(name), backups.iter().collect::<Vec<_>>());
    let mut recorded = schedule.clone();
    let mut last = None;
    for outcome in outcomes {
        let jobs = [(&job, outcome.clone())];
        let now = at("2026-11-02T05:02:00Z");
        let next =
            decide(Seen { schedule: &recorded, backups: &seen, others: &[], jobs: &jobs, clock: None, now });
        recorded.status = Some(next.status.clone());
        last = Some(next);
    }
    last.unwrap()
}

#[test]
fn o10_why_the_pod_of_a_look_was_refused_is_in_its_failure() {
    let (mut schedule, backup) = of_a_node("2026-11-01T06:00:30Z");
    let backups = [backup];
    let begun = plain(&schedule, &backups, "2026-11-02T07:00:00Z");
    let name = begun.status.look.as_ref().unwrap().job_name.clone();
    schedule.status = Some(begun.status);
    let outcomes = [
        JobOutcome::Running(Some(REFUSED.to_owned())),
        JobOutcome::Running(None),
        JobOutcome::Lost("Job x ended without an answer (DeadlineExceeded); its Pod is gone".to_owned()),
    ];
    let lost = after(&schedule, &backups, &name, &outcomes);
    let told = &lost.status.conditions.iter().find(|one| one.type_ == "InStore").unwrap().message;
    assert!(told.contains("its Pod is gone. Before that: ") && told.contains(REFUSED), "{told}");
}

#[test]
fn o10_why_the_pod_of_a_restore_test_is_refused_is_told_while_it_is() {
    let spec = json!({"verify": {"schedule": "0 5 * * *"}});
    let status = json!({"lastScheduled": "2026-11-02T05:00:00Z"});
    let mut schedule = schedule(spec, status);
    let backups = looked_for(&[child("2026-11-02T04:00:00Z", "Complete")], "2026-11-02T05:00:00Z");
    let begun = plain(&schedule, &backups, "2026-11-02T05:01:00Z");
    let name = begun.status.test.as_ref().unwrap().job_name.clone();
    schedule.status = Some(begun.status);
    let verified = |decision: &Decision| {
        let one = decision.status.conditions.iter().find(|one| one.type_ == "Verified").unwrap();
        (format!("{} {}", one.status, one.reason), one.message.clone())
    };
    let refused = JobOutcome::Running(Some(REFUSED.to_owned()));
    let waits = after(&schedule, &backups, &name, std::slice::from_ref(&refused));
    let (is, told) = verified(&waits);
    assert!(is == "Unknown RestoreNotTested" && told.contains(REFUSED), "{is}: {told}");
    // What the last test found stays beside it.
    let mut failed = schedule.clone();
    let before = json!([{"type": "Verified", "status": "False", "reason": "ChecksumMismatch", "message": "it is damaged",
        "lastTransitionTime": "2026-11-01T05:00:00Z"}]);
    failed.status.as_mut().unwrap().conditions = serde_json::from_value(before).unwrap();
    let twice = [refused.clone(), refused.clone()];
    let (is, told) = verified(&after(&failed, &backups, &name, &twice));
    assert!(
        is == "False ChecksumMismatch" && told.starts_with("it is damaged. The restore test"),
        "{is}: {told}"
    );
    assert_eq!(told.matches(REFUSED).count(), 1, "{told}");
    let lost = JobOutcome::Lost("Job x ended without an answer".to_owned());
    let (is, told) =
        verified(&after(&schedule, &backups, &name, &[refused, JobOutcome::Running(None), lost]));
    assert!(is == "False JobFailed" && told.contains(REFUSED), "{is}: {told}");
}

#[test]
fn o12_a_backup_that_waits_for_its_place_over_all_clusters_is_not_overdue_for_six_hours() {
    let pending = |phase: &str| {
        let mut one = child("2026-11-02T06:00:00Z", phase);
        let conditions = json!([{"type": "Pending", "status": if phase == "Pending" { "True" } else { "False" },
            "reason": "BackupLimitReached", "message": "m", "lastTransitionTime": "2026-11-02T06:00:00Z"}]);
        one.status.as_mut().unwrap().conditions = serde_json::from_value(conditions).unwrap();
        one
    };
    let (mut schedule, first) = of_a_node("2026-11-01T06:00:30Z");
    schedule.status.as_mut().unwrap().last_scheduled =
        serde_json::from_value(json!("2026-11-02T06:00:00Z")).unwrap();
    let health = |schedule: &EtcdBackupSchedule, now: &str| {
        let found = super::super::health("demo", [schedule].into_iter(), at(now)).unwrap();
        (found.healthy, found.why.reason().as_str())
    };
    for phase in ["Pending", "Running"] {
        let waits = next(&schedule, &[first.clone(), pending(phase)], "2026-11-02T08:00:00Z");
        assert_eq!(ready(&waits), "True BackupLimitReached", "{phase}");
        schedule.status = Some(waits.status);
        assert_eq!(health(&schedule, "2026-11-02T12:59:00Z").0, Some(true), "{phase}");
        assert_eq!(health(&schedule, "2026-11-02T13:00:00Z"), (Some(false), "BackupOverdue"), "{phase}");
    }
    let done = next(&schedule, &[first, child("2026-11-02T06:00:00Z", "Complete")], "2026-11-02T09:00:00Z");
    assert_eq!(ready(&done), "True BackupsHealthy");
}
