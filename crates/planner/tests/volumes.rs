//! What becomes of the volumes of members: which are kept, until when, and which are deleted.

use crate::world::{World, name};
use quorate_model::record::{Leaving, Stage};
use quorate_model::target::Retention;
use quorate_model::{AppliedObject, ClockDifference, Effect, Instant, KubeEffect, Plan, Record, Span};
use quorate_planner::safety::mutants::without;

fn expands(plan: &Plan) -> Vec<&str> {
    let expanded = plan.effects.iter().filter_map(|effect| match effect {
        Effect::Kube { write: KubeEffect::ExpandVolume { member, .. }, .. } => Some(member.as_str()),
        Effect::Kube { .. } | Effect::Etcd { .. } => None,
    });
    expanded.collect()
}

#[test]
fn l04_volumes_grow_without_a_quorum() {
    let mut world = World::running(3);
    world.seen.desired.storage.bytes = 8 << 30;
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.silence(member);
        world.seen.pods.get_mut(&name(member)).unwrap().trouble = Some("CrashLoopBackOff: disk full".into());
    }
    let plan = world.plan();
    assert_eq!(expands(&plan), ["demo-0", "demo-1", "demo-2"], "{:?}", plan.waiting);
}

#[test]
fn another_storage_class_is_committed_at_once_and_restarts_nothing() {
    let mut world = World::running(3);
    let pods: Vec<_> = world.seen.pods.values().map(|pod| pod.uid.clone()).collect();
    world.seen.desired.storage.class = Some("fast".to_owned());
    world.settle();
    assert_eq!(world.seen.record.target.as_ref().unwrap().storage.class.as_deref(), Some("fast"));
    let now: Vec<_> = world.seen.pods.values().map(|pod| pod.uid.clone()).collect();
    assert_eq!(now, pods);
    // Also beside a version that is refused: a class that cannot make volumes may be what is to be cured.
    world.seen.desired.version = quorate_model::Version::new(3, 9, 0);
    world.seen.desired.storage.class = None;
    world.settle();
    let target = world.seen.record.target.clone().unwrap();
    assert_eq!((target.storage.class, target.version), (None, quorate_model::Version::new(3, 6, 16)));
}

#[test]
fn s08_after_status_was_lost_volumes_that_are_not_annotated_yet_outlive_the_cluster() {
    let mut world = World::running(3);
    for volume in world.seen.volumes.values_mut() {
        (volume.cluster_id, volume.member_id) = (None, None);
    }
    world.seen.record = Record::default();
    world.seen.deleting = true;
    for _ in 0..6 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert_eq!(world.seen.volumes.len(), 3, "status was lost, so they may have data");
    assert!(!world.seen.finalizer, "the deletion is finished nevertheless");
}

#[test]
fn s08_clients_are_served_once_the_volume_of_every_voter_is_annotated() {
    let mut world = World::running(3);
    world.seen.client_service = quorate_model::snapshot::Presence::Absent;
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().cluster_id = None;
    let serves = |plan: &Plan| {
        let applies =
            |effect: &Effect| effect.as_kube() == Some(&KubeEffect::Apply(AppliedObject::ClientService));
        plan.effects.iter().any(applies)
    };
    let plan = world.plan();
    assert!(!serves(&plan), "until then nothing but status knows that this volume has data");
    world.carry_out(plan);
    assert!(serves(&world.plan()));
}

/// Somebody removes a member with `etcdctl member remove`.
fn remove_by_hand(world: &mut World, member: &str) {
    world.members.retain(|listed| listed.name != member);
    world.seen.pods.get_mut(&name(member)).unwrap().trouble = Some("CrashLoopBackOff: removed".into());
}

fn quarantined(world: &World) -> Vec<&str> {
    let volumes = world.seen.volumes.iter().filter(|(_, volume)| volume.quarantine.is_some());
    volumes.map(|(name, _)| name.as_str()).collect()
}

fn week(world: &mut World) {
    world.now = world.now + world.seen.keep_volumes;
}

#[test]
fn s05_the_volume_of_a_member_that_somebody_removed_is_kept_for_a_week_and_then_deleted() {
    let mut world = World::running(3);
    remove_by_hand(&mut world, "demo-1");
    let story = world.settle();
    assert_eq!(quarantined(&world), ["demo-1"], "{story}");
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "another member takes its place");
    assert!(!story.contains("delete volume"), "{story}");

    world.now = world.now + Span(world.seen.keep_volumes.0 - 60_000);
    world.settle();
    assert_eq!(quarantined(&world), ["demo-1"], "a minute too early");
    week(&mut world);
    world.settle();
    assert!(!world.seen.volumes.contains_key(&name("demo-1")));
}

#[test]
fn s05_after_a_person_forced_a_new_cluster_the_volumes_of_all_other_members_are_kept() {
    for when_scaled in [Retention::Delete, Retention::Retain] {
        let mut world = World::running(3);
        world.seen.desired.storage.when_scaled = when_scaled;
        world.settle();
        world.leader = None;
        for member in ["demo-1", "demo-2"] {
            remove_by_hand(&mut world, member);
        }
        let story = world.settle();
        assert_eq!(quarantined(&world), ["demo-1", "demo-2"], "{story}");
        assert_eq!(world.voters(), ["demo-0", "demo-3", "demo-4"]);
        week(&mut world);
        world.settle();
        let kept = when_scaled == Retention::Retain;
        assert_eq!(world.seen.volumes.contains_key(&name("demo-1")), kept, "by the policy {when_scaled:?}");
    }
}

#[test]
fn l15_at_size_zero_a_quarantined_volume_is_deleted_when_its_time_is_over_and_every_voter_has_its_own() {
    for is_lost in [false, true] {
        let mut world = World::running(3);
        remove_by_hand(&mut world, "demo-1");
        world.settle();
        world.resize(0);
        world.settle();
        assert!(world.seen.record.hibernating);
        assert_eq!(quarantined(&world), ["demo-1"], "its time is not over");
        if is_lost {
            world.seen.volumes.remove(&name("demo-2"));
        }
        week(&mut world);
        let deletes = |plan: &Plan| {
            let of = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::DeleteVolume { member, .. }) if *member == name("demo-1"));
            plan.effects.iter().any(of)
        };
        assert_eq!(deletes(&world.plan()), !is_lost, "voter lost: {is_lost}");
        assert!(deletes(&without("DataKept", || world.plan())));
    }
}

#[test]
fn s05_a_quarantine_without_a_readable_time_is_ended_by_a_person_only() {
    let mut world = World::running(3);
    remove_by_hand(&mut world, "demo-1");
    world.settle();
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().quarantine.as_mut().unwrap().since = None;
    week(&mut world);
    world.settle();
    assert_eq!(quarantined(&world), ["demo-1"]);
}

#[test]
fn s05_the_volume_of_a_replaced_member_is_quarantined_also_while_its_pod_cannot_stop() {
    let mut world = World::running(3);
    world.members.retain(|listed| listed.name != "demo-1");
    world.seen.record.members.get_mut(&name("demo-1")).unwrap().stage = Stage::Leaving(Leaving::Lost);
    world.seen.pods.get_mut(&name("demo-1")).unwrap().terminating = true;
    let plan = world.plan();
    let quarantines = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::QuarantineVolume { member, .. }) if member.as_str() == "demo-1");
    assert!(plan.effects.iter().any(quarantines), "{:?}", plan.effects);
}

#[test]
fn s05_a_quarantined_volume_is_not_adopted_after_status_was_lost_and_its_name_is_not_used_again() {
    let mut world = World::running(3);
    remove_by_hand(&mut world, "demo-2");
    world.resize(2);
    world.settle();
    assert_eq!(quarantined(&world), ["demo-2"]);
    world.seen.record = Record::default();
    world.settle();
    let recorded: Vec<&str> =
        world.seen.record.members.keys().map(quorate_model::MemberName::as_str).collect();
    assert_eq!(recorded, ["demo-0", "demo-1"]);
    world.resize(3);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-3"]);
    assert_eq!(quarantined(&world), ["demo-2"]);
}

#[test]
fn s05_the_volume_of_a_member_that_was_scaled_away_is_deleted_once_every_voter_is_healthy() {
    let mut world = World::running(4);
    world.resize(3);
    while world.members.len() == 4 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.silence("demo-1");
    for _ in 0..3 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert!(world.seen.volumes.contains_key(&name("demo-3")), "demo-1 may lack what only this volume has");
    world.silent.clear();
    world.settle();
    assert!(!world.seen.volumes.contains_key(&name("demo-3")));
}

#[test]
fn s05_deleting_the_cluster_treats_quarantined_volumes_like_the_others() {
    for (when_deleted, left) in [(Retention::Retain, 4), (Retention::Delete, 0)] {
        let mut world = World::running(3);
        remove_by_hand(&mut world, "demo-1");
        world.settle();
        world.seen.desired.storage.when_deleted = when_deleted;
        world.seen.deleting = true;
        for _ in 0..6 {
            let plan = world.plan();
            world.carry_out(plan);
        }
        assert_eq!(world.seen.volumes.len(), left, "by the policy {when_deleted:?}");
        assert!(!world.seen.finalizer);
    }
}

#[test]
fn m08_a_volume_is_old_enough_only_by_both_clocks() {
    let mut world = World::running(3);
    remove_by_hand(&mut world, "demo-2");
    world.settle();
    let kept = world.seen.volumes.len();
    world.seen.clock_differs = Some(ClockDifference::Ahead(Span::seconds(9 * 24 * 3600)));
    week(&mut world);
    world.settle();
    assert_eq!(world.seen.volumes.len(), kept);
    week(&mut world);
    week(&mut world);
    world.settle();
    assert_eq!(world.seen.volumes.len(), kept - 1);
}

/// For about a minute after a clock was set right the operator still knows how far it was off. Then the volume is kept for longer.
#[test]
fn m08_a_volume_is_quarantined_by_the_later_of_both_clocks_while_they_differ() {
    let behind = Span::seconds(8 * 86_400);
    for (differs, later) in [
        (ClockDifference::Behind(behind), behind),
        (ClockDifference::Ahead(Span::seconds(3600)), Span::seconds(0)),
    ] {
        let mut world = World::running(3);
        world.seen.clock_differs = Some(differs);
        remove_by_hand(&mut world, "demo-2");
        let plan = world.plan_that(|plan| quarantines(plan).is_some());
        assert_eq!(quarantines(&plan), Some(world.now + later));
    }
}

fn quarantines(plan: &Plan) -> Option<Instant> {
    plan.effects.iter().find_map(|effect| match effect.as_kube() {
        Some(KubeEffect::QuarantineVolume { since, .. }) => Some(*since),
        Some(_) | None => None,
    })
}
