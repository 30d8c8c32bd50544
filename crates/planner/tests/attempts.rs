//! When a bootstrap attempt may be given up. Clients that know the names of members write as soon as there is a leader, so what
//! etcd reports decides, and not whether the client Service exists.

use crate::world::{World, name};
use quorate_model::record::Abandoned;
use quorate_model::{GuardVerdict, Plan};

/// Three members whose Pods run, of which the operator has no member list yet. Each answers that it follows a leader, or none,
/// and has applied so many entries.
fn forming(has_leader: bool, applied: u64) -> World {
    let mut world = World::with_pods_created(3);
    while world.seen.pods.values().any(|pod| pod.gated) {
        let plan = world.plan();
        world.carry_out(plan);
    }
    world.observe();
    world.seen.etcd.list = None;
    for pod in world.seen.pods.values_mut() {
        pod.ready = false;
    }
    for answer in world.seen.etcd.answers.values_mut() {
        let status = answer.reply.as_mut().expect("it answers");
        status.leader = status.leader.filter(|_| has_leader);
        status.applied = applied;
    }
    world
}

fn planned(world: &World) -> Plan {
    quorate_planner::plan(&world.seen, world.now)
}

#[test]
fn s10_an_attempt_whose_members_had_a_leader_is_not_given_up_and_the_edit_follows_as_a_change() {
    for (has_leader, applied) in [(true, 4), (false, 4)] {
        let mut world = forming(has_leader, applied);
        world.resize(1);
        let plan = planned(&world);
        assert_eq!(plan.record.abandoned, None, "leader {has_leader}, applied {applied}");
        assert!(plan.record.had_leader, "it is remembered when nobody answers any more");
        world.carry_out(plan);

        for member in ["demo-0", "demo-1", "demo-2"] {
            world.silence(member);
        }
        assert_eq!(world.plan().record.abandoned, None);
        world.silent.clear();
        let story = world.settle();
        assert!(!story.contains("BA"), "{story}");
        assert_eq!(world.voters(), ["demo-0"], "{story}");
        assert!(!world.seen.record.had_leader, "the cluster id says it now");
    }
}

#[test]
fn s10_an_attempt_whose_members_have_only_the_entries_that_they_begin_with_is_given_up() {
    let mut world = forming(false, 3);
    world.resize(1);
    assert_eq!(planned(&world).record.abandoned, Some(Abandoned::SpecEdited));
}

#[test]
fn an_attempt_is_given_up_when_the_guard_finds_a_volume_emptied() {
    let mut world = forming(false, 3);
    assert_eq!(planned(&world).record.abandoned, None);
    let pod = world.seen.pods.get_mut(&name("demo-1")).unwrap();
    pod.guard = Some((GuardVerdict::DataMissing, "it had some at an earlier start".into()));
    assert_eq!(planned(&world).record.abandoned, Some(Abandoned::VolumeEmptied));
}

#[test]
fn s10_when_a_leader_appears_an_attempt_is_no_longer_given_up() {
    let mut world = forming(true, 4);
    world.seen.record.abandoned = Some(Abandoned::SpecEdited);
    let plan = planned(&world);
    assert_eq!((plan.record.abandoned, plan.record.had_leader), (None, true));
    assert!(!plan.effects.iter().any(|effect| effect.to_string().contains("delete")), "{:?}", plan.effects);
}

#[test]
fn s10_an_attempt_that_had_a_leader_keeps_its_volumes_when_the_cluster_is_deleted() {
    for (applied, left) in [(4, 3), (3, 0)] {
        let mut world = forming(false, applied);
        world.seen.deleting = true;
        let plan = planned(&world);
        world.carry_out(plan);
        for _ in 0..6 {
            let plan = world.plan();
            world.carry_out(plan);
        }
        assert_eq!(world.seen.volumes.len(), left, "applied {applied}");
        assert!(!world.seen.pods.contains_key(&name("demo-0")) && !world.seen.finalizer);
    }
}
