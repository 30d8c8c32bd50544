//! A member that cannot be placed, and the edit that cures it: it is taken at once. And the PriorityClass that a namespace refuses.

use crate::world::{World, name, words};
use quorate_model::effect::PodTrouble;
use quorate_model::record::Stage;
use quorate_model::target::PodRevision;
use quorate_model::{Effect, KubeEffect, Plan, Step, Waiting};

const WHY: &str =
    "Unschedulable: 0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector";

/// No node fits the Pod of this member: it never runs.
fn no_node_fits(world: &mut World, member: &str) {
    let pod = world.seen.pods.get_mut(&name(member)).expect("it has a Pod");
    (pod.ready, pod.has_run, pod.ip, pod.node) = (false, false, None, None);
    pod.trouble = Some(WHY.to_owned());
}

fn edit(world: &mut World, revision: &str) {
    world.seen.desired.pod.revision = PodRevision(revision.to_owned());
    revision.clone_into(&mut world.seen.desired.pod.content);
}

fn deletes(plan: &Plan, step: Step) -> Vec<String> {
    let of_step = plan.effects.iter().filter(|effect| effect.step() == step);
    of_step
        .filter_map(Effect::as_kube)
        .filter_map(|effect| match effect {
            KubeEffect::DeletePod { member, .. } => Some(member.to_string()),
            _ => None,
        })
        .collect()
}

fn committed(plan: &Plan) -> &str {
    plan.record.target.as_ref().map(|target| target.pod.revision.0.as_str()).unwrap_or_default()
}

#[test]
fn a_voter_that_cannot_be_placed_is_created_again_at_once_when_the_cure_is_edited() {
    let mut world = World::running(3);
    edit(&mut world, "no such node");
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::U5));
    world.carry_out(plan);
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::W1));
    world.carry_out(plan);
    let pending = world.seen.pods.iter().find(|(_, pod)| pod.revision.0 == "no such node");
    let pending = pending.map(|(name, _)| name.to_string()).expect("the first that was rolled");
    no_node_fits(&mut world, &pending);

    let plan = world.plan();
    assert!(deletes(&plan, Step::U5).is_empty(), "the rollout goes no further: {:?}", plan.effects);
    let reported = |waiting: &Waiting| words(waiting).contains(WHY);
    assert!(plan.waiting.iter().any(reported), "{:?}", plan.waiting);
    world.carry_out(plan);

    edit(&mut world, "r1");
    let plan = world.plan();
    assert_eq!((committed(&plan), deletes(&plan, Step::W2)), ("r1", vec![pending]));
    world.carry_out(plan);
    let story = world.settle();
    assert!(!story.contains("U5"), "the others have that revision still: {story}");
    assert!(world.seen.pods.values().all(|pod| pod.revision.0 == "r1" && pod.ready));
}

#[test]
fn members_that_wake_and_cannot_be_placed_are_created_again_at_once_though_there_is_no_quorum() {
    let mut world = World::running(3);
    world.resize(0);
    world.settle();
    edit(&mut world, "no such node");
    world.resize(3);
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::W1));
    world.carry_out(plan);
    for member in ["demo-0", "demo-1", "demo-2"] {
        no_node_fits(&mut world, member);
    }
    edit(&mut world, "r1");
    let plan = world.plan();
    assert_eq!((committed(&plan), deletes(&plan, Step::W2).len()), ("r1", 3));
    world.carry_out(plan);
    world.settle();
    assert_eq!(world.voters().len(), 3);
}

#[test]
fn a_learner_that_cannot_be_placed_is_created_again_at_once_when_the_cure_is_edited() {
    let mut world = World::running(3);
    world.resize(4);
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G4));
    world.carry_out(plan);
    no_node_fits(&mut world, "demo-3");
    let plan = world.plan();
    let stuck = Waiting::PodStuck(name("demo-3"), PodTrouble::Says(WHY.to_owned()));
    assert!(plan.waiting.contains(&stuck), "{:?}", plan.waiting);
    world.carry_out(plan);

    edit(&mut world, "tolerant");
    let plan = world.plan();
    assert_eq!((committed(&plan), deletes(&plan, Step::W2)), ("tolerant", vec!["demo-3".to_owned()]));
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Joining, "the member stays the same");
    world.carry_out(plan);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2", "demo-3"]);
    assert!(world.seen.pods.values().all(|pod| pod.revision.0 == "tolerant"));
}

/// The plan while `demo-0` has no peers: it serves nobody, and has only the entries that a member begins with.
fn alone(world: &mut World) -> Plan {
    world.observe();
    world.seen.etcd.list = None;
    world.seen.pods.get_mut(&name("demo-0")).expect("it has a Pod").ready = false;
    for answer in world.seen.etcd.answers.values_mut() {
        if let Ok(status) = &mut answer.reply {
            (status.leader, status.applied) = (None, 3);
        }
    }
    quorate_planner::plan(&world.seen, world.now)
}

#[test]
fn bootstrap_members_that_cannot_be_placed_are_given_up_at_once_when_the_cure_is_edited() {
    let mut world = World::with_pods_created(3);
    while world.seen.pods.values().any(|pod| pod.gated) {
        let plan = world.plan();
        world.carry_out(plan);
    }
    for member in ["demo-1", "demo-2"] {
        no_node_fits(&mut world, member);
    }
    let plan = alone(&mut world);
    for member in ["demo-1", "demo-2"] {
        let stuck = Waiting::PodStuck(name(member), PodTrouble::Says(WHY.to_owned()));
        assert!(plan.waiting.contains(&stuck), "{:?}", plan.waiting);
    }
    edit(&mut world, "tolerant");
    let plan = alone(&mut world);
    assert_eq!(deletes(&plan, Step::BA).len(), 3, "{:?}", plan.effects);
    world.carry_out(plan);
    world.settle();
    assert_eq!(world.voters().len(), 3);
    assert!(world.seen.pods.values().all(|pod| pod.revision.0 == "tolerant"));
}

#[test]
fn a_bootstrap_member_that_cannot_be_placed_while_the_others_form_a_quorum_is_cured_as_a_voter() {
    let mut world = World::with_pods_created(3);
    while world.seen.pods.values().any(|pod| pod.gated) {
        let plan = world.plan();
        world.carry_out(plan);
    }
    no_node_fits(&mut world, "demo-2");
    let plan = world.plan_that(|plan| plan.record.is_bootstrapped());
    world.carry_out(plan);
    edit(&mut world, "tolerant");
    let plan = world.plan();
    assert_eq!((committed(&plan), deletes(&plan, Step::W2)), ("tolerant", vec!["demo-2".to_owned()]));
}
