//! The condition `BackupHealthy`: what schedules say about a cluster, in its own status and events.

use crate::world::World;
use quorate_api::{Explanation, Reason};
use quorate_manifests::Kind;
use quorate_model::Span;
use quorate_status::BackupHealth;
use serde_json::json;

fn says(healthy: Option<bool>, reason: Reason, message: &str) -> BackupHealth {
    BackupHealth { healthy, why: Explanation::new(reason, message) }
}

fn shown(world: &World) -> Option<(String, String, String)> {
    let conditions = world.status().conditions.into_iter();
    let mut found = conditions.filter(|condition| condition.type_ == "BackupHealthy");
    found.next().map(|one| (one.status, one.reason, one.last_transition_time.0.to_string()))
}

#[test]
fn the_condition_comes_and_goes_with_the_schedules_and_its_time_changes_with_its_status_alone() {
    let mut world = World::running(3);
    assert_eq!(shown(&world), None);
    world.backups =
        Some(says(None, Reason::NoBackupYet, "no backup of EtcdBackupSchedule nightly was due yet"));
    world.settle();
    world.now = world.now + Span::seconds(60);
    world.events.clear();
    world.backups = Some(says(
        Some(true),
        Reason::BackupsHealthy,
        "the last backup of EtcdBackupSchedule nightly is in the store",
    ));
    world.settle();
    let (status, reason, since) = shown(&world).unwrap();
    assert_eq!((&*status, &*reason), ("True", "BackupsHealthy"));
    assert_eq!(world.events.len(), 1, "it is news that there is a backup: {:?}", world.events);

    world.events.clear();
    world.now = world.now + Span::seconds(10);
    assert!(!world.pass(), "nothing is written while nothing changes");
    world.backups =
        Some(says(Some(false), Reason::BackupOverdue, "EtcdBackupSchedule nightly: none since Monday"));
    world.settle();
    let bad = shown(&world).unwrap();
    assert_eq!((&*bad.0, &*bad.1), ("False", "BackupOverdue"));
    assert_ne!(bad.2, since);
    let [event] = world.events.as_slice() else { panic!("{:?}", world.events) };
    assert!(event.warning && event.what.message().contains("nightly"), "{event:?}");
    world.backups =
        Some(says(Some(false), Reason::BackupFailing, "EtcdBackupSchedule nightly: 1 backups failed"));
    world.now = world.now + Span::seconds(10);
    world.settle();
    assert_eq!(shown(&world).unwrap().2, bad.2, "it is False since the same moment");
    assert_eq!(world.events.len(), 2, "another reason is news");

    world.backups = None;
    world.settle();
    assert_eq!(shown(&world), None);
}

#[test]
fn of_a_cluster_at_size_zero_no_backup_is_missed() {
    let mut world = World::running(1);
    world.backups =
        Some(says(Some(false), Reason::BackupOverdue, "EtcdBackupSchedule nightly: none since Monday"));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(0));
    world.settle();
    let (status, reason, _) = shown(&world).unwrap();
    assert_eq!((&*status, &*reason), ("Unknown", "Hibernated"));
}
