//! R16: drains and the operator take turns, and the budget knows what a count of ready Pods does not.

use quorate_model::effect::Unsafe;
use quorate_model::record::{FailedLearners, Stage};
use quorate_model::snapshot::BudgetPolicy;
use quorate_model::{AppliedObject, Effect, EtcdCall, Instant, KubeEffect, Plan, Step, Waiting};
use quorate_planner::safety::mutants::without;

use crate::world::{World, name};

fn budget(plan: &Plan) -> Option<usize> {
    plan.effects.iter().find_map(|effect| match effect.as_kube() {
        Some(KubeEffect::Apply(AppliedObject::Budget { min_available, .. })) => Some(*min_available),
        Some(_) | None => None,
    })
}

fn removes(plan: &Plan) -> bool {
    let removes = |effect: &Effect| matches!(effect.as_etcd(), Some(EtcdCall::RemoveMember { .. }));
    plan.effects.iter().any(removes)
}

fn roll(world: &mut World) {
    "r2".clone_into(&mut world.seen.desired.pod.revision.0);
}

#[test]
fn h39_the_budget_admits_one_eviction_at_a_time_whatever_the_size() {
    for (size, policy, expected) in [
        (1, BudgetPolicy::OneAtATime, 0),
        (2, BudgetPolicy::OneAtATime, 1),
        (3, BudgetPolicy::OneAtATime, 2),
        (5, BudgetPolicy::OneAtATime, 4),
        (1, BudgetPolicy::Quorum, 1),
        (2, BudgetPolicy::Quorum, 2),
        (3, BudgetPolicy::Quorum, 2),
        (5, BudgetPolicy::Quorum, 3),
    ] {
        let mut world = World::running(size);
        world.seen.budget_policy = policy;
        world.seen.budget = None;
        assert_eq!(budget(&world.plan()), Some(expected), "{size} {policy:?}");
    }
}

#[test]
fn a_cluster_of_three_that_cannot_grow_may_lose_one_member_until_the_next_learner_is_added() {
    let mut world = World::running(3);
    world.resize(5);
    let plan = world.plan_that(|plan| plan.record.joining().is_some());
    world.carry_out(plan);
    let plan = world.plan_that(|plan| budget(plan).is_some());
    assert_eq!(budget(&plan), Some(3), "the learner may become a voter");
    world.carry_out(plan);
    world.seen.record.members.retain(|_, member| member.stage == Stage::Voter);
    world.seen.record.failed_learners =
        Some(FailedLearners { count: 6, reason: "no node fits".to_owned(), at: world.now });
    assert_eq!(budget(&world.plan()), Some(2), "nothing is added for half an hour");
}

#[test]
fn without_a_policy_there_is_no_budget_and_a_removal_waits_for_none() {
    let mut world = World::running(3);
    world.seen.budget_policy = BudgetPolicy::None;
    world.settle();
    assert_eq!(world.seen.budget, None);
    world.resize(2);
    world.plan_that(removes);
}

#[test]
fn s01_while_a_ready_voter_does_not_store_the_budget_admits_no_eviction() {
    let mut world = World::running(3);
    world.hang("demo-1");
    world.prove();
    world.seen.etcd.proof = None;
    world.proved_at = None;
    let plan = world.plan();
    assert_eq!(budget(&plan), Some(3), "{:?}", plan.effects);
    world.carry_out(plan);
    world.hung.clear();
    world.settle();
    assert_eq!(world.seen.budget.as_ref().and_then(|budget| budget.min_available), Some(2));
}

#[test]
fn s02_a_pod_that_serves_is_evicted_and_never_deleted() {
    let mut world = World::running(3);
    roll(&mut world);
    let plan = world.plan_that(|plan| !plan.effects.is_empty());
    assert!(
        matches!(
            plan.effects.as_slice(),
            [Effect::Kube { step: Step::U5, write: KubeEffect::EvictPod { .. } }]
        ),
        "{:?}",
        plan.effects
    );
    let pod = world.seen.pods[&name("demo-1")].clone();
    let delete = KubeEffect::DeletePod {
        member: name("demo-1"),
        pod: pod.uid,
        resource_version: pod.resource_version,
    };
    let scene = quorate_planner::safety::Scene {
        seen: &world.seen,
        record: &world.seen.record,
        now: world.now,
        before: &[],
    };
    let delete = Effect::kube(Step::U5, delete);
    let permits = || quorate_planner::safety::permits(&scene, &delete);
    assert_eq!(permits(), Err(Unsafe::MustEvict(name("demo-1"))));
    assert_eq!(
        without("MustEvict", || {
            // Nothing else refuses it.
            without_budget(&world, &delete)
        }),
        Ok(())
    );
}

fn without_budget(world: &World, effect: &Effect) -> Result<(), Unsafe> {
    let mut seen = world.seen.clone();
    seen.budget_policy = BudgetPolicy::None;
    let scene =
        quorate_planner::safety::Scene { seen: &seen, record: &seen.record, now: world.now, before: &[] };
    quorate_planner::safety::permits(&scene, effect)
}

#[test]
fn s02_a_member_is_removed_only_while_no_other_pod_can_be_evicted() {
    let open = |world: &mut World| {
        world.resize(2);
        let plan = world.plan();
        assert!(!removes(&plan), "the budget still admits one eviction: {:?}", plan.effects);
        world.carry_out(plan);
        world.plan()
    };
    let mut world = World::running(3);
    let plan = open(&mut world);
    assert_eq!(budget(&plan), Some(3));
    world.carry_out(plan);
    // Its clients have left.
    let until = Instant(world.now.0 - 60_000);
    let leaving = world.seen.pods.get_mut(&name("demo-2")).unwrap();
    (leaving.serves, leaving.served_until) = (false, Some(until));
    // A drain took a Pod just before.
    world.seen.budget.as_mut().unwrap().disrupted.insert(name("demo-0"));
    let plan = world.plan();
    let waits = Waiting::Unsafe(Unsafe::BudgetOpen(name("demo-2")));
    assert!(!removes(&plan) && plan.waiting.contains(&waits), "{:?}", plan.waiting);
    without("BudgetOpen", || assert!(removes(&world.plan()), "{:?}", world.plan().waiting));
    world.seen.budget.as_mut().unwrap().disrupted.clear();
    world.plan_that(removes);
    world.settle();
    assert_eq!(world.seen.budget.as_ref().and_then(|budget| budget.min_available), Some(1));
}

#[test]
fn with_the_quorum_policy_a_cluster_of_one_or_two_lowers_its_own_budget_for_its_own_restart() {
    for size in [1, 2] {
        let mut world = World::running(size);
        world.seen.budget_policy = BudgetPolicy::Quorum;
        world.settle();
        roll(&mut world);
        let lowered = world.plan_that(|plan| budget(plan).is_some());
        assert_eq!(budget(&lowered), Some(size - 1));
        let evicts = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::EvictPod { .. }));
        assert!(lowered.effects.iter().any(evicts), "{:?}", lowered.effects);
        world.carry_out(lowered);
        world.settle();
        let after = world.seen.budget.as_ref().and_then(|budget| budget.min_available);
        assert_eq!(after, Some(size), "its own step is over");
    }
}

#[test]
fn one_plan_evicts_one_pod_also_where_no_budget_would_refuse_the_second() {
    let mut world = World::running(3);
    world.seen.budget_policy = BudgetPolicy::None;
    world.observe();
    world.prove();
    world.admit_successors();
    let evict = |member: &str| {
        let pod = world.seen.pods[&name(member)].uid.clone();
        Effect::kube(Step::U5, KubeEffect::EvictPod { member: name(member), pod })
    };
    let before = [evict("demo-1")];
    let (seen, record) = (&world.seen, &world.seen.record);
    let scene = quorate_planner::safety::Scene { seen, record, now: world.now, before: &before };
    let second = || quorate_planner::safety::permits(&scene, &evict("demo-2"));
    assert_eq!(second(), Err(Unsafe::SecondDisruption(name("demo-2"))));
    assert_eq!(without("SecondDisruption", second), Ok(()));
}

/// Whether a plan ends the Pod of a member.
fn ends(plan: &Plan, member: &str) -> bool {
    plan.effects.iter().any(|effect| match effect.as_kube() {
        Some(KubeEffect::EvictPod { member: of, .. } | KubeEffect::DeletePod { member: of, .. }) => {
            *of == name(member)
        }
        Some(_) | None => false,
    })
}

#[test]
fn l03_a_pod_that_runs_stays_where_its_successor_is_refused_and_the_refusal_is_told() {
    for size in [1, 3] {
        for is_sick in [false, true] {
            let mut world = World::running(size);
            world.settle();
            roll(&mut world);
            let why = "minimum memory usage per Container is 8Gi";
            world.admits_no_pod = Some(why.to_owned());
            if is_sick {
                world.silence("demo-0");
            }
            let plan = world.plan_that(|plan| plan.rehearsal.is_some() || !plan.waiting.is_empty());
            for _ in 0..3 {
                let plan = world.plan();
                assert!(!(0..size).any(|at| ends(&plan, &format!("demo-{at}"))), "{plan:?}");
                world.carry_out(plan);
            }
            let told = world.plan().waiting.into_iter().any(
                |waiting| matches!(waiting, Waiting::Unsafe(Unsafe::NotAdmitted(_, Some(said))) if said == why),
            );
            assert!(told || is_sick, "{plan:?}");
            if !is_sick {
                assert!(ends(&without("NotAdmitted", || world.plan()), &ended_first(&mut world)));
            }
        }
    }
}

/// Which Pod is ended first once successors are admitted.
fn ended_first(world: &mut World) -> String {
    world.admits_no_pod = None;
    let plan = world.plan_that(|plan| {
        plan.effects.iter().any(|effect| matches!(effect.as_kube(), Some(KubeEffect::EvictPod { .. })))
    });
    let evicted = plan.effects.iter().find_map(|effect| match effect.as_kube() {
        Some(KubeEffect::EvictPod { member, .. }) => Some(member.to_string()),
        Some(_) | None => None,
    });
    evicted.expect("one is")
}

/// A rollout of three members while the Pod of demo-0 is all that keeps its data: what becomes of the budget and of Pods, in order.
fn rolled_while_a_pod_keeps_data() -> Vec<String> {
    let mut world = World::running(3);
    world.settle();
    world.seen.replacement_policy.enabled = false;
    world.seen.volumes.get_mut(&name("demo-0")).expect("it has a volume").terminating = true;
    roll(&mut world);
    let mut done = Vec::new();
    for _ in 0..30 {
        let plan = world.plan();
        done.extend(plan.effects.iter().filter_map(|effect| match effect.as_kube() {
            Some(KubeEffect::Apply(AppliedObject::Budget { min_available, excludes })) => {
                Some(match excludes {
                    Some(member) => format!("without {member}"),
                    None => format!("at least {min_available}"),
                })
            }
            Some(KubeEffect::DeletePod { member, .. }) => Some(format!("delete {member}")),
            Some(KubeEffect::EvictPod { member, .. }) => Some(format!("evict {member}")),
            Some(_) | None => None,
        }));
        world.carry_out(plan);
    }
    done
}

#[test]
fn l15_a_pod_that_serves_is_evicted_also_while_another_pod_keeps_data() {
    let mut ended = rolled_while_a_pod_keeps_data();
    ended.retain(|what| what.starts_with("evict") || what.starts_with("delete"));
    assert_eq!(ended, ["evict demo-1", "evict demo-2"], "demo-0 keeps its data");
}

#[test]
fn l15_the_budget_selects_every_pod_again_before_another_one_is_evicted() {
    let expected = [
        "at least 3",
        "without demo-1",
        "evict demo-1",
        "at least 3",
        "without demo-2",
        "evict demo-2",
        "at least 3",
    ];
    assert_eq!(rolled_while_a_pod_keeps_data(), expected);
}
