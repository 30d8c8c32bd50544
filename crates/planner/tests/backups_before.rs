//! Backups before an upgrade and before the end of a cluster: what waits for them, and what does not.

use crate::world::World;
use quorate_model::snapshot::{BackupBefore, BackupPurpose, BackupState, Etcd};
use quorate_model::target::Retention;
use quorate_model::{ClockDifference, Effect, KubeEffect, Plan, Span, Step, Version, Waiting};

const OLD: Version = Version::new(3, 6, 16);
const NEW: Version = Version::new(3, 7, 3);
const PATCH: Version = Version::new(3, 6, 18);

fn edit(world: &mut World, version: Version, state: Option<BackupState>) {
    world.seen.desired.version = version;
    world.seen.desired.pod.revision.0 = format!("r of {version}");
    let before = BackupPurpose::Upgrade(version.line());
    let name = format!("before-{}-uid", version.line());
    world.seen.backup_before = state.map(|state| BackupBefore { before, name, state });
}

/// Deletes the cluster, which has ten minutes for its backup.
fn delete(world: &mut World, state: BackupState) {
    world.seen.deleting = true;
    let before = BackupPurpose::Deletion { until: world.now + Span::seconds(600) };
    world.seen.backup_before = Some(BackupBefore { before, name: "final-uid".to_owned(), state });
}

fn pending() -> BackupState {
    BackupState::Pending { runs: true, what: "EtcdBackup final-uid runs".to_owned() }
}

fn creates(plan: &Plan) -> Vec<&str> {
    let writes = plan.effects.iter().filter_map(Effect::as_kube);
    let created = writes.filter_map(|write| match write {
        KubeEffect::CreateBackup { name } => Some(name.as_str()),
        _ => None,
    });
    created.collect()
}

fn committed(world: &World) -> Version {
    world.seen.record.target.as_ref().unwrap().version
}

/// Why deletion goes on without the backup.
fn why_without(plan: &Plan) -> Option<&str> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::NoFinalBackup(why) => Some(why.as_str()),
        _ => None,
    })
}

#[test]
fn no_member_gets_a_higher_minor_version_before_the_backup_is_complete() {
    let mut world = World::running(3);
    edit(&mut world, NEW, Some(BackupState::Missing));
    let plan = world.plan();
    assert_eq!(creates(&plan), ["before-3.7-uid"]);
    assert!(matches!(plan.waiting.first(), Some(Waiting::UpgradeBackup(_))), "{plan:?}");
    world.carry_out(plan);
    for _ in 0..5 {
        let plan = world.plan();
        assert_eq!(creates(&plan), [""; 0], "it is created once");
        assert!(!plan.recorded_steps.contains(&Step::T1), "{plan:?}");
        world.carry_out(plan);
    }
    assert_eq!(committed(&world), OLD);
    edit(&mut world, NEW, Some(BackupState::Unknown("it could not be read".to_owned())));
    assert_eq!(creates(&world.plan()), [""; 0], "it may exist");
    edit(&mut world, NEW, Some(BackupState::Complete));
    world.settle();
    assert_eq!(committed(&world), NEW);
    assert!(world.versions.values().all(|version| *version == NEW), "{:?}", world.versions);
}

#[test]
fn another_patch_does_not_wait_for_a_backup() {
    let mut world = World::running(3);
    edit(&mut world, PATCH, Some(BackupState::Missing));
    assert_eq!(creates(&world.plan()), [""; 0]);
    world.settle();
    assert_eq!(committed(&world), PATCH);
}

#[test]
fn a_version_that_is_refused_takes_no_backup() {
    let mut world = World::running(3);
    edit(&mut world, Version::new(3, 8, 0), Some(BackupState::Missing));
    let plan = world.plan();
    assert_eq!(creates(&plan), [""; 0]);
    assert!(matches!(plan.waiting.first(), Some(Waiting::VersionRefused(_))), "{plan:?}");
}

#[test]
fn a_backup_that_failed_blocks_the_version_until_the_spec_asks_for_none() {
    let mut world = World::running(3);
    edit(&mut world, NEW, Some(BackupState::Failed("EtcdBackup before-3.7-uid has failed".to_owned())));
    world.seen.desired.size = 1;
    let plan = world.plan();
    assert!(
        matches!(plan.waiting.first(), Some(Waiting::UpgradeBackupFailed(why)) if why.contains("has failed")),
        "{plan:?}"
    );
    let target = plan.record.target.as_ref().unwrap();
    assert_eq!((target.version, target.size), (OLD, 1), "what is always safe does not wait");
    assert_eq!(creates(&plan), [""; 0]);
    world.seen.backup_before = None;
    world.settle();
    assert_eq!(committed(&world), NEW);
}

#[test]
fn a_half_done_upgrade_is_taken_back_without_a_backup() {
    let mut world = World::running(3);
    edit(&mut world, NEW, Some(BackupState::Complete));
    for _ in 0..40 {
        if world.versions.values().filter(|version| **version == NEW).count() == 1 {
            break;
        }
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.observe();
    edit(&mut world, OLD, Some(BackupState::Missing));
    world.settle();
    assert_eq!(committed(&world), OLD);
}

#[test]
fn where_status_lost_its_target_the_backup_still_comes_before_the_upgrade() {
    let mut world = World::running(3);
    edit(&mut world, NEW, Some(BackupState::Unknown("it is not read yet".to_owned())));
    world.seen.record.target = None;
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().map(|target| target.version), Some(OLD), "what the members run");
    world.carry_out(plan);
    edit(&mut world, NEW, Some(BackupState::Missing));
    assert_eq!(creates(&world.plan()), ["before-3.7-uid"]);
}

#[test]
fn the_members_of_a_deleted_cluster_serve_on_until_the_backup_is_complete() {
    let mut world = World::running(3);
    delete(&mut world, BackupState::Missing);
    let plan = world.plan();
    assert_eq!(creates(&plan), ["final-uid"]);
    assert_eq!(plan.effects.len(), 1, "{plan:?}");
    assert!(matches!(plan.waiting.first(), Some(Waiting::FinalBackup(_))), "{plan:?}");
    world.carry_out(plan);
    for _ in 0..5 {
        let plan = world.plan();
        assert_eq!(plan.effects, [], "{plan:?}");
        world.carry_out(plan);
    }
    assert_eq!(world.seen.pods.len(), 3);
    world.seen.backup_before.as_mut().unwrap().state = BackupState::Complete;
    insta::assert_snapshot!(world.settle());
    assert!(world.seen.pods.is_empty() && world.seen.volumes.len() == 3 && !world.seen.finalizer);
}

#[test]
fn deletion_goes_on_without_a_backup_that_cannot_come_about_and_says_why() {
    let failed = || BackupState::Failed("EtcdBackup final-uid has failed (StoreForbidden)".to_owned());
    let unread = || BackupState::Unknown("EtcdBackup final-uid could not be read: timeout".to_owned());
    // State, seconds since the deletion, whether members run, and what is said; `None`: it waits.
    let cases = [
        (BackupState::Missing, 599, true, None),
        (pending(), 599, true, None),
        (unread(), 599, false, None),
        (failed(), 0, true, Some("has failed (StoreForbidden)")),
        (BackupState::Missing, 600, true, Some("was not complete within its deadline: it was not created")),
        (pending(), 600, true, Some("was not complete within its deadline: EtcdBackup final-uid runs")),
        (unread(), 600, true, Some("could not be read: timeout")),
        (BackupState::Missing, 0, false, Some("no member runs that EtcdBackup final-uid could be taken of")),
        (pending(), 0, false, Some("no member runs")),
    ];
    for (state, seconds, runs, said) in cases {
        let mut world = World::running(3);
        world.seen.desired.storage.when_deleted = Retention::Delete;
        delete(&mut world, state.clone());
        world.now = world.now + Span::seconds(seconds);
        if !runs {
            world.seen.pods.clear();
        }
        let plan = world.plan_as_observed();
        let told = why_without(&plan);
        assert_eq!(told.is_some(), said.is_some(), "{state:?} {seconds} {runs}: {plan:?}");
        let Some(said) = said else { continue };
        assert!(told.unwrap().contains(said), "{told:?}");
        world.carry_out(plan);
        world.settle();
        assert!(world.seen.pods.is_empty() && !world.seen.finalizer);
        assert_eq!(world.seen.volumes.len(), 3, "without the backup the volumes stay");
    }
}

#[test]
fn only_with_a_complete_backup_the_volumes_of_a_deleted_cluster_are_deleted() {
    for (state, left) in [(BackupState::Complete, 0), (BackupState::Failed("it has failed".to_owned()), 3)] {
        let mut world = World::running(3);
        world.seen.desired.storage.when_deleted = Retention::Delete;
        delete(&mut world, state.clone());
        world.settle();
        assert!(!world.seen.finalizer, "{state:?}");
        assert_eq!(world.seen.volumes.len(), left, "{state:?}");
    }
}

#[test]
fn o04_by_a_wrong_clock_no_final_backup_is_recent_enough_to_delete_volumes() {
    let mut world = World::running(3);
    world.seen.desired.storage.when_deleted = Retention::Delete;
    delete(&mut world, BackupState::Complete);
    world.seen.clock_differs = Some(ClockDifference::Behind(Span::seconds(86_400)));
    assert!(why_without(&world.plan_as_observed()).unwrap().contains("cannot be told by a clock"));
    world.settle();
    assert!(world.seen.pods.is_empty());
    assert_eq!(world.seen.volumes.len(), 3);
}

#[test]
fn a_cluster_that_never_served_is_deleted_without_a_backup_and_leaves_nothing() {
    let mut world = World::running(3);
    world.seen.desired.storage.when_deleted = Retention::Retain;
    (world.seen.record.cluster_id, world.seen.record.had_leader) = (None, false);
    for volume in world.seen.volumes.values_mut() {
        (volume.cluster_id, volume.member_id) = (None, None);
    }
    world.seen.pods.clear();
    world.seen.etcd = Etcd::default();
    delete(&mut world, BackupState::Missing);
    let plan = world.plan_as_observed();
    assert_eq!((creates(&plan), why_without(&plan)), (vec![], None), "{plan:?}");
}

#[test]
fn a_backup_before_upgrades_holds_up_no_deletion() {
    let mut world = World::running(3);
    edit(&mut world, NEW, Some(BackupState::Missing));
    world.seen.deleting = true;
    assert_eq!(creates(&world.plan()), [""; 0]);
    world.settle();
    assert!(!world.seen.finalizer);
}
