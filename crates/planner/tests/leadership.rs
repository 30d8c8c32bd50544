//! Moving leadership away: to whom, how often, and what is reported while nobody takes over.

use crate::world::{World, name};
use quorate_model::record::Stage;
use quorate_model::snapshot::TransferAttempt;
use quorate_model::target::PodRevision;
use quorate_model::{EtcdCall, MemberName, Plan, Span, Waiting};

/// The member that the plan moves leadership to, if it does.
fn target_of(plan: &Plan) -> Option<String> {
    plan.effects.iter().find_map(|effect| match effect.as_etcd() {
        Some(EtcdCall::MoveLeadership { to, .. }) => Some(to.to_string()),
        Some(
            EtcdCall::AddLearner { .. }
            | EtcdCall::Promote { .. }
            | EtcdCall::RemoveMember { .. }
            | EtcdCall::Disarm { .. }
            | EtcdCall::Auth { .. }
            | EtcdCall::DeleteUser { .. }
            | EtcdCall::DeleteRole { .. }
            | EtcdCall::Downgrade { .. }
            | EtcdCall::Compact { .. }
            | EtcdCall::Defragment { .. },
        )
        | None => None,
    })
}

/// A cluster of which only the leader, `demo-0`, still runs the earlier revision, so that a rollout has to move leadership.
fn leader_is_stale(size: usize) -> World {
    let mut world = World::running(size);
    world.seen.desired.pod.revision = PodRevision("r2".into());
    let committed = world.plan_that(|plan| {
        plan.record.target.as_ref().is_some_and(|target| target.pod.revision == PodRevision("r2".into()))
    });
    world.carry_out(Plan { effects: Vec::new(), ..committed });
    for (member, pod) in &mut world.seen.pods {
        if *member != name("demo-0") {
            pod.revision = PodRevision("r2".into());
        }
    }
    assert_eq!(world.leader, Some(name("demo-0")));
    world
}

/// Makes passes for this long, one a second. Returns when leadership was to be moved, in seconds, and to whom.
fn tries(world: &mut World, seconds: i64) -> Vec<(i64, String)> {
    let began = world.now;
    let mut tries = Vec::new();
    while world.now.0 - began.0 < seconds * 1000 {
        let plan = world.plan();
        if let Some(to) = target_of(&plan) {
            tries.push(((world.now.0 - began.0) / 1000, to));
        }
        let next = world.now + Span::seconds(1);
        world.carry_out(plan);
        world.now = next;
    }
    tries
}

/// To which members leadership was moved in vain, and how often.
fn reported(plan: &Plan) -> Option<Vec<(MemberName, usize)>> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::LeaderTransferFailed { tried, .. } => Some(tried.clone()),
        _ => None,
    })
}

#[test]
fn s11_a_target_that_does_not_take_over_is_followed_by_the_next_one() {
    let mut world = leader_is_stale(3);
    world.never_lead.insert(name("demo-1"));
    let tries = tries(&mut world, 20);
    let targets: Vec<&str> = tries.iter().map(|(_, to)| to.as_str()).collect();
    assert_eq!(targets, ["demo-1", "demo-2"]);
    assert!(
        !world.seen.pods.values().any(|pod| pod.revision != PodRevision("r2".into())),
        "the rollout ends"
    );
}

#[test]
fn s11_the_target_is_the_healthy_voter_that_has_applied_most_and_never_one_that_lags() {
    let mut world = leader_is_stale(5);
    world.hang("demo-1");
    world.committed += 10;
    let plan = world.plan_that(|plan| target_of(plan).is_some());
    assert_eq!(target_of(&plan).as_deref(), Some("demo-2"), "{:?}", plan.effects);
    world.observe();
    world.prove();
    for (member, applied) in [("demo-2", 0), ("demo-3", 7), ("demo-4", 5)] {
        let answer = world.seen.etcd.answers.get_mut(&name(member)).expect("it answers");
        answer.reply.as_mut().expect("it answers").applied += applied;
    }
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert_eq!(target_of(&plan).as_deref(), Some("demo-3"), "{:?}", plan.effects);
}

#[test]
fn s11_once_every_member_was_tried_the_attempts_follow_with_growing_delay_and_are_reported() {
    let mut world = leader_is_stale(3);
    world.never_lead.extend([name("demo-1"), name("demo-2")]);
    let tries = tries(&mut world, 3600);
    let targets: Vec<&str> = tries.iter().map(|(_, to)| to.as_str()).take(4).collect();
    assert_eq!(targets, ["demo-1", "demo-2", "demo-1", "demo-2"], "in turns");
    let delays: Vec<i64> = tries.windows(2).map(|two| two[1].0 - two[0].0).collect();
    assert!(delays[0] <= 2, "the second one is tried at once: {delays:?}");
    for (delay, at_least) in delays[1..].iter().zip([30, 60, 120, 240, 480, 600, 600]) {
        assert!((at_least..at_least + 3).contains(delay), "{delays:?}");
    }
    let counted = reported(&world.plan()).expect("it is reported");
    let times = |member: &str| tries.iter().filter(|(_, to)| to == member).count();
    let expected = ["demo-1", "demo-2"].map(|member| (name(member), times(member)));
    assert_eq!(counted, expected);
    assert!(
        world.seen.pods[&name("demo-0")].revision != PodRevision("r2".into()),
        "the leader is not restarted"
    );

    world.never_lead.clear();
    world.settle();
    world.now = world.now + Span::seconds(600);
    world.settle();
    assert_eq!(reported(&world.plan()), None);
    assert_eq!(world.seen.pods[&name("demo-0")].revision, PodRevision("r2".into()));
}

#[test]
fn s11_a_clock_that_was_set_back_does_not_block_the_next_attempt() {
    let mut world = leader_is_stale(3);
    world.never_lead.extend([name("demo-1"), name("demo-2")]);
    let before = tries(&mut world, 40);
    assert_eq!(before.len(), 3);
    let TransferAttempt { at, .. } = *world.transfers.last().expect("an attempt");
    world.now = quorate_model::Instant(at.0 - 1_000_000);
    world.proved_at = None;
    let after = tries(&mut world, 130);
    let when: Vec<i64> = after.iter().map(|(at, _)| *at).collect();
    assert!(when.len() >= 2 && when[0] <= 1 && when[1] > 30, "once, and then after the delay: {when:?}");
}

#[test]
fn s11_a_member_that_is_removed_hands_over_in_the_same_way() {
    let mut world = World::running(3);
    world.resize(2);
    let chosen =
        world.plan_that(|plan| matches!(plan.record.members[&name("demo-2")].stage, Stage::Leaving(_)));
    world.carry_out(Plan { effects: Vec::new(), ..chosen });
    world.leader = Some(name("demo-2"));
    world.never_lead.insert(name("demo-0"));
    let targets: Vec<String> = tries(&mut world, 20).into_iter().map(|(_, to)| to).collect();
    assert_eq!(targets, ["demo-0", "demo-1"]);
    assert_eq!(world.voters(), ["demo-0", "demo-1"]);
}
