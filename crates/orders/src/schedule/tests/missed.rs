//! Times for which no backup was taken, and names that others have.

use super::*;
use crate::schedule::decide::decide_beside;

#[test]
fn times_without_a_backup_are_counted_once_and_not_while_it_is_suspended_or_before_an_edit() {
    let missed = |decision: &Decision| {
        let last = decision.status.last_missed.as_ref().map(|last| last.0.to_string());
        (decision.status.missed, last)
    };
    let hours = |hour: u8| Some(format!("2026-11-01T{hour:02}:00:00Z"));
    let recorded = json!({"lastScheduled": "2026-11-01T01:00:00Z"});
    let running = [child("2026-11-01T01:00:00Z", "Running")];
    let in_time = next(&schedule(json!({}), recorded.clone()), &[], "2026-11-01T02:00:10Z");
    assert_eq!(missed(&in_time), (0, None));
    let waits = next(&schedule(json!({}), recorded.clone()), &running, "2026-11-01T02:20:00Z");
    assert_eq!(missed(&waits), (0, None), "that time may still be made up for");
    let held = next(&schedule(json!({}), recorded.clone()), &running, "2026-11-01T06:20:00Z");
    assert_eq!(missed(&held), (4, hours(5)));
    let again = next(&schedule(json!({}), json!(held.status)), &running, "2026-11-01T06:30:00Z");
    assert_eq!(missed(&again), (4, hours(5)));
    let later = next(&schedule(json!({}), json!(again.status)), &running, "2026-11-01T08:30:00Z");
    assert_eq!(missed(&later), (6, hours(7)));
    let ends = next(&schedule(json!({}), json!(later.status)), &[], "2026-11-01T08:40:00Z");
    assert_eq!((created(&ends), missed(&ends)), (hours(8), (6, hours(7))));
    let strict = json!({"startingDeadline": "10m"});
    let late = next(&schedule(strict, recorded.clone()), &[], "2026-11-01T03:20:00Z");
    assert_eq!(missed(&late), (2, hours(3)));
    // An operator that was down for a year.
    let long = schedule(json!({"schedule": "*/5 * * * *"}), json!({"lastScheduled": "2025-11-01T01:00:00Z"}));
    assert_eq!(next(&long, &[], "2026-11-01T06:20:00Z").status.missed, 1000);
    // Each edit has a generation, also the end of a suspension.
    let mut status = recorded;
    status["observedGeneration"] = json!(3);
    let mut resumed = schedule(json!({}), status);
    resumed.metadata.generation = Some(4);
    let held = next(&resumed, &running, "2026-11-01T06:20:00Z");
    assert_eq!((missed(&held), ready(&held).as_str()), ((0, None), "False BackupMissed"));
    resumed.status = Some(held.status);
    let then = next(&resumed, &running, "2026-11-01T06:30:00Z");
    assert_eq!((missed(&then), created(&next(&resumed, &[], "2026-11-01T06:30:00Z"))), ((0, None), hours(6)));
    // A clock that was ahead recorded it.
    let ahead =
        json!({"lastScheduled": "2026-11-01T01:00:00Z", "missed": 1, "lastMissed": "2027-11-01T01:00:00Z"});
    assert_eq!(missed(&next(&schedule(json!({}), ahead), &running, "2026-11-01T06:20:00Z")), (5, hours(5)));
}

#[test]
fn a_name_that_another_etcdbackup_has_uses_up_no_time_and_is_told() {
    let beside = |schedule: &EtcdBackupSchedule, taken: &str, now: &str| {
        let seen = Seen { schedule, backups: &[], others: &[], jobs: &[], clock: None, now: at(now) };
        decide_beside(seen, &[taken.to_owned()])
    };
    let recorded = schedule(json!({}), json!({"lastScheduled": "2026-11-01T01:00:00Z"}));
    let name = called("2026-11-01T02:00:00Z");
    let taken = beside(&recorded, &name, "2026-11-01T02:00:10Z");
    assert_eq!((created(&taken), ready(&taken).as_str()), (None, "False BackupMissed"));
    assert_eq!(taken.status.last_scheduled, recorded.status.as_ref().unwrap().last_scheduled);
    let text = &taken.status.conditions.iter().find(|one| one.type_ == "Ready").unwrap().message;
    assert!(text.contains(&format!("EtcdBackup {name} has its name, and is not of this schedule")), "{text}");
    let since = schedule(json!({}), json!(taken.status));
    assert!(created(&next(&since, &[], "2026-11-01T02:10:00Z")).is_some(), "once the name is free");
    let other = beside(&since, &name, "2026-11-01T03:00:10Z");
    assert_eq!((created(&other).as_deref(), other.status.missed), (Some("2026-11-01T03:00:00Z"), 1));
    // A word is spent: no old order is carried out later.
    let mut ordered = recorded;
    ordered.metadata.annotations = Some([("operator.etcd.io/backup-now".to_owned(), "w".to_owned())].into());
    let name = crate::schedule::order::name(&ordered, "w");
    let order = beside(&ordered, &name, "2026-11-01T01:20:00Z");
    assert_eq!((created(&order), order.events[0].1.reason().as_str()), (None, "BackupMissed"));
    assert_eq!((order.status.orders.len(), order.status.orders[0].backup.as_ref()), (1, None));
}
