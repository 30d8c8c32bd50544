//! What must go on while something else fails for good: a write that is refused, a voter that never comes back.

use crate::world::{World, name, words};
use quorate_model::effect::{EarlierData, FixedField};
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Presence;
use quorate_model::target::{Medium, PodRevision};
use quorate_model::{AppliedObject, Effect, EtcdCall, KubeEffect, Plan, Span, Step, Waiting};

fn restarts(plan: &Plan, member: &str) -> bool {
    plan.effects.iter().any(|effect| {
        matches!(effect.as_kube(), Some(KubeEffect::CreatePod { member: created, .. }) if *created == name(member))
    })
}

fn removes(plan: &Plan, member: &str) -> bool {
    plan.effects.iter().any(|effect| {
        matches!(effect.as_etcd(), Some(EtcdCall::RemoveMember { member: removed, .. }) if *removed == name(member))
    })
}

#[test]
fn l01_a_member_that_this_plan_removes_is_not_restarted() {
    let mut world = World::running(3);
    world.resize(2);
    let chosen =
        world.plan_that(|plan| matches!(plan.record.members[&name("demo-2")].stage, Stage::Leaving(_)));
    world.carry_out(chosen);
    world.lose_pod("demo-2");
    let plan = world.plan_that(|plan| removes(plan, "demo-2") || restarts(plan, "demo-2"));
    assert!(!restarts(&plan, "demo-2"), "{:?}", plan.effects);
    assert!(!plan.waiting.contains(&Waiting::PodStarting(name("demo-2"))), "{:?}", plan.waiting);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1"]);
}

#[test]
fn l01_a_member_that_leaves_is_restarted_where_its_removal_has_no_quorum() {
    let mut world = World::running(3);
    world.lose_pod("demo-2");
    world.resize(2);
    world.observe();
    world.prove();
    let mut plan = quorate_planner::plan(&world.seen, world.now);
    plan.effects.clear();
    world.carry_out(plan);
    world.silence("demo-1");
    let plan = world.plan();
    assert!(restarts(&plan, "demo-2") && !removes(&plan, "demo-2"), "{:?}", plan.effects);
}

#[test]
fn l01_the_other_lost_pods_are_restarted_beside_a_removal() {
    let mut world = World::running(5);
    world.lose_pod("demo-4");
    world.lose_pod("demo-3");
    world.resize(4);
    let other = |plan: &Plan| restarts(plan, "demo-3") || restarts(plan, "demo-4");
    let leaves =
        |plan: &Plan| plan.record.members.values().any(|member| matches!(member.stage, Stage::Leaving(_)));
    // The choice is recorded, and nothing is carried out: the API server refuses the Pods.
    let mut chosen = world.plan_that(leaves);
    chosen.effects.retain(|effect| effect.step() != Step::W1);
    world.carry_out(chosen);
    let plan = loop {
        let mut plan = world.plan();
        if removes(&plan, "demo-4") || removes(&plan, "demo-3") {
            break plan;
        }
        assert!(other(&plan), "the one that stays is restarted: {:?}", plan.effects);
        plan.effects.retain(|effect| effect.step() != Step::W1);
        world.carry_out(plan);
    };
    let w1: Vec<&Effect> = plan.effects.iter().filter(|effect| effect.step() == Step::W1).collect();
    assert!(removes(&plan, "demo-4") || removes(&plan, "demo-3"), "{:?}", plan.effects);
    assert_eq!(w1.len(), 1, "{:?}", plan.effects);
    assert!(w1[0].is_best_effort(), "the removal does not wait for it");
}

/// A cluster of three that grows to four: the learner is in sync, and voter `demo-1` does not answer any more.
fn learner_waits_for_a_sick_voter() -> World {
    let mut world = World::running(3);
    world.resize(4);
    let promotes = |plan: &Plan| plan.effects.iter().any(|effect| effect.step() == Step::G6);
    world.plan_that(promotes);
    world.silence("demo-1");
    world.observe();
    let plan = world.plan();
    assert!(!promotes(&plan), "{:?}", plan.effects);
    world.carry_out(plan);
    world
}

fn stage(world: &World, member: &str) -> Option<Stage> {
    world.seen.record.members.get(&name(member)).map(|member| member.stage)
}

#[test]
fn l02_an_edit_of_the_size_rolls_back_a_learner_that_is_not_needed_any_more() {
    let mut world = learner_waits_for_a_sick_voter();
    world.resize(2);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2"], "the learner, and then the sick member");
    assert_eq!(stage(&world, "demo-3"), None);

    let mut world = World::running(3);
    world.resize(4);
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::G4));
    world.resize(3);
    let story = world.settle();
    assert!(!story.contains("MemberPromote"), "also while every voter is healthy: {story}");
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

#[test]
fn l02_any_edit_is_committed_while_a_learner_cannot_be_promoted_and_rolls_it_back() {
    let mut world = learner_waits_for_a_sick_voter();
    world.seen.desired.pod.revision = PodRevision("more memory".into());
    world.seen.desired.pod.content = "more memory".into();
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().map(|target| target.pod.revision.0.as_str()), Some("more memory"));
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Leaving(Leaving::RolledBack));
    world.carry_out(plan);
    let next = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::U5));
    let restarted =
        next.effects.iter().find(|effect| effect.step() == Step::U5).expect("a restart").to_string();
    assert!(restarted.contains("demo-1"), "the edit reaches the sick member first: {restarted}");
}

#[test]
fn l02_without_a_quorum_an_edit_does_not_wait_for_a_learner() {
    let mut world = learner_waits_for_a_sick_voter();
    world.silence("demo-2");
    world.seen.desired.pod.revision = PodRevision("more memory".into());
    world.seen.desired.pod.content = "more memory".into();
    let plan = world.plan();
    assert_eq!(plan.record.target.as_ref().map(|target| target.pod.revision.0.as_str()), Some("more memory"));
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Joining, "it may have been promoted");
}

#[test]
fn l02_a_learner_in_sync_makes_way_once_a_voter_was_unhealthy_for_ten_minutes() {
    let mut world = learner_waits_for_a_sick_voter();
    world.now = world.now + Span::seconds(590);
    let plan = world.plan();
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Joining);
    world.now = world.now + Span::seconds(20);
    let plan = world.plan();
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Leaving(Leaving::RolledBack));
    let said = plan
        .waiting
        .iter()
        .any(|waiting| words(waiting).contains("LearnerGivenUp(demo-3, VoterUnhealthy(demo-1))"));
    assert!(said, "{:?}", plan.waiting);
    world.carry_out(plan);
    world.settle();
    assert_eq!(stage(&world, "demo-3"), None);
    assert_eq!(stage(&world, "demo-4"), None, "no other one is added while the voter is unhealthy");
}

/// A cluster of three that grows to four: the learner was promoted just now.
fn promoted() -> World {
    let mut world = World::running(3);
    world.resize(4);
    let promotes = |plan: &Plan| plan.effects.iter().any(|effect| effect.step() == Step::G6);
    let plan = world.plan_that(promotes);
    world.carry_out(plan);
    world
}

fn promoted_and_not_heard() -> World {
    let mut world = promoted();
    world.silence("demo-3");
    world
}

fn is_an_unhealthy_voter_after_a_minute(mut world: World) {
    world.now = world.now + Span::seconds(61);
    let plan = world.plan();
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Voter);
    world.carry_out(plan);
    assert!(!world.seen.is_healthy(&name("demo-3"), world.now));
    world.resize(3);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "the scale-in that cures it is carried out");
}

#[test]
fn l03_a_member_that_was_promoted_and_is_not_heard_is_a_voter_after_a_minute() {
    let mut world = promoted_and_not_heard();
    let plan = world.plan();
    assert_eq!(plan.record.members[&name("demo-3")].stage, Stage::Joining, "it may answer yet");
    is_an_unhealthy_voter_after_a_minute(world);
}

#[test]
fn l03_a_member_that_was_promoted_is_a_voter_at_once_where_its_pod_or_volume_is_gone() {
    let mut world = promoted_and_not_heard();
    world.lose_pod("demo-3");
    assert_eq!(world.plan().record.members[&name("demo-3")].stage, Stage::Voter);
    let mut world = promoted_and_not_heard();
    world.seen.volumes.remove(&name("demo-3"));
    assert_eq!(world.plan().record.members[&name("demo-3")].stage, Stage::Voter);
}

#[test]
fn l03_a_member_that_says_for_a_minute_that_it_is_a_learner_is_an_unhealthy_voter_as_the_list_says() {
    let mut world = promoted();
    world.still_learners.insert(name("demo-3"));
    assert_eq!(world.plan().record.members[&name("demo-3")].stage, Stage::Joining, "it may hear of it yet");
    is_an_unhealthy_voter_after_a_minute(world);
}

#[test]
fn l08_a_peer_service_that_differs_keeps_no_lost_pod_from_being_made() {
    let mut world = World::running(3);
    world.lose_pod("demo-1");
    world.seen.peer_service = Presence::Differs;
    let plan = world.plan();
    let corrects = |effect: &Effect| effect.as_kube() == Some(&KubeEffect::Apply(AppliedObject::PeerService));
    let correction = plan.effects.iter().find(|effect| corrects(effect)).expect("it is corrected");
    assert!(correction.is_best_effort(), "the API server may refuse the correction for good");
    assert!(restarts(&plan, "demo-1"), "{:?}", plan.effects);
    world.seen.peer_service = Presence::Absent;
    let plan = world.plan();
    assert!(
        !restarts(&plan, "demo-1"),
        "without it the name of the Pod does not resolve: {:?}",
        plan.effects
    );
    assert!(plan.effects.iter().any(corrects), "{:?}", plan.effects);
}

#[test]
fn l08_a_new_cluster_is_bootstrapped_only_behind_a_peer_service_that_matches() {
    let mut world = World::new(3);
    for _ in 0..5 {
        let plan = world.plan();
        world.carry_out(plan);
        world.seen.peer_service = Presence::Differs;
    }
    assert!(world.seen.pods.is_empty(), "a Service that does not resolve early lets no cluster form");
}

#[test]
fn l10_data_are_adopted_only_with_the_medium_and_the_tls_that_they_have() {
    let adopting = |change: &dyn Fn(&mut World)| {
        let mut world = World::running(3);
        let id = world.cluster_id;
        world.recreate("uid-2");
        world.seen.adopt = id;
        change(&mut world);
        let plan = world.plan();
        let differs = plan.waiting.iter().find_map(|waiting| match waiting {
            Waiting::EarlierData(EarlierData::Contradict(field)) => Some(field.clone()),
            _ => None,
        });
        (differs, plan.record.is_bootstrapped(), world)
    };
    let (differs, adopted, _) = adopting(&|_| {});
    assert_eq!((differs, adopted), (None, true));
    let (differs, adopted, mut world) = adopting(&|world| world.seen.desired.tls = false);
    assert_eq!((differs, adopted), (Some(FixedField::Tls { is: true, found: false }), false));
    world.seen.desired.tls = true;
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "the corrected spec is adopted");
    let (differs, adopted, _) = adopting(&|world| world.seen.desired.storage.medium = Medium::Memory);
    assert_eq!(
        (differs, adopted),
        (Some(FixedField::Medium { is: Medium::Disk, found: Medium::Memory }), false)
    );
    let unknown = |world: &mut World| {
        world.seen.desired.tls = false;
        world.seen.volumes.values_mut().for_each(|volume| volume.tls = None);
    };
    let (differs, adopted, _) = adopting(&unknown);
    assert_eq!((differs, adopted), (None, true), "nothing is known: the spec counts");
}

#[test]
fn l10_a_volume_without_the_label_of_the_cluster_gets_it_back() {
    let mut world = World::running(3);
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().labelled = false;
    let plan = world.plan();
    let annotates = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::AnnotateVolume { member, .. }) if *member == name("demo-1"));
    assert!(plan.effects.iter().any(annotates), "{:?}", plan.effects);
}

#[test]
fn l10_a_pod_that_cannot_stop_does_not_keep_the_other_members_from_hibernating() {
    let mut world = World::running(3);
    world.resize(0);
    let now = world.now;
    let stuck = world.seen.pods.get_mut(&name("demo-1")).unwrap();
    (stuck.terminating, stuck.stops_by) = (true, Some(now + Span::seconds(30)));
    let stops = |plan: &Plan| {
        let stops = |effect: &&Effect| effect.step() == Step::Z1;
        plan.effects.iter().filter(stops).map(ToString::to_string).collect::<Vec<_>>()
    };
    let plan = world.plan();
    assert!(plan.record.hibernating);
    assert_eq!(stops(&plan).len(), 2, "the others stop at once: {:?}", plan.effects);
    world.now = now + Span::seconds(120);
    let plan = world.plan();
    let late = Waiting::PodStopsLate { member: name("demo-1"), node: None };
    assert!(plan.waiting.contains(&late), "{:?}", plan.waiting);
}

#[test]
fn l10_one_failed_list_does_not_end_the_quorum_while_its_members_answer() {
    let mut world = World::running(3);
    world.observe();
    let (now, seen) = (world.now, &mut world.seen);
    (seen.etcd.list, seen.etcd.quorum_at) = (None, Some(now));
    assert!(!seen.had_quorum(now), "nothing is known of a list");
    seen.etcd.no_list_since = Some(now);
    assert!(seen.had_quorum(now));
    seen.etcd.quorum_at = Some(quorate_model::Instant(now.0 - 30_000));
    assert!(seen.had_quorum(now), "the last look was a calm one");
    assert!(!seen.had_quorum(now + Span::seconds(16)), "not for longer than an observation is fresh");
    seen.etcd.answers.remove(&name("demo-0"));
    assert!(seen.had_quorum(now));
    seen.etcd.answers.remove(&name("demo-1"));
    assert!(!seen.had_quorum(now), "most of them do not answer");
}

#[test]
fn a_list_of_an_earlier_pass_is_for_reports_only_and_a_cluster_whose_proof_failed_is_not_well() {
    let mut world = World::running(3);
    world.observe();
    let (now, seen) = (world.now, &mut world.seen);
    assert!(seen.list_just_read(now).is_some());
    seen.etcd.list_holds_at = Some(now);
    assert!(seen.list(now).is_some() && seen.list_just_read(now).is_none());
    seen.etcd.list_holds_at = None;
    seen.endpoints = seen.record.voters().cloned().collect();
    assert!(seen.is_well(now));
    seen.etcd.proof_failure = Some("AlarmList: permission denied".to_owned());
    assert!(!seen.is_well(now));
}
