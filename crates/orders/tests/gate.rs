//! The gate, one test a check. It refuses the deletion that would break the rule, and permits it without the fact that makes it
//! dangerous. Each test fails when its check is taken away.

use std::collections::BTreeSet;

use quorate_api::backup::{EtcdBackupStatus, ExistingObject, LastLook};
use quorate_api::{EtcdBackup, EtcdBackupSchedule};
use quorate_model::{ClockDifference, Instant, Span};
use quorate_orders::backup::User;
use quorate_orders::gate::mutants::without;
use quorate_orders::gate::{Removal, Scene, Unsafe, keeper, may_prune, may_remove};
use quorate_orders::schedule::{Decision, NextAct, Seen, decide};
use serde_json::{Value, json};

const HOUR: i64 = 3_600_000;

/// Midnight, 2026-11-01.
const BEGIN: i64 = 1_793_491_200_000;

/// So many hours after the beginning.
fn hour(hours: i64) -> Instant {
    Instant(BEGIN + hours * HOUR)
}

fn text(at: Instant) -> Value {
    json!(k8s_openapi::jiff::Timestamp::from_millisecond(at.0).unwrap())
}

/// A schedule of every hour.
#[expect(clippy::needless_pass_by_value, reason = "a literal of the test")]
fn schedule(spec: Value, status: Value) -> EtcdBackupSchedule {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": {"name": "hourly", "namespace": "default", "uid": "0000-00ab", "creationTimestamp": text(hour(0))},
        "spec": {
            "schedule": "0 * * * *",
            "backupTemplate": {"spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}}},
        },
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// The backup of the schedule for a time.
fn taken(at: Instant, phase: &str) -> EtcdBackup {
    let result = json!({"key": "k", "clusterID": "a1", "storedSha256": "s", "storedBytes": 100, "etcdVersion": "3.6.16", "finished": text(at)});
    let name = format!("hourly-00ab{:08}", at.0 / 60_000);
    serde_json::from_value(json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": text(at),
            "annotations": {"operator.etcd.io/backup-schedule-uid": "0000-00ab", "operator.etcd.io/scheduled-at": text(at)}},
        "spec": {"source": {"cluster": "demo"}, "destination": {"s3": {"bucket": "bucket"}}},
        "status": {"phase": phase, "result": if phase == "Complete" { result } else { Value::Null }},
    }))
    .unwrap()
}

/// They were all seen in the store just now, where a test says nothing else.
fn looked_for(backups: &[EtcdBackup], now: Instant) -> Vec<EtcdBackup> {
    let mut backups = backups.to_vec();
    for status in backups.iter_mut().filter_map(|backup| backup.status.as_mut()) {
        let found = LastLook::new(serde_json::from_value(text(now)).unwrap(), true);
        status.last_look.get_or_insert(found);
    }
    backups
}

/// What the gate judges: a schedule, its backups of the hours 1 to 3, and the time 3:30.
struct World {
    schedule: EtcdBackupSchedule,
    backups: Vec<EtcdBackup>,
    used: BTreeSet<String>,
    clock: Option<ClockDifference>,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let backups = (1..=3).map(|at| taken(hour(at), "Complete")).collect();
        let schedule = schedule(json!({"retention": {"maxAge": "1h"}}), json!({}));
        Self { schedule, backups, used: BTreeSet::new(), clock: None, now: Instant(hour(3).0 + HOUR / 2) }
    }

    /// What the gate says about the deletion of one, while the API server has these.
    fn judge_by(&self, judged: &EtcdBackup, stored: &[EtcdBackup]) -> Result<(), Unsafe> {
        let (all, stored) = (looked_for(&self.backups, self.now), looked_for(stored, self.now));
        let backups: Vec<&EtcdBackup> = all.iter().collect();
        let status = self.schedule.status.clone().unwrap_or_default();
        let Self { schedule, used, clock, now, .. } = self;
        let scene = Scene { schedule, status: &status, backups: &backups, used, clock: *clock, now: *now };
        let stays = keeper(&scene, judged)
            .and_then(|keeper| stored.iter().find(|stored| stored.metadata.name == keeper.metadata.name));
        may_prune(&scene, judged, stays)
    }

    fn judge(&self, judged: &EtcdBackup) -> Result<(), Unsafe> {
        self.judge_by(judged, &self.backups)
    }

    fn decide(&self) -> Decision {
        let all = looked_for(&self.backups, self.now);
        let backups: Vec<&EtcdBackup> = all.iter().collect();
        decide(Seen {
            schedule: &self.schedule,
            backups: &backups,
            others: &[],
            jobs: &[],
            clock: self.clock,
            now: self.now,
        })
    }

    /// The names that are to be deleted.
    fn pruned(&self) -> Vec<String> {
        match self.decide().then {
            NextAct::Prune(pruned) => pruned.into_iter().map(|one| one.name).collect(),
            NextAct::Test { .. }
            | NextAct::Look { .. }
            | NextAct::List { .. }
            | NextAct::DeleteJob(_)
            | NextAct::Wait(_)
            | NextAct::Edit => Vec::new(),
        }
    }
}

/// It is refused for this reason, and not without this check.
#[track_caller]
fn needs(why: Unsafe, judge: impl Fn() -> Result<(), Unsafe>) {
    assert_eq!(judge(), Err(why));
    assert_eq!(without(why.name(), &judge), Ok(()), "{} is what refuses it", why.name());
}

#[test]
fn what_is_too_old_goes_and_the_newest_stays() {
    let world = World::new();
    assert_eq!(world.judge(&world.backups[0]), Ok(()));
    assert_eq!(world.judge(&world.backups[1]), Ok(()));
    needs(Unsafe::LastGood, || {
        let mut old = World::new();
        old.schedule = schedule(json!({"retention": {"maxAge": "1m"}}), json!({}));
        old.judge(&old.backups[2])
    });
}

#[test]
fn a_backup_that_the_schedule_did_not_create_is_not_deleted_by_it() {
    let mut world = World::new();
    let annotations = world.backups[0].metadata.annotations.as_mut().unwrap();
    annotations.insert("operator.etcd.io/backup-schedule-uid".to_owned(), "another".to_owned());
    needs(Unsafe::NotOfSchedule, || world.judge(&world.backups[0]));
}

#[test]
fn o02_what_stands_for_an_object_of_before_is_never_the_last_good_one_and_is_never_pruned() {
    let posing = |world: &mut World, place: usize| {
        let object =
            ExistingObject { key: "k".to_owned(), sha256: "5".repeat(64), ..ExistingObject::default() };
        world.backups[place].spec.existing = Some(object);
    };
    let mut world = World::new();
    posing(&mut world, 0);
    needs(Unsafe::NotOfSchedule, || world.judge(&world.backups[0]));
    // The newest two have the names and the annotations of the schedule, and stand for what is old: nothing goes in their favour.
    let mut world = World::new();
    (1..=2).for_each(|place| posing(&mut world, place));
    needs(Unsafe::LastGood, || world.judge(&world.backups[0]));
    assert_eq!(world.pruned(), Vec::<String>::new());
}

#[test]
fn a_backup_that_a_suspended_schedule_has_stays() {
    let mut world = World::new();
    world.schedule.spec.suspend = true;
    needs(Unsafe::Resting, || world.judge(&world.backups[0]));
}

#[test]
fn a_backup_that_is_under_way_is_not_deleted() {
    let mut world = World::new();
    for phase in ["Pending", "Running", "Deleting"] {
        world.backups[0] = taken(hour(1), phase);
        needs(Unsafe::NotEnded, || world.judge(&world.backups[0]));
    }
    world.backups[0] = taken(hour(1), "Failed");
    assert_eq!(world.judge(&world.backups[0]), Ok(()));
}

#[test]
fn a_backup_that_a_restore_or_a_test_needs_is_not_deleted() {
    let mut world = World::new();
    let name = world.backups[0].metadata.name.clone().unwrap();
    world.used.insert(name.clone());
    needs(Unsafe::InUse, || world.judge(&world.backups[0]));
    world.used.clear();
    let test = json!({"test": {"backup": name, "backupUid": "u", "jobName": "j"}});
    world.schedule = schedule(json!({"retention": {"maxAge": "1h"}}), test);
    needs(Unsafe::InUse, || world.judge(&world.backups[0]));
}

#[test]
fn the_last_one_of_another_etcd_cluster_and_the_last_one_without_a_doubt_are_last() {
    let mut world = World::new();
    let result = world.backups[0].status.as_mut().unwrap().result.as_mut().unwrap();
    result.cluster_id = "lost".to_owned();
    needs(Unsafe::LastGood, || world.judge(&world.backups[0]));
    let mut world = World::new();
    let failed = json!([{"clusterID": "a1", "backup": "x", "scheduled": text(hour(2)), "time": text(hour(2)), "reason": "ChecksumMismatch"}]);
    world.schedule = schedule(json!({"retention": {"maxAge": "1h"}}), json!({"failedTests": failed}));
    needs(Unsafe::LastGood, || world.judge(&world.backups[0]));
    assert_eq!(world.judge(&world.backups[1]), Ok(()), "it is doubtful, and the first is not");
}

#[test]
fn o15_a_backup_is_deleted_only_while_the_api_server_has_the_newer_one() {
    let world = World::new();
    let first = &world.backups[0];
    needs(Unsafe::KeeperNotThere, || world.judge_by(first, &[]));
    let mut going = world.backups.clone();
    going[2].metadata.deletion_timestamp = going[2].metadata.creation_timestamp.clone();
    needs(Unsafe::KeeperNotThere, || world.judge_by(first, &going));
    let mut other = world.backups.clone();
    other[2].metadata.uid = Some("another".to_owned());
    needs(Unsafe::KeeperNotThere, || world.judge_by(first, &other));
}

#[test]
fn o15_a_backup_is_deleted_only_after_the_newer_one_was_seen_in_the_store() {
    let seen = |world: &mut World, at: Instant, found: bool| {
        let time = serde_json::from_value(text(at)).unwrap();
        world.backups[2].status.as_mut().unwrap().last_look = Some(LastLook::new(time, found));
    };
    let mut world = World::new();
    let long_ago = Instant(world.now.0 - 16 * 60_000);
    seen(&mut world, long_ago, true);
    needs(Unsafe::KeeperNotSeen, || world.judge(&world.backups[0]));
    // A clock that was ahead then.
    let ahead = Instant(world.now.0 + HOUR);
    seen(&mut world, ahead, true);
    needs(Unsafe::KeeperNotSeen, || world.judge(&world.backups[0]));
    let lately = Instant(world.now.0 - 14 * 60_000);
    seen(&mut world, lately, true);
    assert_eq!(world.judge(&world.backups[0]), Ok(()));
    // It is gone: what is there stays for the others, and is the last one itself.
    let mut world = World::new();
    let now = world.now;
    seen(&mut world, now, false);
    assert_eq!(world.judge(&world.backups[0]), Ok(()));
    assert_eq!(world.judge(&world.backups[1]), Err(Unsafe::LastGood));
}

#[test]
fn o15_the_record_of_a_backup_that_is_gone_goes_also_as_the_last_of_its_etcd_cluster() {
    let mut world = World::new();
    let gone = |world: &mut World, minutes: i64| {
        let time = serde_json::from_value(text(Instant(world.now.0 - minutes * 60_000))).unwrap();
        let status = world.backups[0].status.as_mut().unwrap();
        status.result.as_mut().unwrap().cluster_id = "lost".to_owned();
        status.last_look = Some(LastLook::new(time, false));
    };
    gone(&mut world, 2);
    assert_eq!(world.judge(&world.backups[0]), Ok(()));
    assert_eq!(world.pruned().len(), 2, "it is proposed as well");
    gone(&mut world, 16);
    needs(Unsafe::LastGood, || world.judge(&world.backups[0]));
    gone(&mut world, 2);
    world.clock = Some(ClockDifference::Ahead(Span::seconds(90)));
    needs(Unsafe::ClockDiffers, || world.judge(&world.backups[0]));
    // The newest of all tells what is gone.
    let mut world = World::new();
    world.backups.truncate(1);
    gone(&mut world, 2);
    assert_eq!(world.pruned(), Vec::<String>::new());
}

#[test]
fn o11_no_good_backup_is_deleted_by_a_clock_that_differs_from_the_api_servers() {
    let mut world = World::new();
    assert_eq!(world.pruned().len(), 2);
    world.clock = Some(ClockDifference::Ahead(Span::seconds(90)));
    needs(Unsafe::ClockDiffers, || world.judge(&world.backups[0]));
    assert_eq!(world.pruned(), Vec::<String>::new());
    let status = world.decide().status;
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    assert!(ready.message.contains("No good backup is deleted"), "{}", ready.message);
    world.clock = Some(ClockDifference::Ahead(Span::seconds(95)));
    assert_eq!(world.decide().status.conditions[0].message, ready.message, "it is told once");
}

#[test]
fn o11_a_clock_that_jumped_ahead_makes_one_backup_too_old_and_not_all_of_them() {
    let mut world = World::new();
    world.schedule = schedule(json!({"retention": {"maxAge": "10050m"}}), json!({}));
    world.backups = (1..=168).map(|at| taken(hour(at), "Complete")).collect();
    world.now = Instant(hour(168).0 + 1);
    assert_eq!(world.pruned().len(), 0);
    let year = 365 * 24;
    world.now = hour(168 + year);
    assert_eq!(world.pruned().len(), 1, "an interval may have passed");
    needs(Unsafe::CountedYounger, || world.judge(&world.backups[1]));
    // Also when a backup was taken by that clock, and by the API server's.
    world.backups.remove(0);
    world.backups.push(taken(hour(168 + year), "Complete"));
    world.now = hour(168 + year + 1);
    assert_eq!(world.pruned().len(), 1);
}

#[test]
fn o11_a_backup_that_was_taken_long_after_its_time_is_as_young_as_its_data() {
    let mut world = World::new();
    world.schedule = schedule(json!({"retention": {"maxAge": "150m"}}), json!({}));
    world.backups = (1..=4).map(|at| taken(hour(at), "Complete")).collect();
    world.now = Instant(hour(4).0 + 1);
    let created = |at: Instant| {
        let mut backup = world.backups[0].clone();
        backup.metadata.creation_timestamp = serde_json::from_value(text(at)).unwrap();
        world.judge(&backup)
    };
    assert_eq!(created(hour(1)), Ok(()));
    // The operator's clock was two hours behind.
    needs(Unsafe::CountedYounger, || created(hour(3)));
    assert_eq!(created(hour(5000)), Ok(()), "the API server's was ahead, and it is not kept until then");
}

#[test]
fn o11_no_backup_goes_for_one_of_clocks_that_were_ahead_which_has_older_data() {
    let mut world = World::new();
    for (backup, revision) in world.backups.iter_mut().zip([1, 9, 5]) {
        backup.status.as_mut().unwrap().result.as_mut().unwrap().revision = revision;
    }
    assert_eq!(world.judge(&world.backups[0]), Ok(()));
    needs(Unsafe::LastGood, || world.judge(&world.backups[1]));
}

#[test]
fn o11_a_backlog_goes_at_once() {
    let mut world = World::new();
    world.schedule = schedule(json!({"retention": {"maxAge": "24h"}}), json!({}));
    world.backups = (1..=100).map(|at| taken(hour(at), "Complete")).collect();
    world.now = Instant(hour(100).0 + 1);
    let mut passes = 0;
    loop {
        let gone = world.pruned();
        if gone.is_empty() {
            break;
        }
        world.backups.retain(|one| !gone.contains(one.metadata.name.as_ref().unwrap()));
        passes += 1;
    }
    assert_eq!((world.backups.len(), passes), (24, 4));
}

#[test]
fn o11_thousands_of_backups_are_judged_in_one_sweep() {
    let mut world = World::new();
    world.schedule = schedule(json!({"retention": {"keepLast": 48, "maxAge": "8000h"}}), json!({}));
    world.backups = (1..=9000).map(|at| taken(hour(at), "Complete")).collect();
    world.now = Instant(hour(9000).0 + 1);
    let oldest: Vec<_> = world.backups[..20].iter().map(|one| one.metadata.name.clone().unwrap()).collect();
    assert_eq!(world.pruned(), oldest);
    // By a clock that is far ahead every one but the last 48 is proposed, and almost all are refused.
    world.now = hour(90_000);
    world.backups.drain(..999);
    assert_eq!(world.pruned().len(), 1);
}

fn going(metadata: &Value, policy: &str) -> EtcdBackup {
    let mut backup = json!(taken(hour(1), "Complete"));
    backup["metadata"]["deletionTimestamp"] = metadata.clone();
    backup["spec"]["deletionPolicy"] = json!(policy);
    serde_json::from_value(backup).unwrap()
}

#[test]
fn an_object_is_removed_only_for_its_deleted_backup_that_began_and_when_nobody_needs_it() {
    let deleted = text(hour(2));
    let begun = EtcdBackupStatus { attempts: 1, removals: 1, ..EtcdBackupStatus::default() };
    let judge = |backup: &EtcdBackup, status: &EtcdBackupStatus, running_pods, used_by| {
        may_remove(&Removal { backup, status, running_pods, used_by })
    };
    let backup = going(&deleted, "Delete");
    assert_eq!(judge(&backup, &begun, 0, None), Ok(()));
    needs(Unsafe::NotDeleted, || judge(&going(&Value::Null, "Delete"), &begun, 0, None));
    needs(Unsafe::Retained, || judge(&going(&deleted, "Retain"), &begun, 0, None));
    let mut other = going(&deleted, "Delete");
    other.spec.existing =
        Some(ExistingObject { key: "k".to_owned(), sha256: "5".repeat(64), ..ExistingObject::default() });
    needs(Unsafe::Retained, || judge(&other, &begun, 0, None));
    let fresh = EtcdBackupStatus::default();
    needs(Unsafe::NotBegun, || judge(&backup, &fresh, 0, None));
    needs(Unsafe::StillWritten, || judge(&backup, &begun, 1, None));
    let user = User::Restore("back".to_owned());
    needs(Unsafe::StillNeeded, || judge(&backup, &begun, 0, Some(&user)));
}

#[test]
fn every_check_of_the_gate_has_a_test() {
    let tests = include_str!("gate.rs");
    for check in Unsafe::NAMES {
        assert!(tests.contains(&format!("needs(Unsafe::{check}, ")), "{check} has no test");
    }
}
