//! R24: clients are led away before a member cannot serve them, and never from the last ones that do.

use std::collections::BTreeSet;

use quorate_model::effect::Unsafe;
use quorate_model::record::Stage;
use quorate_model::snapshot::{Alarm, AlarmKind, BudgetPolicy, CLIENTS_LEAVE_WITHIN, LED_AWAY_AFTER};
use quorate_model::{
    ClockDifference, ClusterId, Effect, Instant, KubeEffect, Plan, Revision, Span, Step, Waiting,
};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, permits};

use crate::world::{World, name};

fn led_away(plan: &Plan) -> Vec<&str> {
    let away = |effect: &'_ Effect| match effect.as_kube() {
        Some(KubeEffect::LeadClientsAway { member, .. }) => Some(member.as_str().to_owned()),
        _ => None,
    };
    let names: BTreeSet<String> = plan.effects.iter().filter_map(away).collect();
    ["demo-0", "demo-1", "demo-2", "demo-3", "demo-4"]
        .into_iter()
        .filter(|one| names.contains(*one))
        .collect()
}

fn labels(plan: &Plan) -> usize {
    let serves = |effect: &&Effect| matches!(effect.as_kube(), Some(KubeEffect::LabelServes { .. }));
    plan.effects.iter().filter(serves).count()
}

fn removes(plan: &Plan) -> bool {
    plan.effects.iter().any(|effect| matches!(effect.step(), Step::S3 | Step::P3))
}

fn serves(world: &World, member: &str) -> bool {
    world.seen.pods[&name(member)].serves
}

/// Half a minute, in which the operator looks.
fn half_a_minute(world: &mut World) {
    world.plan();
    world.now = world.now + LED_AWAY_AFTER;
}

fn cut(world: &mut World, member: &str) {
    world.cut_from_peers.insert(name(member));
}

#[test]
fn m05_clients_are_led_away_from_a_voter_that_follows_no_leader_and_back_when_it_does() {
    let mut world = World::running(3);
    cut(&mut world, "demo-2");
    let plan = world.plan();
    assert!(led_away(&plan).is_empty(), "it may be an election: {:?}", plan.effects);
    world.carry_out(plan);
    half_a_minute(&mut world);
    let plan = world.plan();
    assert_eq!(led_away(&plan), ["demo-2"], "{:?}", plan.effects);
    world.carry_out(plan);
    assert!(!serves(&world, "demo-2"));
    assert!(world.plan().effects.is_empty(), "once");
    world.cut_from_peers.clear();
    let plan = world.plan();
    assert_eq!(labels(&plan), 1, "at once: {:?}", plan.effects);
    world.carry_out(plan);
    assert!(serves(&world, "demo-2") && world.seen.pods[&name("demo-2")].served_until.is_none());
}

#[test]
fn m05_a_voter_whose_pod_is_not_ready_keeps_its_label_for_when_it_is() {
    let mut world = World::running(3);
    world.silence("demo-2");
    world.seen.pods.get_mut(&name("demo-2")).unwrap().ready = false;
    half_a_minute(&mut world);
    assert!(led_away(&world.plan()).is_empty());
    // It is ready again, and answers a moment later.
    world.seen.pods.get_mut(&name("demo-2")).unwrap().ready = true;
    assert!(led_away(&world.plan()).is_empty(), "the half minute begins when it is ready");
}

#[test]
fn m05_clients_stay_where_those_that_serve_elsewhere_are_no_quorum() {
    let mut world = World::running(3);
    cut(&mut world, "demo-2");
    world.hang("demo-1");
    world.plan();
    world.prove();
    half_a_minute(&mut world);
    world.plan();
    world.prove();
    let plan = world.plan_as_observed();
    assert!(led_away(&plan).is_empty(), "{:?}", plan.effects);
    without("LastThatServes", || assert!(!led_away(&world.plan_as_observed()).is_empty()));

    for size in [1, 2] {
        let mut world = World::running(size);
        let last = format!("demo-{}", size - 1);
        cut(&mut world, &last);
        half_a_minute(&mut world);
        assert!(led_away(&world.plan()).is_empty(), "size {size}");
    }
}

#[test]
fn m05_without_a_quorum_every_member_keeps_its_clients() {
    let mut world = World::running(3);
    cut(&mut world, "demo-2");
    half_a_minute(&mut world);
    cut(&mut world, "demo-1");
    let plan = world.plan();
    assert!(plan.effects.is_empty(), "{:?}", plan.effects);
}

#[test]
fn m05_two_of_five_lose_their_clients_and_not_a_third() {
    let mut world = World::running(5);
    cut(&mut world, "demo-3");
    cut(&mut world, "demo-4");
    half_a_minute(&mut world);
    let plan = world.plan();
    assert_eq!(led_away(&plan), ["demo-3", "demo-4"]);
    world.carry_out(plan);
    world.hang("demo-2");
    world.plan();
    world.prove();
    half_a_minute(&mut world);
    world.plan();
    world.prove();
    assert!(led_away(&world.plan_as_observed()).is_empty());
}

#[test]
fn m05_a_learner_is_never_labelled_as_serving() {
    let mut world = World::running(3);
    world.resize(4);
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G6));
    assert!(!serves(&world, "demo-3"));
    let pod = world.seen.pods[&name("demo-3")].uid.clone();
    let label = Effect::kube(Step::K2, KubeEffect::LabelServes { member: name("demo-3"), pod });
    let mut record = world.seen.record.clone();
    let scene = Scene { seen: &world.seen, record: &record, now: world.now, before: &[] };
    assert_eq!(permits(&scene, &label), Err(Unsafe::NotRecorded(name("demo-3"))));
    record.members.get_mut(&name("demo-3")).unwrap().stage = Stage::Voter;
    let scene = Scene { seen: &world.seen, record: &record, now: world.now, before: &[] };
    assert_eq!(permits(&scene, &label), Err(Unsafe::NotThatMember(name("demo-3"))));
    world.settle();
    assert!(serves(&world, "demo-3"), "it votes");
}

#[test]
fn m05_a_cluster_that_wakes_is_behind_its_service_once_it_has_what_it_was_stopped_with() {
    let mut world = World::running(3);
    world.resize(0);
    world.settle();
    assert!(world.seen.record.stopped_at.is_some());
    world.resize(3);
    world.settle();
    assert_eq!(world.seen.record.stopped_at, None);
    assert!(["demo-0", "demo-1", "demo-2"].into_iter().all(|member| serves(&world, member)));
}

/// A storage snapshot of every volume was restored while the cluster slept.
#[test]
fn no_client_is_led_to_data_that_went_back_until_a_person_knows_it() {
    let mut world = World::running(3);
    world.resize(0);
    world.settle();
    assert_eq!(world.seen.record.stopped_at, Some(Revision(7)));
    world.revision = 6;
    // Raft's index grows by itself.
    world.committed += 50;
    world.resize(3);
    for _ in 0..40 {
        let plan = world.plan();
        assert_eq!(labels(&plan), 0, "{:?}", plan.effects);
        assert!(plan.effects.iter().all(|effect| effect.as_etcd().is_none()), "{:?}", plan.effects);
        world.carry_out(plan);
    }
    let told = |plan: &Plan| plan.waiting.iter().any(|why| matches!(why, Waiting::DataWentBack { .. }));
    assert!(told(&world.plan()), "{:?}", world.plan().waiting);
    assert!(["demo-0", "demo-1", "demo-2"].into_iter().all(|member| !serves(&world, member)));

    let own = world.seen.record.cluster_id.expect("it is recorded");
    for (cluster, revision) in [(ClusterId(77), 6), (own, 7), (own, 5)] {
        world.seen.accepts_loss = Some((cluster, Revision(revision)));
        assert!(told(&world.plan()), "of another cluster, or of another time");
    }
    world.seen.accepts_loss = Some((own, Revision(6)));
    world.settle();
    assert!(["demo-0", "demo-1", "demo-2"].into_iter().all(|member| serves(&world, member)));
    assert_eq!(world.seen.record.stopped_at, None);
}

#[test]
fn m12_clients_leave_a_member_before_a_scale_in_removes_it() {
    let mut world = World::running(3);
    world.resize(2);
    let plan = world.plan_that(|plan| !led_away(plan).is_empty() || removes(plan));
    assert_eq!((led_away(&plan), removes(&plan)), (vec!["demo-2"], false), "{:?}", plan.effects);
    without("StillServes", || assert!(removes(&world.plan())));
    world.carry_out(plan);
    let away_at = world.seen.pods[&name("demo-2")].served_until.expect("it is noted");
    // Every pass is that of another operator: what it waits for is on the Pod.
    let plan = world.plan();
    assert!(plan.effects.is_empty(), "{:?}", plan.effects);
    assert_eq!(plan.waiting, [Waiting::ClientsLeaving(name("demo-2"))]);
    assert!(!plan.needs_proof, "the proof is made when they have left");
    world.now = away_at + CLIENTS_LEAVE_WITHIN;
    assert!(removes(&world.plan()));
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1"]);
}

#[test]
fn m12_clients_leave_a_member_that_is_moved_before_it_is_removed() {
    for size in [1, 3] {
        let mut world = World::running(size);
        world.seen.budget_policy = BudgetPolicy::None;
        world.settle();
        world.seen.replace_member = Some(name("demo-0"));
        let story = world.settle();
        let at = |what: &str| story.find(what).unwrap_or_else(|| panic!("{what} is not in\n{story}"));
        let next = format!("label Pod demo-{size} as serving");
        assert!(at(&next) < at("lead clients away from Pod demo-0"), "{story}");
        assert!(at("lead clients away from Pod demo-0") < at("P3 MemberRemove demo-0"), "{story}");
    }
}

#[test]
fn m12_a_member_whose_pod_is_not_ready_has_no_clients_to_wait_for() {
    let mut world = World::running(3);
    world.silence("demo-2");
    world.seen.pods.get_mut(&name("demo-2")).unwrap().ready = false;
    world.resize(2);
    let plan = world.plan_that(removes);
    assert!(led_away(&plan).is_empty(), "{:?}", plan.effects);
}

#[test]
fn m12_a_clock_that_was_set_back_begins_the_wait_again_and_ends_it() {
    let mut world = World::running(3);
    world.resize(2);
    let plan = world.plan_that(|plan| !led_away(plan).is_empty());
    world.carry_out(plan);
    world.now = Instant(world.now.0 - 3_600_000);
    let plan = world.plan();
    assert_eq!(led_away(&plan), ["demo-2"], "{:?}", plan.effects);
    world.carry_out(plan);
    world.now = world.now + CLIENTS_LEAVE_WITHIN;
    world.plan_that(removes);
}

#[test]
fn m08_no_member_is_removed_by_a_clock_that_is_ahead_before_clients_have_left_it() {
    let mut world = World::running(3);
    world.resize(2);
    let plan = world.plan_that(|plan| !led_away(plan).is_empty());
    world.carry_out(plan);
    let ahead = Span::seconds(3600);
    world.now = world.now + ahead;
    world.seen.clock_differs = Some(ClockDifference::Ahead(ahead));
    for _ in 0..2 {
        let plan = world.plan();
        assert!(!removes(&plan), "{:?}", plan.effects);
        without("R23", || assert!(removes(&world.plan())));
        world.carry_out(plan);
    }
    // Nothing waits for the clock to be set.
    world.now = world.now + CLIENTS_LEAVE_WITHIN;
    world.plan_that(removes);
}

#[test]
fn m08_a_scale_in_that_a_clock_holds_up_is_taken_back_by_an_edit_and_clients_come_back() {
    let mut world = World::running(3);
    world.resize(2);
    let plan = world.plan_that(|plan| !led_away(plan).is_empty());
    world.carry_out(plan);
    world.now = world.now + Span::seconds(3600);
    world.seen.clock_differs = Some(ClockDifference::Ahead(Span::seconds(3600)));
    let held = world.plan();
    assert!(!removes(&held) && !serves(&world, "demo-2"), "{:?}", held.effects);
    world.carry_out(held);
    world.resize(3);
    let story = world.settle();
    assert!(!story.contains("MemberRemove") && !story.contains("MemberAdd"), "{story}");
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "{story}");
    assert!(serves(&world, "demo-2"), "{story}");
}

#[test]
fn m12_a_member_that_stays_after_all_gets_its_clients_back() {
    let mut world = World::running(4);
    world.resize(3);
    let plan = world.plan_that(|plan| !led_away(plan).is_empty());
    world.carry_out(plan);
    assert!(!serves(&world, "demo-3"));
    // Another member falls silent, and is removed instead.
    world.silence("demo-1");
    world.seen.pods.get_mut(&name("demo-1")).unwrap().ready = false;
    world.plan_that(|plan| labels(plan) == 1);
    world.now = world.now + Span::seconds(60);
    world.settle();
    assert!(serves(&world, "demo-3"));
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);
}

#[test]
fn m12_no_plan_leads_clients_to_a_member_and_removes_it() {
    let mut world = World::running(3);
    world.seen.budget_policy = BudgetPolicy::None;
    world.settle();
    // It was led away before, as status that was lost had it leave.
    let pod = world.seen.pods.get_mut(&name("demo-2")).unwrap();
    (pod.serves, pod.served_until) = (false, Some(Instant(world.now.0 - 60_000)));
    world.resize(2);
    let plan = world.plan();
    assert!(removes(&plan) && labels(&plan) == 0, "{:?}", plan.effects);

    // The rule, for whatever planner.
    let removal = plan.effects.iter().find(|effect| effect.step() == Step::S3).unwrap();
    let pod = world.seen.pods[&name("demo-2")].uid.clone();
    let label = Effect::kube(Step::K2, KubeEffect::LabelServes { member: name("demo-2"), pod });
    let judge = |before: &[Effect]| {
        let scene = Scene { seen: &world.seen, record: &plan.record, now: world.now, before };
        permits(&scene, removal)
    };
    assert_eq!(judge(&[]), Ok(()));
    assert_eq!(judge(&[label]), Err(Unsafe::StillServes(name("demo-2"))));
}

/// A scale-in that a clock holds up, after its clients were led away.
fn held_scale_in() -> World {
    let mut world = World::running(3);
    world.resize(2);
    let plan = world.plan_that(|plan| !led_away(plan).is_empty());
    world.carry_out(plan);
    world.now = world.now + Span::seconds(3600);
    world.seen.clock_differs = Some(ClockDifference::Ahead(Span::seconds(3600)));
    let held = world.plan();
    assert!(!removes(&held), "{:?}", held.effects);
    world.carry_out(held);
    world.seen.clock_differs = None;
    world.resize(3);
    world
}

fn assert_it_stays(world: &mut World) {
    let plan = world.plan();
    assert_eq!(plan.record.members[&name("demo-2")].stage, Stage::Voter, "{:?}", plan.effects);
    let others = plan.effects.iter().filter(|effect| effect.step() != Step::N5).count();
    assert_eq!(others, 0, "its removal may still be under way: {:?}", plan.effects);
    world.carry_out(plan);
}

#[test]
fn m08_an_edit_back_keeps_the_member_also_where_one_status_of_it_is_missing() {
    let mut world = held_scale_in();
    world.silence("demo-2");
    assert_it_stays(&mut world);
    world.unsilence("demo-2");
    let story = world.settle();
    assert!(!story.contains("MemberRemove") && !story.contains("MemberAdd"), "{story}");
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "{story}");
}

#[test]
fn m08_an_edit_back_keeps_the_member_also_where_its_database_is_full() {
    let mut world = held_scale_in();
    let member = world.seen.record.members[&name("demo-2")].id.expect("it is known");
    world.alarms.insert(Alarm { member, kind: AlarmKind::NoSpace });
    assert_it_stays(&mut world);
}

/// The Pods that a plan restarts so that connections end.
fn restarted(plan: &Plan) -> Vec<String> {
    let restarts = plan.effects.iter().filter(|effect| effect.step() == Step::K4);
    restarts.map(ToString::to_string).collect()
}

#[test]
fn l02_a_member_that_still_serves_nothing_is_restarted_once_so_that_connections_end() {
    let mut world = World::running(3);
    cut(&mut world, "demo-2");
    let plan = world.plan();
    world.carry_out(plan);
    half_a_minute(&mut world);
    let away = world.plan();
    world.carry_out(away);
    world.now = world.now + Span::seconds(20);
    let plan = world.plan();
    assert!(restarted(&plan).is_empty(), "it may recover");
    world.now = world.now + Span::seconds(15);
    let plan = world.plan();
    assert!(matches!(&restarted(&plan)[..], [only] if only.contains("demo-2")), "{:?}", plan.effects);
    world.admits_no_pod = Some("a policy".to_owned());
    assert!(restarted(&world.plan()).is_empty(), "its next Pod would be refused");
    world.admits_no_pod = None;
    // The only other one that serves is no quorum.
    cut(&mut world, "demo-1");
    assert!(restarted(&world.plan()).is_empty());
}
