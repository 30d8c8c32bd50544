//! R15: what counts as healthy, and that every part of it is needed. A member whose disk hangs goes on answering and following
//! the leader.

use quorate_model::ids::MemberId;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::{
    Alarm, AlarmKind, CommittedMark, Database, READY_WITHIN, Sick, Unhealthy, Unready,
};
use quorate_model::{Effect, EtcdCall, Instant, KubeEffect, Plan, Span, Waiting};
use quorate_planner::safety::mutants::without;

use crate::world::{World, name};

/// The member that a plan removes from etcd or whose Pod it takes away.
fn disrupted(plan: &Plan) -> Option<&str> {
    plan.effects.iter().find_map(|effect| match effect {
        Effect::Etcd { call: EtcdCall::RemoveMember { member, .. }, .. }
        | Effect::Kube {
            write: KubeEffect::EvictPod { member, .. } | KubeEffect::DeletePod { member, .. },
            ..
        } => Some(member.as_str()),
        Effect::Kube { .. } | Effect::Etcd { .. } => None,
    })
}

/// The first member that is disrupted on the way to the goal.
fn first_disrupted(world: &mut World) -> Option<String> {
    for _ in 0..10 {
        let plan = world.plan();
        if let Some(member) = disrupted(&plan) {
            return Some(member.to_owned());
        }
        world.carry_out(plan);
    }
    None
}

/// A cluster of three in which a member hangs that is not the one that shrinks away by its ordinal.
fn hung() -> World {
    let mut world = World::running(3);
    world.hang("demo-1");
    world
}

#[test]
fn s01_a_member_whose_disk_hangs_is_the_one_that_a_scale_in_removes() {
    let mut world = hung();
    world.resize(2);
    assert_eq!(first_disrupted(&mut world).as_deref(), Some("demo-1"));

    // Without the proof nothing differs on a calm cluster, and the only good follower goes.
    for part in ["R15 proof", "NotProven"] {
        let removed = without(part, || {
            let mut world = hung();
            world.resize(2);
            first_disrupted(&mut world)
        });
        assert_eq!(removed.as_deref(), Some("demo-2"), "without {part}");
    }
}

#[test]
fn s01_a_rollout_takes_the_hung_member_and_no_other() {
    let roll = |world: &mut World| {
        world.seen.desired.pod.revision.0 = "r2".to_owned();
        world.seen.desired.pod.content = "r2".to_owned();
        first_disrupted(world)
    };
    let mut world = hung();
    world.hung.clear();
    world.hang("demo-2");
    assert_eq!(roll(&mut world).as_deref(), Some("demo-2"), "the unhealthy one first");
    for _ in 0..10 {
        let plan = world.plan();
        assert!(disrupted(&plan).is_none_or(|member| member == "demo-2"), "{:?}", plan.effects);
        world.seen.record = plan.record;
    }
}

#[test]
fn s01_once_something_was_committed_a_hung_member_is_unhealthy_without_a_proof() {
    let mut world = hung();
    world.observe();
    assert!(world.seen.is_healthy(&name("demo-1"), world.now), "nothing to apply yet");
    world.seen.etcd.committed_before = Some(CommittedMark { at: world.now, index: world.committed + 1 });
    let lagging = Err(Unhealthy::Lagging { applied: world.committed, committed: world.committed + 1 });
    assert_eq!(world.seen.health(&name("demo-1"), world.now), lagging);
    without("R15 index", || assert!(world.seen.is_healthy(&name("demo-1"), world.now)));
}

#[test]
fn s01_a_proof_is_made_every_five_minutes_and_settles_a_doubt_at_once() {
    let mut world = World::running(3);
    world.proved_at = Some(world.now);
    world.now = world.now + Span::seconds(299);
    world.observe();
    assert!(!quorate_planner::plan(&world.seen, world.now).proof_is_due);
    world.now = world.now + Span::seconds(1);
    world.observe();
    let plan = quorate_planner::plan(&world.seen, world.now);
    assert!(plan.proof_is_due && plan.is_settled(), "it is not urgent: {plan:?}");

    // A member that was restored from a snapshot reports an old index until the next entry.
    world.now = world.now + Span::seconds(61);
    world.proved_at = Some(world.now);
    world.now = world.now + Span::seconds(61);
    world.observe();
    world.seen.etcd.committed_before = Some(CommittedMark { at: world.now, index: world.committed + 1 });
    assert!(quorate_planner::plan(&world.seen, world.now).needs_proof);
}

#[test]
fn s02_while_a_pod_is_being_deleted_no_other_member_is_touched() {
    let race = || {
        let mut world = World::running(3);
        world.seen.desired.pod.revision.0 = "r2".to_owned();
        world.seen.desired.pod.content = "r2".to_owned();
        world.seen.pods.get_mut(&name("demo-2")).unwrap().terminating = true;
        world.keep_serving("demo-2");
        world
    };
    let mut world = race();
    for _ in 0..5 {
        let plan = world.plan();
        assert_eq!(disrupted(&plan), None, "{:?}", plan.effects);
        world.seen.record = plan.record;
    }
    let disturbed = without("R15 terminating", || first_disrupted(&mut race()));
    assert!(disturbed.is_some(), "the check is needed");
}

#[test]
fn a_leader_that_no_quorum_follows_is_not_healthy_whatever_it_reports() {
    let mut world = World::running(3);
    world.observe();
    let leader = world.seen.leader(world.now);
    assert_eq!(leader, Some(MemberId(0xb050)), "{:?}", world.members);
    // demo-0 hangs and goes on naming itself; the others have elected demo-1.
    for member in ["demo-1", "demo-2"] {
        let answer = world.seen.etcd.answers.get_mut(&name(member)).unwrap();
        answer.reply.as_mut().unwrap().leader = Some(MemberId(0xb051));
    }
    assert_eq!(world.seen.leader(world.now), Some(MemberId(0xb051)));
    let health = world.seen.health(&name("demo-0"), world.now);
    assert_eq!(health, Err(Unhealthy::OtherLeader { follows: MemberId(0xb050), leader: MemberId(0xb051) }));
    without("R15 leader", || assert!(world.seen.is_healthy(&name("demo-0"), world.now)));

    // In the election nobody leads.
    for member in ["demo-1", "demo-2"] {
        world.seen.etcd.answers.get_mut(&name(member)).unwrap().reply.as_mut().unwrap().leader = None;
    }
    assert_eq!(world.seen.leader(world.now), None);
    assert_eq!(world.seen.health(&name("demo-0"), world.now), Err(Unhealthy::NoLeader));
}

#[test]
fn a_voter_that_is_still_a_learner_to_raft_is_not_healthy() {
    let mut world = World::running(3);
    world.observe();
    let answer = world.seen.etcd.answers.get_mut(&name("demo-1")).unwrap();
    answer.reply.as_mut().unwrap().is_learner = true;
    assert_eq!(world.seen.health(&name("demo-1"), world.now), Err(Unhealthy::Learner));
    without("R15 learner", || assert!(world.seen.is_healthy(&name("demo-1"), world.now)));
}

#[test]
fn a_member_that_an_alarm_names_is_unhealthy_whoever_reports_the_alarm() {
    let mut world = World::running(3);
    world.observe();
    let answer = world.seen.etcd.answers.get_mut(&name("demo-0")).unwrap();
    let alarm = Alarm { member: MemberId(0xb051), kind: AlarmKind::Corrupt };
    answer.reply.as_mut().unwrap().alarms.push(alarm);
    let health = world.seen.health(&name("demo-1"), world.now);
    assert_eq!(health, Err(Unhealthy::Alarm(AlarmKind::Corrupt)));
    assert!(world.seen.is_healthy(&name("demo-0"), world.now), "it only reports it");
    without("R15 alarm", || assert!(world.seen.is_healthy(&name("demo-1"), world.now)));
}

#[test]
fn an_alarm_without_a_member_stops_everything() {
    let mut world = World::running(3);
    world.resize(2);
    world.observe();
    for answer in world.seen.etcd.answers.values_mut() {
        answer.reply.as_mut().unwrap().errors.push("alarm:CORRUPT".to_owned());
    }
    let plan = world.plan_as_observed();
    assert_eq!(disrupted(&plan), None, "{:?}", plan.effects);
    assert!(plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Unsafe(_))), "{:?}", plan.waiting);
}

#[test]
fn a_learner_is_promoted_only_when_it_has_stored_what_was_committed() {
    let mut world = World::running(1);
    world.resize(2);
    for _ in 0..40 {
        let plan = world.plan();
        let promotes = plan
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Etcd { call: EtcdCall::Promote { .. }, .. }));
        if promotes {
            world.hang("demo-1");
            let plan = world.plan();
            let waits = plan.waiting.iter().any(|waiting| matches!(waiting, Waiting::Unsafe(_)));
            assert!(waits, "etcd would promote it, and the quorum of two would be lost: {:?}", plan.effects);
            return;
        }
        world.carry_out(plan);
    }
    panic!("it is never promoted");
}

#[test]
fn a_removal_in_progress_is_given_up_when_another_member_hangs() {
    let mut world = World::running(3);
    world.resize(2);
    world.seen.record.members.get_mut(&name("demo-2")).unwrap().stage = Stage::Leaving(Leaving::Shrink);
    world.hang("demo-1");
    let kept = |plan: &Plan| plan.record.members[&name("demo-2")].stage == Stage::Voter;
    let plan = world.plan_that(|plan| kept(plan) || disrupted(plan).is_some());
    assert!(kept(&plan), "{:?}", plan.effects);
}

#[test]
fn a_voter_whose_own_raft_still_says_learner_is_not_healthy() {
    let mut world = World::running(3);
    world.observe();
    let demo = name("demo-1");
    assert!(world.seen.is_healthy(&demo, world.now));
    let answer = world.seen.etcd.answers.get_mut(&demo).expect("it answers");
    answer.reply.as_mut().expect("it answers").is_learner = true;
    assert_eq!(world.seen.health(&demo, world.now), Err(Unhealthy::Learner));
}

/// An idle cluster of three: nothing was written, and a proof of progress is not due. The canary of this member fails.
fn idle_with_a_failing_canary(member: &str) -> World {
    let mut world = World::running(3);
    world.proved_at = Some(world.now);
    world.lose_readiness(member, Unready::NoMore);
    world
}

#[test]
fn s01_on_an_idle_cluster_a_hung_disk_is_noticed_by_the_canary_without_any_write() {
    let mut world = idle_with_a_failing_canary("demo-1");
    let committed = world.committed;
    let plan = world.plan();
    assert_eq!(world.committed, committed, "no proof was made");
    assert_eq!(world.seen.health(&name("demo-1"), world.now), Err(Unhealthy::NotReady));
    let named = |plan: &Plan| {
        plan.waiting
            .iter()
            .any(|waiting| matches!(waiting, Waiting::Sick(member, _) if *member == name("demo-1")))
    };
    assert!(named(&plan), "{:?}", plan.waiting);
    without("R15 canary", || assert!(!named(&world.plan())));
}

#[test]
fn s01_the_member_whose_canary_fails_is_the_one_that_a_scale_in_removes() {
    let removed = || {
        let mut world = idle_with_a_failing_canary("demo-1");
        world.resize(2);
        first_disrupted(&mut world)
    };
    assert_eq!(removed().as_deref(), Some("demo-1"));
    assert_eq!(without("R15 canary", removed).as_deref(), Some("demo-2"));
}

#[test]
fn s01_a_rollout_takes_the_member_whose_canary_fails_first_and_waits_for_it_before_the_next() {
    let mut world = idle_with_a_failing_canary("demo-2");
    world.seen.desired.pod.revision.0 = "r2".to_owned();
    world.seen.desired.pod.content = "r2".to_owned();
    assert_eq!(first_disrupted(&mut world).as_deref(), Some("demo-2"));

    // A disk that hangs does so for the next Pod, too.
    let plan = world.plan();
    world.carry_out(plan);
    world.settle();
    assert_eq!(
        world.seen.pods[&name("demo-1")].revision.0,
        "r2",
        "the rollout goes on when the cure has worked"
    );
    let mut world = idle_with_a_failing_canary("demo-2");
    world.seen.pods.get_mut(&name("demo-2")).unwrap().revision.0 = "r2".to_owned();
    world.seen.desired.pod.revision.0 = "r2".to_owned();
    world.seen.desired.pod.content = "r2".to_owned();
    assert_eq!(first_disrupted(&mut world), None);
}

#[test]
fn two_pods_that_are_not_ready_stop_every_disruption_and_no_lost_pod() {
    let mut world = idle_with_a_failing_canary("demo-1");
    world.lose_readiness("demo-2", Unready::NoMore);
    world.seen.desired.pod.revision.0 = "r2".to_owned();
    world.seen.desired.pod.content = "r2".to_owned();
    assert_eq!(first_disrupted(&mut world), None, "one of them may be the last that stores");
    // What a person does about it: one Pod is deleted by hand, and comes back on its volume in the new revision.
    world.lose_pod("demo-1");
    world.settle();
    assert_eq!(world.seen.pods[&name("demo-1")].revision.0, "r2");
    world.settle();
    assert_eq!(world.seen.pods[&name("demo-2")].revision.0, "r2", "the other one is the only sick one now");
}

#[test]
fn a_pod_that_is_not_ready_yet_is_given_time_and_so_is_a_promoted_learner() {
    let mut world = World::running(3);
    let demo = name("demo-1");
    let ages = [(READY_WITHIN, Ok(())), (Span(READY_WITHIN.0 + 1), Err(Unhealthy::NotReady))];
    for (age, health) in ages {
        world.lose_readiness("demo-1", Unready::NotYet(world.now));
        world.seen.record.members.get_mut(&demo).unwrap().since = world.now;
        world.now = world.now + age;
        world.observe();
        assert_eq!(world.seen.health(&demo, world.now), health, "{age}");
    }
    // It runs for long, and votes since a moment ago.
    world.seen.record.members.get_mut(&demo).unwrap().since = world.now;
    assert_eq!(world.seen.health(&demo, world.now), Ok(()));
}

#[test]
fn a_learner_is_not_unhealthy_because_its_pod_is_not_ready() {
    let mut world = World::running(3);
    world.resize(4);
    let promotes = |plan: &Plan| {
        plan.effects
            .iter()
            .any(|effect| matches!(effect, Effect::Etcd { call: EtcdCall::Promote { .. }, .. }))
    };
    for _ in 0..10 {
        if world.seen.pods.contains_key(&name("demo-3")) {
            world.lose_readiness("demo-3", Unready::NotYet(Instant(0)));
        }
        let plan = world.plan();
        if promotes(&plan) {
            return;
        }
        world.carry_out(plan);
    }
    panic!("it is never promoted");
}

#[test]
fn a_failing_probe_alone_is_no_leave_to_delete_a_pod_that_serves() {
    let mut world = idle_with_a_failing_canary("demo-1");
    world.silence("demo-2");
    world.seen.desired.pod.revision.0 = "r2".to_owned();
    world.seen.desired.pod.content = "r2".to_owned();
    world.observe();
    // Another container of the Pod is in trouble, so the old revision counts as one that cannot run.
    world.seen.pods.get_mut(&name("demo-1")).unwrap().trouble = Some("CrashLoopBackOff: sidecar".to_owned());
    let plan = world.plan_as_observed();
    assert_eq!(disrupted(&plan), None, "with demo-2 silent, the quorum needs it");
}

#[test]
fn m35_a_member_that_has_no_room_for_a_snapshot_of_the_leader_is_reported_as_such_with_what_to_do() {
    let why_after = |behind: u64, capacity: u64, size: u64, minutes: u64| {
        let mut world = World::running(3);
        let applied = world.committed;
        world.hang("demo-2");
        world.committed = applied + behind;
        world.seen.record.target.as_mut().unwrap().storage.bytes = capacity;
        for member in ["demo-0", "demo-1", "demo-2"] {
            let database = Database { size, in_use: size, quota: Some(1200 << 20) };
            world.databases.insert(name(member), database);
            world.seen.volumes.get_mut(&name(member)).unwrap().capacity = Some(capacity);
        }
        world.observe();
        world.seen.etcd.committed_before = Some(CommittedMark { at: world.now, index: world.committed });
        world.seen.etcd.unhealthy_since.insert(name("demo-2"), world.now);
        let now = world.now + Span::seconds(60 * minutes);
        world.seen.etcd.answers.values_mut().for_each(|answer| answer.at = now);
        if let Some(list) = &mut world.seen.etcd.list {
            list.at = now;
        }
        world.seen.why_unhealthy(&name("demo-2"), now).unwrap()
    };
    let why = |behind, capacity, size| why_after(behind, capacity, size, 11);
    let soon = why_after(6_000, 2 << 30, 1000 << 20, 1);
    assert_eq!(soon, Sick::FarBehind(None), "it may have been restarted just now");
    let Sick::FarBehind(Some(no_room)) = why(6_000, 2 << 30, 1000 << 20) else { panic!("it has room") };
    assert_eq!((no_room.needed >> 20, no_room.order.member), (3066, name("demo-2")));
    assert_eq!(why(6_000, 2 << 30, 700 << 20), Sick::FarBehind(None), "the volume of a new cluster");
    let near = why(4_000, 2 << 30, 1000 << 20);
    assert!(matches!(near, Sick::Is(Unhealthy::Lagging { .. })), "it catches up entry by entry: {near:?}");
}
