//! Pods that end one after another, and their members.

use quorate_model::effect::PodTrouble;
use quorate_model::record::{Leaving, Loss, Stage, Suspicion};
use quorate_model::snapshot::EndedPods;
use quorate_model::{Instant, MemberName, Plan, Step, Waiting};

use crate::world::{World, name};

const WHY: &str =
    "OutOfcpu: Node didn't have enough resource: cpu, requested: 4000, used: 500, capacity: 2000";

/// The kubelet refused the Pod: so many of the member have ended, and the last one was seen so many seconds ago.
fn refused(world: &mut World, member: &MemberName, times: u32, ago: i64) -> Plan {
    world.observe();
    let pod = world.seen.pods.get_mut(member).expect("it has a Pod");
    (pod.finished, pod.ready, pod.runs, pod.trouble) = (true, false, false, Some(WHY.to_owned()));
    let ended = EndedPods { last: pod.uid.clone(), times, at: Instant(world.now.0 - ago * 1000) };
    world.seen.etcd.ended_pods.insert(member.clone(), ended);
    world.plan_as_observed()
}

fn restarts(plan: &Plan) -> usize {
    plan.effects.iter().filter(|effect| matches!(effect.step(), Step::W1 | Step::W2)).count()
}

fn told(plan: &Plan) -> Option<&PodTrouble> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::PodStuck(_, why) => Some(why),
        _ => None,
    })
}

#[test]
fn m11_a_pod_that_its_kubelet_refuses_again_and_again_is_created_with_growing_delay_and_says_why() {
    let mut world = World::running(3);
    let demo = name("demo-2");
    world.silence("demo-2");
    for (times, ago, expected) in
        [(1, 0, 1), (2, 0, 1), (3, 5, 0), (3, 10, 1), (6, 79, 0), (6, 80, 1), (90, 299, 0), (90, 300, 1)]
    {
        let plan = refused(&mut world, &demo, times, ago);
        assert_eq!(restarts(&plan), expected, "{times} times, {ago} s ago: {:?}", plan.effects);
        let message = told(&plan);
        assert_eq!(message.is_some(), expected == 0);
        assert!(
            message.is_none_or(|why| matches!(why, PodTrouble::KeepsEnding { member, why: Some(why), .. } if *member == demo && why == WHY)),
            "{message:?}"
        );
    }
    // The clock was set back.
    assert_eq!(restarts(&refused(&mut world, &demo, 90, -60)), 1);
}

#[test]
fn m11_a_pod_that_ended_is_created_again_at_once_in_a_new_shape_and_where_nothing_is_remembered() {
    let mut world = World::running(3);
    let demo = name("demo-2");
    world.silence("demo-2");
    let plan = refused(&mut world, &demo, 90, 1);
    assert_eq!(restarts(&plan), 0, "{:?}", plan.effects);
    world.seen.pods.get_mut(&demo).expect("it has a Pod").revision.0 = "before".to_owned();
    assert_eq!(restarts(&world.plan_as_observed()), 1, "the committed shape may be the cure");
    world.seen.pods.get_mut(&demo).expect("it has a Pod").revision =
        world.seen.pods[&name("demo-0")].revision.clone();
    world.seen.etcd.ended_pods.clear();
    assert_eq!(restarts(&world.plan_as_observed()), 1, "another operator leads");
}

#[test]
fn m11_a_pod_that_stays_for_a_while_keeps_no_other_member_from_its_restart() {
    let mut world = World::running(3);
    world.silence("demo-2");
    world.lose_pod("demo-1");
    let plan = refused(&mut world, &name("demo-2"), 90, 1);
    assert_eq!(restarts(&plan), 1, "{:?}", plan.effects);
}

/// Another member has its place, and only its removal from etcd was outstanding when the cluster went to size zero.
#[test]
fn t06_on_waking_nothing_is_said_of_the_volume_of_a_member_that_leaves() {
    for why in [Leaving::Lost, Leaving::Replaced, Leaving::Shrink] {
        let mut world = World::running(3);
        world.resize(0);
        world.settle();
        let demo = name("demo-2");
        world.seen.volumes.remove(&demo);
        world.seen.record.members.get_mut(&demo).expect("it is recorded").stage = Stage::Leaving(why);
        let since = Instant(world.now.0 - 3_600_000);
        let suspected = Suspicion { loss: Loss::VolumeGone, since, rechecked: None };
        world.seen.record.suspected.insert(demo.clone(), suspected);
        world.resize(3);
        let mut woken = 0;
        for _ in 0..20 {
            let plan = world.plan();
            woken += restarts(&plan);
            let lost = Waiting::VolumeLost(demo.clone());
            assert!(!plan.waiting.contains(&lost), "{why:?}: {:?}", plan.waiting);
            world.carry_out(plan);
        }
        assert_eq!(woken, 2, "{why:?}");
        let story = world.settle();
        assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-3"], "{why:?}: {story}");
    }
}
