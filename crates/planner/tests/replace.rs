//! Replacement: who is replaced, when, in which order, and who never is.

use crate::world::{World, name};
use quorate_model::effect::Unsafe;
use quorate_model::record::{Leaving, Loss, ReplacementEnd, Stage};
use quorate_model::snapshot::{Sick, Site};
use quorate_model::{ClockDifference, Effect, EtcdCall, GuardVerdict, KubeEffect, Plan, Span, Step, Waiting};

pub const GRACE: Span = Span::seconds(600);

fn lose_volume(world: &mut World, member: &str) {
    world.lose_pod(member);
    world.seen.volumes.remove(&name(member));
}

/// The guard refuses the volume of a member from now on.
fn refuse(world: &mut World, member: &str) {
    world.silence(member);
    let pod = world.seen.pods.get_mut(&name(member)).expect("it has a Pod");
    (pod.ready, pod.guard) = (false, Some((GuardVerdict::DataMissing, "it is empty".to_owned())));
}

pub fn removes(plan: &Plan) -> Option<&str> {
    plan.effects.iter().find_map(|effect| match effect.as_etcd() {
        Some(EtcdCall::RemoveMember { member, .. }) => Some(member.as_str()),
        Some(_) | None => None,
    })
}

pub fn adds(plan: &Plan) -> bool {
    plan.effects.iter().any(|effect| matches!(effect.as_etcd(), Some(EtcdCall::AddLearner { .. })))
}

fn deletes_pod(plan: &Plan, member: &str) -> bool {
    let deletes = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::DeletePod { member: of, .. }) if *of == name(member));
    plan.effects.iter().any(deletes)
}

/// Passes go on for this long, and none of them removes or adds a member.
pub fn nothing_is_given_up(world: &mut World, long: Span) {
    let end = world.now + long;
    while world.now < end {
        let plan = world.plan();
        assert_eq!(removes(&plan), None, "{:?}", plan.effects);
        assert!(!adds(&plan), "{:?}", plan.effects);
        world.carry_out(plan);
        world.now = world.now + Span::seconds(29);
    }
}

#[test]
fn a_member_whose_volume_is_gone_is_replaced_when_the_grace_period_is_over() {
    let mut world = World::running(3);
    world.settle();
    lose_volume(&mut world, "demo-1");
    let plan = world.plan();
    let reported = Waiting::MayBeLost { member: name("demo-1"), loss: Loss::VolumeGone, is_due: false };
    assert!(plan.waiting.contains(&reported), "{:?}", plan.waiting);
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
    world.now = world.now + Span::seconds(120);
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
    let last = world.seen.record.last_replacement.clone().unwrap();
    assert_eq!((last.member, last.end), (name("demo-1"), ReplacementEnd::Succeeded), "{story}");
    assert!(world.seen.record.replacement.is_none() && world.seen.record.suspected.is_empty(), "{story}");
}

#[test]
fn a_lost_member_is_removed_first_and_the_next_one_gets_its_name_and_its_volume_afterwards() {
    let mut world = World::running(3);
    lose_volume(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span::seconds(300));
    world.now = world.now + GRACE;
    let removal = world.plan_that(|plan| removes(plan).is_some());
    assert_eq!(removes(&removal), Some("demo-1"));
    assert!(
        removal.record.joining().is_none(),
        "whether its claim comes or not: {:?}",
        removal.record.members
    );
    assert_eq!(world.voters().len(), 3, "no learner was added before");
    world.carry_out(removal);
    let addition = world.plan_that(adds);
    assert_eq!(world.voters(), ["demo-0", "demo-2"]);
    world.carry_out(addition);
}

#[test]
fn an_emptied_volume_is_looked_at_once_more_in_another_pod_before_its_member_is_replaced() {
    let mut world = World::running(3);
    world.settle();
    refuse(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
    world.now = world.now + Span::seconds(120);
    let plan = world.plan();
    assert!(deletes_pod(&plan, "demo-1"), "{:?}", plan.effects);
    assert_eq!(removes(&plan), None);
    world.carry_out(plan);
    // Its Pod is created again; the guard has not looked yet.
    let again = world.plan();
    world.carry_out(again);
    world.seen.pods.get_mut(&name("demo-1")).expect("it has a Pod").ready = false;
    nothing_is_given_up(&mut world, Span::seconds(120));
    refuse(&mut world, "demo-1");
    let plan = world.plan_that(|plan| removes(plan).is_some());
    assert_eq!(removes(&plan), Some("demo-1"));
}

#[test]
fn a_mount_that_is_back_at_the_second_look_replaces_nobody() {
    let mut world = World::running(3);
    world.settle();
    refuse(&mut world, "demo-1");
    nothing_is_given_up(&mut world, GRACE);
    world.now = world.now + Span::seconds(120);
    let plan = world.plan_that(|plan| deletes_pod(plan, "demo-1"));
    world.carry_out(plan);
    world.unsilence("demo-1");
    nothing_is_given_up(&mut world, Span::seconds(120));
    assert!(world.seen.record.suspected.is_empty());
    // Were it emptied again, all of the grace period begins anew.
    refuse(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
}

#[test]
fn the_verdict_of_a_kubelet_that_reports_no_more_is_never_a_second_one() {
    let mut world = World::running(3);
    refuse(&mut world, "demo-1");
    let stuck = world.seen.pods[&name("demo-1")].clone();
    for _ in 0..200 {
        let plan = world.plan();
        assert_eq!(removes(&plan), None, "{:?}", plan.effects);
        world.carry_out(plan);
        let mut pod = stuck.clone();
        pod.terminating = true;
        world.seen.pods.insert(name("demo-1"), pod);
        world.now = world.now + Span::seconds(60);
    }
}

#[test]
fn silence_a_crash_loop_and_a_full_disk_replace_nobody() {
    let mut world = World::running(3);
    world.silence("demo-1");
    nothing_is_given_up(&mut world, Span::seconds(7200));
    for (restarts, verdict) in
        [(40, None), (40, Some(GuardVerdict::DiskFull)), (40, Some(GuardVerdict::NotWritable))]
    {
        let pod = world.seen.pods.get_mut(&name("demo-1")).unwrap();
        (pod.ready, pod.restarts) = (false, restarts);
        pod.trouble = Some("CrashLoopBackOff: etcd ended with exit code 1".to_owned());
        pod.guard = verdict.map(|verdict| (verdict, "no space left".to_owned()));
        nothing_is_given_up(&mut world, Span::seconds(7200));
    }
}

#[test]
fn a_member_whose_volume_is_on_a_node_that_is_gone_for_good_is_replaced_and_its_claim_kept() {
    let mut world = World::running(3);
    world.settle();
    world.lose_pod("demo-2");
    world.silence("demo-2");
    let gone = Site { gone: Some("Node n1 does not exist any more".to_owned()), ..Site::default() };
    world.seen.sites.insert(name("demo-2"), gone);
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
    world.now = world.now + Span::seconds(120);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-3"]);
    assert!(world.seen.volumes[&name("demo-2")].quarantine.is_some(), "R17");
}

#[test]
fn where_recovery_is_off_a_loss_is_reported_and_only_an_order_replaces_the_member() {
    let mut world = World::running(3);
    world.seen.replacement_policy.enabled = false;
    refuse(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span::seconds(3000));
    let plan = world.plan();
    let off = |waiting: &Waiting| matches!(waiting, Waiting::ReplacementDisabled { .. });
    assert!(plan.waiting.iter().any(off), "{:?}", plan.waiting);
    world.seen.replace_member = Some(name("demo-1"));
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);
}

#[test]
fn a_healthy_member_is_replaced_on_order_after_the_new_one_votes_also_in_a_cluster_of_one() {
    for size in [1, 2, 3, 5] {
        let mut world = World::running(size);
        world.seen.replace_member = Some(name("demo-0"));
        let mut plan = world.plan();
        for _ in 0..40 {
            if removes(&plan).is_some() {
                break;
            }
            world.carry_out(plan);
            plan = world.plan();
        }
        assert_eq!(removes(&plan), Some("demo-0"), "size {size}");
        assert_eq!(world.voters().len(), size + 1, "the new member votes before");
        world.carry_out(plan);
        world.settle();
        assert_eq!(world.voters().len(), size);
        assert!(!world.voters().contains(&"demo-0"));
        assert!(world.seen.volumes[&name("demo-0")].quarantine.is_some(), "R17");
        assert_eq!(world.seen.record.last_replacement.as_ref().unwrap().end, ReplacementEnd::Succeeded);
    }
}

#[test]
fn two_of_five_members_that_lost_their_volumes_are_both_removed_before_any_is_added() {
    let mut world = World::running(5);
    world.settle();
    lose_volume(&mut world, "demo-1");
    lose_volume(&mut world, "demo-3");
    nothing_is_given_up(&mut world, GRACE);
    world.now = world.now + Span::seconds(120);
    let addition = world.plan_that(adds);
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-4"]);
    world.carry_out(addition);
    world.settle();
    assert_eq!(world.voters().len(), 5);
    assert_eq!(world.seen.volumes.len(), 5);
}

#[test]
fn a_lost_member_waits_while_another_one_is_unhealthy_and_while_a_quorum_would_be_lost() {
    let mut world = World::running(5);
    lose_volume(&mut world, "demo-1");
    world.silence("demo-4");
    nothing_is_given_up(&mut world, Span::seconds(3000));
    let plan = world.plan();
    let waits = Waiting::Unsafe(Unsafe::VoterUnhealthy(name("demo-4")));
    assert!(plan.waiting.contains(&waits), "{:?}", plan.waiting);
    let mut world = World::running(2);
    lose_volume(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span::seconds(3000));
}

#[test]
fn data_that_are_back_before_the_removal_keep_their_member() {
    let mut world = World::running(3);
    world.settle();
    world.lose_pod("demo-2");
    world.silence("demo-2");
    let gone = Site { gone: Some("Node n1 does not exist any more".to_owned()), ..Site::default() };
    world.seen.sites.insert(name("demo-2"), gone);
    nothing_is_given_up(&mut world, GRACE);
    world.now = world.now + Span::seconds(120);
    let plan = world.plan_that(|plan| plan.record.replacement.is_some());
    world.seen.record = plan.record;
    // The node is created again.
    world.seen.sites.insert(name("demo-2"), Site::default());
    world.unsilence("demo-2");
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
    assert_eq!(world.seen.record.members[&name("demo-2")].stage, Stage::Voter);
    assert!(world.seen.record.replacement.is_none());
    assert_eq!(world.seen.volumes.len(), 3, "none was made for another member");
}

#[test]
fn an_edit_to_a_smaller_size_in_the_middle_of_a_replacement_needs_no_new_member() {
    let mut world = World::running(3);
    lose_volume(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span::seconds(60));
    world.now = world.now + GRACE;
    let plan = world.plan_that(|plan| {
        matches!(
            plan.record.members.get(&name("demo-1")).map(|own| own.stage),
            Some(Stage::Leaving(Leaving::Lost))
        )
    });
    world.seen.record = plan.record;
    world.resize(2);
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2"]);
}

#[test]
fn a_member_that_is_well_again_after_an_order_is_not_removed_before_the_new_one_votes() {
    let mut world = World::running(3);
    world.settle();
    world.seen.replace_member = Some(name("demo-1"));
    world.silence("demo-1");
    let plan = world.plan_that(|plan| plan.record.replacement.is_some());
    world.carry_out(plan);
    world.unsilence("demo-1");
    for _ in 0..40 {
        let plan = world.plan();
        if let Some(removed) = removes(&plan) {
            assert_eq!((removed, world.voters().len()), ("demo-1", 4));
        }
        world.carry_out(plan);
    }
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);
}

#[test]
fn the_pod_of_a_member_that_is_being_replaced_is_restarted_while_there_is_no_quorum() {
    let mut world = World::running(1);
    world.seen.replace_member = Some(name("demo-0"));
    let plan = world.plan_that(|plan| {
        matches!(plan.record.members[&name("demo-0")].stage, Stage::Leaving(Leaving::Replaced))
    });
    world.seen.record = plan.record;
    world.lose_pod("demo-0");
    let plan = world.plan();
    let restarts = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::CreatePod { member, .. }) if *member == name("demo-0"));
    assert!(plan.effects.iter().any(restarts), "{:?} {:?}", plan.effects, plan.waiting);
    world.settle();
    assert_eq!(world.voters(), ["demo-1"]);
}

#[test]
fn an_order_outlives_a_pod_that_is_created_again_and_a_member_that_becomes_sick_on_the_way() {
    let mut world = World::running(3);
    world.seen.replace_member = Some(name("demo-1"));
    let plan = world.plan_that(|plan| plan.record.replacement.is_some());
    world.carry_out(plan);
    world.lose_pod("demo-1");
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);

    let mut world = World::running(3);
    world.seen.replace_member = Some(name("demo-1"));
    let plan = world.plan_that(|plan| plan.record.replacement.is_some());
    world.seen.record = plan.record;
    world.silence("demo-1");
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);
}

/// A person removes the annotation again.
fn withdraw(world: &mut World) {
    world.seen.replace_member = None;
}

/// The order on demo-1, up to the plan that has this property.
fn ordered_until(world: &mut World, has: impl Fn(&Plan) -> bool) -> Plan {
    world.seen.replace_member = Some(name("demo-1"));
    for _ in 0..40 {
        let plan = world.plan();
        if has(&plan) {
            return plan;
        }
        world.carry_out(plan);
    }
    panic!("no plan has that property")
}

fn assert_withdrawn(world: &mut World) {
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "{story}");
    let last = world.seen.record.last_replacement.clone().unwrap();
    assert_eq!((last.member, last.end), (name("demo-1"), ReplacementEnd::Withdrawn), "{story}");
    assert!(last.message.contains("the order is withdrawn"), "{}", last.message);
    assert_eq!(world.seen.record.replacement, None);
    assert_eq!(world.seen.volumes.len(), 3, "{story}");
}

#[test]
fn an_order_is_withdrawn_with_its_annotation_while_the_new_member_is_a_learner() {
    let mut world = World::running(3);
    let added = ordered_until(&mut world, adds);
    world.carry_out(added);
    assert_eq!(world.members.len(), 4);
    withdraw(&mut world);
    assert_withdrawn(&mut world);
}

#[test]
fn an_order_is_withdrawn_with_its_annotation_when_the_new_member_votes_and_the_old_one_is_about_to_go() {
    let mut world = World::running(3);
    let removal = ordered_until(&mut world, |plan| removes(plan) == Some("demo-1"));
    // The record is written, and the call does not get through.
    world.seen.record = removal.record;
    assert_eq!(world.voters().len(), 4);
    withdraw(&mut world);
    assert_withdrawn(&mut world);
}

/// As a voter again it would be the one that the next scale-in removes, with its volume.
#[test]
fn an_order_is_not_withdrawn_for_a_member_that_is_not_sound_where_another_has_its_place() {
    let mut world = World::running(3);
    let removal = ordered_until(&mut world, |plan| removes(plan) == Some("demo-1"));
    world.seen.record = removal.record;
    world.silence("demo-1");
    withdraw(&mut world);
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
    let volume = world.seen.volumes.contains_key(&name("demo-1"));
    assert!(volume, "it is quarantined, not deleted: {story}");
}

#[test]
fn an_order_on_a_sick_member_is_withdrawn_before_it_is_removed() {
    let mut world = World::running(3);
    world.silence("demo-1");
    let plan = ordered_until(&mut world, |plan| plan.record.replacement.is_some());
    world.seen.record = plan.record;
    withdraw(&mut world);
    let plan = world.plan();
    assert_eq!((removes(&plan), plan.record.replacement.clone()), (None, None), "{:?}", plan.waiting);
    world.carry_out(plan);
    world.unsilence("demo-1");
    assert_withdrawn(&mut world);
}

#[test]
fn an_order_replaces_a_lost_member_also_after_the_second_look_where_recovery_is_off() {
    let mut world = World::running(3);
    world.seen.replacement_policy.enabled = false;
    refuse(&mut world, "demo-1");
    nothing_is_given_up(&mut world, GRACE);
    world.now = world.now + Span::seconds(120);
    for _ in 0..3 {
        let plan = world.plan();
        world.carry_out(plan);
        if world.seen.pods.contains_key(&name("demo-1")) {
            refuse(&mut world, "demo-1");
        }
    }
    nothing_is_given_up(&mut world, Span::seconds(60));
    world.seen.replace_member = Some(name("demo-1"));
    world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"]);
}

#[test]
fn m08_a_grace_period_begins_by_the_later_clock_and_is_over_by_the_earlier_one() {
    let grace = World::running(3).seen.replacement_policy.grace;
    for by in [Span::seconds(61), Span::seconds(8 * 3600)] {
        for (before, after) in [
            (None, Some(ClockDifference::Ahead(by))),
            (Some(ClockDifference::Behind(by)), None),
            (Some(ClockDifference::Behind(by)), Some(ClockDifference::Behind(by))),
        ] {
            let mut world = World::running(3);
            world.seen.clock_differs = before;
            lose_volume(&mut world, "demo-1");
            world.settle();
            assert_eq!(world.seen.record.suspected.len(), 1);
            // The operator's clock jumps ahead, or is set right.
            world.now = world.now + by;
            world.seen.clock_differs = after;
            nothing_is_given_up(&mut world, Span(0));
            world.now = world.now + grace;
            let late = after == Some(ClockDifference::Behind(by));
            let late = late.then_some(by).filter(|by| *by > Span(0));
            world.now = world.now + late.unwrap_or(Span(0));
            let plan = world.plan();
            assert!(plan.record.replacement.is_some(), "{before:?} {after:?}: {:?}", plan.waiting);
        }
    }
}

/// The Pod of a member waits for its mount on its node for this long.
fn not_mounted(world: &mut World, member: &str, long: Span) {
    world.silence(member);
    let since = quorate_model::Instant(world.now.0 - i64::try_from(long.0).unwrap());
    let pod = world.seen.pods.get_mut(&name(member)).expect("it has a Pod");
    (pod.ready, pod.runs, pod.has_run, pod.ip) = (false, false, false, None);
    pod.mounting = Some(since);
}

#[test]
fn m09_a_volume_that_is_not_mounted_for_long_is_told_with_the_way_out_and_is_no_loss_by_itself() {
    let mut world = World::running(3);
    world.settle();
    // Kubernetes forces a detach six minutes after the end of a node.
    not_mounted(&mut world, "demo-1", Span::seconds(200));
    let why = |world: &mut World| {
        world.plan();
        world.seen.why_unhealthy(&name("demo-1"), world.now).unwrap()
    };
    assert_eq!(why(&mut world), Sick::Starting(None));
    not_mounted(&mut world, "demo-1", Span::seconds(301));
    let told = why(&mut world);
    let Sick::NotMounted { lost: Some(order), .. } = told else { panic!("{told:?}") };
    let asked = (order.cluster == world.seen.cluster, &order.member, order.id.is_some());
    assert_eq!(asked, (true, &name("demo-1"), true), "{order:?}");
    nothing_is_given_up(&mut world, Span(GRACE.0 * 2));
    assert!(world.seen.record.suspected.is_empty());
    world.seen.replace_member = Some(name("demo-1"));
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
}

#[test]
fn l15_a_pod_that_finds_no_node_for_its_volume_for_long_is_told_with_the_way_out() {
    let mut world = World::running(3);
    world.settle();
    world.silence("demo-1");
    let pod = world.seen.pods.get_mut(&name("demo-1")).expect("it has a Pod");
    (pod.ready, pod.runs, pod.ip) = (false, false, None);
    pod.trouble = Some(
        "Unschedulable: 0/3 nodes are available: 3 node(s) had volume node affinity conflict".to_owned(),
    );
    let is_told = |world: &mut World| {
        world.plan();
        let why = world.seen.why_unhealthy(&name("demo-1"), world.now).unwrap();
        matches!(why, Sick::Pod { lost: Some(_), .. })
    };
    assert!(!is_told(&mut world), "the node may start again");
    world.now = world.now + Span::seconds(301);
    assert!(is_told(&mut world));
}

#[test]
fn m09_a_claim_in_phase_lost_is_a_loss_and_one_that_is_bound_again_is_none() {
    let mut world = World::running(3);
    world.settle();
    world.silence("demo-1");
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().lost = true;
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
    assert_eq!(world.seen.record.suspected[&name("demo-1")].loss, Loss::VolumeGone);
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().lost = false;
    let plan = world.plan();
    world.carry_out(plan);
    assert!(world.seen.record.suspected.is_empty());
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().lost = true;
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
    world.now = world.now + Span::seconds(120);
    let removal = world.plan_that(|plan| removes(plan).is_some());
    assert_eq!(removes(&removal), Some("demo-1"));
}

#[test]
fn m09_a_member_that_answers_has_lost_nothing_though_its_claim_is_lost() {
    let mut world = World::running(3);
    world.settle();
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().lost = true;
    nothing_is_given_up(&mut world, Span(GRACE.0 * 2));
    assert!(world.seen.record.suspected.is_empty());
}

/// Status was lost or restored from before, and nothing of this voter is left but its entry in etcd's list.
fn forget_volume(world: &mut World, member: &str) {
    lose_volume(world, member);
    world.seen.record.members.get_mut(&name(member)).unwrap().volume = None;
}

#[test]
fn m10_a_voter_of_the_list_without_a_recorded_volume_a_claim_and_a_pod_is_replaced_after_the_grace_period() {
    let mut world = World::running(3);
    world.settle();
    forget_volume(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
    assert_eq!(world.seen.record.suspected[&name("demo-1")].loss, Loss::VolumeGone);
    world.now = world.now + Span::seconds(120);
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
}

#[test]
fn m10_a_claim_that_appears_in_time_keeps_the_member() {
    let mut world = World::running(3);
    world.settle();
    let claim = world.seen.volumes[&name("demo-1")].clone();
    // The watch of claims is behind.
    forget_volume(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span(GRACE.0 - 60_000));
    world.seen.volumes.insert(name("demo-1"), claim);
    world.settle();
    nothing_is_given_up(&mut world, Span(GRACE.0 * 2));
    assert!(world.seen.record.suspected.is_empty());
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);
}

#[test]
fn m10_an_order_on_the_etcd_cluster_replaces_a_member_that_has_no_pod_although_recovery_is_off() {
    let mut world = World::running(3);
    world.settle();
    world.seen.replacement_policy.enabled = false;
    lose_volume(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span(GRACE.0 * 2));
    world.seen.replace_member = Some(name("demo-1"));
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
    // The name is never used again, so what is left of the order replaces nobody.
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
    assert!(world.seen.record.replacement.is_none());
}

/// Its volume is gone, and its Pod cannot be created. The claim of the one that is to take its place does not come.
#[test]
fn m10_an_order_on_the_etcd_cluster_is_withdrawn_where_its_member_has_no_pod() {
    let mut world = World::running(3);
    world.settle();
    world.seen.replacement_policy.enabled = false;
    lose_volume(&mut world, "demo-1");
    nothing_is_given_up(&mut world, Span(GRACE.0 * 2));
    world.seen.replace_member = Some(name("demo-1"));
    world.plan_that(|plan| plan.record.replacement.is_some());
    let plan = world.plan();
    assert!(plan.record.replacement.is_some(), "{plan:#?}");
    assert!(!world.seen.pods.contains_key(&name("demo-1")));
    world.seen.record = plan.record;
    world.seen.replace_member = None;
    let story = world.settle();
    let last = world.seen.record.last_replacement.clone().unwrap();
    assert_eq!((last.member, last.end), (name("demo-1"), ReplacementEnd::Withdrawn), "{story}");
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"], "{story}");
    assert!(world.seen.record.replacement.is_none());
}

#[test]
fn m10_an_order_on_the_etcd_cluster_is_withdrawn_after_the_pod_of_its_member_was_created_again() {
    let mut world = World::running(3);
    world.settle();
    world.seen.replace_member = Some(name("demo-1"));
    world.plan_that(|plan| plan.record.replacement.is_some());
    let plan = world.plan();
    world.carry_out(plan);
    world.seen.pods.remove(&name("demo-1"));
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::W1));
    let plan = world.plan();
    world.carry_out(plan);
    assert!(world.seen.pods.contains_key(&name("demo-1")));
    world.seen.replace_member = None;
    assert_withdrawn(&mut world);
}

#[test]
fn m10_an_order_on_the_etcd_cluster_moves_a_healthy_member_and_can_be_taken_back() {
    let mut world = World::running(3);
    world.settle();
    world.seen.replace_member = Some(name("demo-1"));
    world.plan_that(|plan| plan.record.replacement.is_some());
    let plan = world.plan();
    world.carry_out(plan);
    world.seen.replace_member = None;
    let story = world.settle();
    assert_eq!(world.seen.record.last_replacement.clone().unwrap().end, ReplacementEnd::Withdrawn, "{story}");
    world.seen.replace_member = Some(name("demo-1"));
    let story = world.settle();
    assert!(!world.voters().contains(&"demo-1") && world.voters().len() == 3, "{story}");
}
