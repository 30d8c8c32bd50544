//! Recovery of a lost quorum, by order only: no healthy cluster is recovered, nothing begins while a member may run, and nothing is given up
//! before the order for another incarnation.

use crate::world::{World, name, words};
use quorate_model::effect::{Boot, RecoveryWait};
use quorate_model::incarnation::Order;
use quorate_model::quorum_recovery::{
    Container, Log, NodeState, ReadOnlyAnswer, ReadOnlyOrder, ReadOnlyPod, RecoverFrom, STOPPED_WITHIN,
};
use quorate_model::record::{Leaving, Loss, Stage, Suspicion};
use quorate_model::restore::Restore;
use quorate_model::snapshot::{LastNodes, Site};
use quorate_model::target::Medium;
use quorate_model::{
    ClusterId, Instant, KubeEffect, MemberName, Plan, Revision, Span, Step, Version, Waiting,
};
use quorate_planner::View;
use quorate_planner::safety::mutants::without;

/// A cluster of five of which only demo-0 answers, for long enough, and the order.
fn lost(order: &str) -> World {
    let mut world = World::running(5);
    for member in ["demo-1", "demo-2", "demo-3", "demo-4"] {
        world.silence(member);
        world.seen.pods.get_mut(&name(member)).unwrap().ready = false;
        node(&mut world, member, Some(READY));
    }
    node(&mut world, "demo-0", Some(READY));
    world.now = world.now + Span::seconds(120);
    world.seen.etcd.unserved_since = Some(world.now);
    world.now = world.now + Span::seconds(120);
    world.seen.recover_from = Some(RecoverFrom::read(order));
    world
}

/// A node that has been ready for long.
const READY: NodeState = NodeState::Ready { since: Instant(0) };

/// What Kubernetes reports of the node of a member's last Pod.
fn node(world: &mut World, member: &str, node: Option<NodeState>) {
    world.seen.sites.insert(name(member), Site { node, ..Site::default() });
}

/// The agent of a member has found nothing, twice.
fn has_nothing(world: &mut World, member: &str) {
    world.answers(member, ReadOnlyAnswer::Nothing("DataMissing: the volume is empty".to_owned()));
    let pod = world.seen.pods.get_mut(&name(member)).unwrap();
    (pod.restarts, pod.finished) = (1, false);
}

/// Observes and plans. The helper of the world forgets since when there is no list.
fn plan(world: &mut World) -> Plan {
    let since = world.seen.etcd.unserved_since;
    world.observe();
    world.seen.etcd.unserved_since = since;
    world.plan_as_observed()
}

/// Carries plans out until one does nothing, and returns that one.
fn go_on(world: &mut World) -> Plan {
    for _ in 0..20 {
        let plan = plan(world);
        if plan.effects.is_empty() && plan.record == world.seen.record {
            return plan;
        }
        world.carry_out(plan);
    }
    panic!("it does not come to rest")
}

fn log(world: &World, member: &str, committed: u64, last_term: u64, last_index: u64) -> ReadOnlyAnswer {
    ReadOnlyAnswer::Stored(Log {
        committed,
        last_term,
        last_index,
        consistent: committed,
        term: last_term,
        revision: Revision(7),
        cluster_id: world.seen.record.cluster_id.unwrap(),
        member_id: world.seen.record.members[&name(member)].id.unwrap(),
    })
}

fn snapshot() -> ReadOnlyAnswer {
    ReadOnlyAnswer::Extracted(Box::new(Restore {
        content: "{}".to_owned(),
        url: "pvc://demo-0/quorate.recovered/quorum.db".to_owned(),
        version: Some(Version::new(3, 6, 16)),
        bytes: Some(20_480),
        revision: Some(Revision(7)),
        auth: None,
        bump: 1_000_000_000,
        floor: quorate_model::Revision(0),
    }))
}

fn held(world: &World) -> Vec<&str> {
    let held = world.seen.pods.iter().filter(|(_, pod)| pod.read_only.is_some());
    held.map(|(member, _)| member.as_str()).collect()
}

fn created(plan: &Plan) -> Vec<(&MemberName, Boot)> {
    let created = plan.effects.iter().filter_map(|effect| match effect.as_kube() {
        Some(KubeEffect::CreatePod { member, boot, .. }) => Some((member, *boot)),
        _ => None,
    });
    created.collect()
}

/// All have reported; of the two that have their data, the second one has more.
fn reported(order: &str) -> World {
    let mut world = lost(order);
    go_on(&mut world);
    assert_eq!(held(&world), ["demo-0", "demo-1", "demo-2", "demo-3", "demo-4"]);
    for (member, answer) in [("demo-0", (90, 9, 120)), ("demo-1", (100, 3, 100))] {
        let answer = log(&world, member, answer.0, answer.1, answer.2);
        world.answers(member, answer);
    }
    for member in ["demo-2", "demo-3", "demo-4"] {
        has_nothing(&mut world, member);
    }
    world
}

fn waits_for(plan: &Plan, text: &str) -> bool {
    let reports = |waiting: &Waiting| match waiting {
        Waiting::Recovery(RecoveryWait::Reads { logs, .. }) => logs.iter().any(|(member, log)| match log {
            Ok(log) => format!("{member}: {log}").contains(text),
            Err(why) => format!("{member}: {why}").contains(text),
        }),
        other => words(other).contains(text),
    };
    plan.waiting.iter().any(reports)
}

#[test]
fn every_pod_is_held_then_the_member_with_most_committed_entries_is_chosen_and_a_new_incarnation_of_one_ordered()
 {
    let mut world = reported("auto");
    let plan_of_choice = plan(&mut world);
    assert_eq!(plan_of_choice.recorded_steps, [Step::Q4]);
    assert!(waits_for(
        &plan_of_choice,
        "demo-0: committed up to entry 90, last entry 120 of term 9, so etcd drops 30"
    ));
    world.carry_out(plan_of_choice);
    assert_eq!(
        world.seen.record.quorum_recovery.as_ref().unwrap().chosen.as_ref().unwrap().member,
        name("demo-1")
    );
    go_on(&mut world);
    assert!(matches!(
        world.seen.pods[&name("demo-1")].read_only.as_ref().unwrap().order,
        ReadOnlyOrder::Extract(_)
    ));
    world.answers("demo-1", snapshot());
    let ordered = plan(&mut world);
    assert!(ordered.recorded_steps.contains(&Step::Q6), "{ordered:?}");
    let next = ordered.record.next_incarnation.as_ref().unwrap();
    assert_eq!(next.members, Some(1));
    assert_eq!(next.order, Order::Recovery { from: RecoverFrom::Auto });
    assert_eq!(ordered.record.quorum_recovery, None);
    world.carry_out(ordered);
    // J2 to J4, then a bootstrap with the snapshot.
    let old: Vec<MemberName> = world.seen.record.members.keys().cloned().collect();
    let begins = world.plan_that(|plan| created(plan).iter().any(|(_, boot)| *boot == Boot::Restore));
    let new = created(&begins);
    assert_eq!(new.len(), 1, "one member restores: {new:?}");
    assert!(!old.contains(new[0].0), "under a new name");
    for member in &old {
        assert!(world.seen.volumes[member].quarantine.is_some(), "{member} is kept");
    }
}

#[test]
fn a_member_that_is_named_is_chosen_even_if_another_one_has_more() {
    let mut world = reported("demo-0");
    let chosen = plan(&mut world).record.quorum_recovery.unwrap().chosen.unwrap();
    assert_eq!(chosen.member, name("demo-0"));
}

#[test]
fn a_cluster_whose_quorum_answers_is_never_recovered_not_even_when_it_is_lost_later() {
    let mut world = World::running(5);
    world.seen.recover_from = Some(RecoverFrom::Auto);
    world.settle();
    assert_eq!(world.seen.record.quorum_recovery, None);
    let mut later = lost("auto");
    later.seen.record = world.seen.record.clone();
    let spent = plan(&mut later);
    assert_eq!(spent.record.quorum_recovery, None, "the order is spent");
    assert!(waits_for(&spent, "Spent"), "{:?}", spent.waiting);
    later.seen.recover_from = Some(RecoverFrom::Member(name("demo-0")));
    assert!(plan(&mut later).record.quorum_recovery.is_some(), "another order");
    // Taken off and given again.
    let mut again = lost("auto");
    again.seen.record = world.seen.record;
    again.seen.recover_from = None;
    let plan_without = plan(&mut again);
    again.carry_out(plan_without);
    again.seen.recover_from = Some(RecoverFrom::Auto);
    assert!(plan(&mut again).record.quorum_recovery.is_some());
}

#[test]
fn r11_a_recovery_ends_when_a_quorum_answers_and_without_the_rule_pods_that_serve_would_be_held() {
    let mut world = lost("auto");
    let begun = plan(&mut world);
    assert_eq!(begun.recorded_steps, [Step::Q1]);
    world.seen.record = begun.record;
    for member in ["demo-1", "demo-2", "demo-3", "demo-4"] {
        world.unsilence(member);
    }
    let ended = world.plan();
    assert!(ended.recorded_steps.contains(&Step::QX));
    assert_eq!(ended.record.quorum_recovery, None);
    // The rule itself, on the effects of a planner that does not look.
    let (seen, record) = (world.seen.clone(), world.seen.record.clone());
    let judged =
        || quorate_planner::safety::may_recover(View { seen: &seen, record: &record, now: world.now });
    assert!(judged().is_err());
    assert!(without("QuorumAnswers", judged).is_err(), "members run");
    let mut stopped = record.clone();
    stopped.quorum_recovery = None;
    let judged =
        || quorate_planner::safety::may_recover(View { seen: &seen, record: &stopped, now: world.now });
    assert!(judged().is_err());
    assert!(without("QuorumAnswers", judged).is_ok());
}

/// The Pod of a member that existed when the order was given is stuck on its node.
fn stuck(world: &mut World, member: &str) {
    let pod = world.seen.pods.get_mut(&name(member)).unwrap();
    (pod.read_only, pod.finished, pod.terminating) = (None, false, true);
    let last = Container { pod: Some(pod.uid.clone()), node: Some("n2".to_owned()), served_on: None };
    world.seen.record.quorum_recovery.as_mut().unwrap().containers.insert(name(member), last);
}

fn is_chosen(plan: &Plan) -> bool {
    plan.record.quorum_recovery.as_ref().is_some_and(|recovery| recovery.chosen.is_some())
}

#[test]
fn h27_nothing_is_chosen_while_a_member_may_run() {
    let mut world = reported("demo-1");
    stuck(&mut world, "demo-2");
    for state in [Some(NodeState::NotReady), Some(READY), None] {
        node(&mut world, "demo-2", state);
        let waits = plan(&mut world);
        assert!(!is_chosen(&waits), "{state:?}");
        assert!(waits_for(&waits, "PodThere(Some(\"n2\"))"), "{waits:?}");
    }
    for state in [NodeState::OutOfService, NodeState::Gone] {
        node(&mut world, "demo-2", Some(state));
        assert!(is_chosen(&plan(&mut world)), "{state:?}");
    }
}

#[test]
fn with_auto_every_volume_that_can_be_read_was_read_and_without_the_rule_one_that_has_more_is_left_out() {
    let mut world = reported("auto");
    // Its machine is off, and its volume can be used elsewhere.
    stuck(&mut world, "demo-2");
    node(&mut world, "demo-2", Some(NodeState::OutOfService));
    let waits = plan(&mut world);
    assert!(!is_chosen(&waits));
    assert!(waits_for(&waits, "may_be_left: true"), "{:?}", waits.waiting);
    let (seen, record) = (world.seen.clone(), world.seen.record.clone());
    let judged =
        || quorate_planner::safety::may_recover(View { seen: &seen, record: &record, now: world.now });
    assert!(judged().is_err() && without("NotRead", judged).is_ok());
    world.seen.recover_from = Some(RecoverFrom::Member(name("demo-1")));
    assert!(is_chosen(&plan(&mut world)), "a person has decided");
    let mut world = reported("auto");
    stuck(&mut world, "demo-2");
    let gone =
        Site { node: Some(NodeState::Gone), gone: Some("its node is gone".to_owned()), ..Site::default() };
    world.seen.sites.insert(name("demo-2"), gone);
    assert!(is_chosen(&plan(&mut world)), "nobody can ever read it");
}

#[test]
fn a_volume_that_is_empty_is_looked_at_twice() {
    let mut world = reported("auto");
    world.seen.pods.get_mut(&name("demo-2")).unwrap().restarts = 0;
    let waits = plan(&mut world);
    assert!(!is_chosen(&waits) && waits_for(&waits, "OnceMore"), "{:?}", waits.waiting);
}

#[test]
fn h27_a_pod_that_vanished_proves_nothing_while_its_node_does_not_report() {
    let mut world = reported("auto");
    world.seen.pods.remove(&name("demo-2"));
    world.seen.volumes.remove(&name("demo-2"));
    let ordered = world.seen.record.quorum_recovery.as_ref().unwrap().since;
    let state = |world: &mut World, state| {
        node(world, "demo-2", state);
        is_chosen(&plan(world))
    };
    assert!(!state(&mut world, None), "where it ran is not known");
    assert!(!state(&mut world, Some(NodeState::NotReady)));
    assert!(!state(&mut world, Some(READY)), "its kubelet may still stop it");
    world.now = ordered + Span::seconds(180);
    let just_now = NodeState::Ready { since: ordered + Span::seconds(1) };
    assert!(!state(&mut world, Some(just_now)), "it has reported for less than 180 s");
    assert!(!state(&mut world, Some(NodeState::NotReady)));
    assert!(state(&mut world, Some(READY)));
    assert!(state(&mut world, Some(NodeState::Gone)));
}

#[test]
fn what_another_pod_reports_does_not_prove_that_the_last_one_has_ended() {
    let mut world = reported("auto");
    for state in [Some(NodeState::NotReady), None] {
        node(&mut world, "demo-1", state);
        assert!(!is_chosen(&plan(&mut world)), "{state:?}: a lock is known to one node only");
    }
    // It was deleted by force before the order was given.
    node(&mut world, "demo-1", Some(READY));
    let containers = &mut world.seen.record.quorum_recovery.as_mut().unwrap().containers;
    containers.get_mut(&name("demo-1")).unwrap().pod = None;
    assert!(!is_chosen(&plan(&mut world)), "its kubelet has time to stop it");
    world.now = world.now + Span::seconds(180);
    assert!(is_chosen(&plan(&mut world)));
}

#[test]
fn a_quorum_that_has_its_data_is_not_recovered_from_one_of_them_unless_a_person_names_it() {
    let mut world = reported("auto");
    let third = log(&world, "demo-2", 80, 3, 80);
    world.answers("demo-2", third);
    let refused = plan(&mut world);
    assert!(
        !is_chosen(&refused) && waits_for(&refused, "QuorumHasData { readable: 3, voters: 5 }"),
        "{:?}",
        refused.waiting
    );
    world.seen.recover_from = Some(RecoverFrom::Member(name("demo-0")));
    assert!(is_chosen(&plan(&mut world)));
}

/// Git puts the annotation back that a person takes off.
#[test]
fn o13_members_that_have_the_data_of_a_quorum_start_again_although_the_order_stays() {
    let mut world = reported("auto");
    let third = log(&world, "demo-2", 80, 3, 80);
    world.answers("demo-2", third);
    let ended = plan(&mut world);
    assert!(ended.recorded_steps.contains(&Step::QX), "{:?}", ended.recorded_steps);
    assert_eq!(ended.record.quorum_recovery, None);
    world.carry_out(ended);
    for member in ["demo-1", "demo-2", "demo-3", "demo-4"] {
        world.unsilence(member);
    }
    world.settle();
    assert!(held(&world).is_empty(), "{:?}", held(&world));
    assert!(world.seen.pods.values().all(|pod| pod.ready));
    assert_eq!(world.seen.record.incarnation, None);
}

#[test]
fn o13_an_order_that_was_given_while_the_cluster_was_paused_or_at_size_zero_begins_nothing_later() {
    type Change<'a> = &'a dyn Fn(&mut World, bool);
    let paused = |world: &mut World, is: bool| world.seen.paused = is;
    let asleep = |world: &mut World, is: bool| world.seen.record.hibernating = is;
    let cases: [Change<'_>; 2] = [&paused, &asleep];
    for change in cases {
        let mut world = lost("auto");
        change(&mut world, true);
        let seen = plan(&mut world);
        assert_eq!(seen.record.last_quorum_recovery, Some(RecoverFrom::Auto));
        world.seen.record = seen.record;
        change(&mut world, false);
        let later = plan(&mut world);
        assert_eq!(later.record.quorum_recovery, None, "{:?}", later.waiting);
        assert!(waits_for(&later, "Spent"), "{:?}", later.waiting);
        // Given again, it is followed.
        world.seen.recover_from = None;
        let off = plan(&mut world);
        world.seen.record = off.record;
        world.seen.recover_from = Some(RecoverFrom::Auto);
        assert!(plan(&mut world).record.quorum_recovery.is_some());
    }
}

#[test]
fn a_member_whose_data_differ_is_not_chosen_by_itself() {
    let mut world = reported("auto");
    let suspicion = Suspicion { loss: Loss::Inconsistent, since: world.now, rechecked: None };
    world.seen.record.suspected.insert(name("demo-1"), suspicion);
    let chosen = plan(&mut world).record.quorum_recovery.unwrap().chosen.unwrap();
    assert_eq!(chosen.member, name("demo-0"));
}

#[test]
fn while_it_is_not_known_whose_data_are_wrong_nobody_is_chosen_by_itself() {
    let mut world = reported("auto");
    world.seen.record.differ_since = Some(world.now);
    let refused = plan(&mut world);
    assert!(!is_chosen(&refused) && waits_for(&refused, "DataDiffer"), "{:?}", refused.waiting);
    world.seen.recover_from = Some(RecoverFrom::Member(name("demo-0")));
    assert!(is_chosen(&plan(&mut world)));
}

#[test]
fn a_paused_cluster_whose_order_is_withdrawn_starts_its_members_again() {
    let mut world = reported("auto");
    world.seen.paused = true;
    world.seen.recover_from = None;
    for member in ["demo-1", "demo-2", "demo-3", "demo-4"] {
        world.unsilence(member);
    }
    world.settle();
    assert!(held(&world).is_empty(), "{:?}", held(&world));
}

#[test]
fn the_order_is_withdrawn_by_taking_off_the_annotation_and_the_members_start_again_as_they_were() {
    let mut world = reported("auto");
    go_on(&mut world);
    world.seen.recover_from = None;
    let withdrawn = Waiting::Recovery(RecoveryWait::Ended { withdrawn: true });
    assert!(plan(&mut world).waiting.contains(&withdrawn), "{:?}", plan(&mut world).waiting);
    for member in ["demo-1", "demo-2", "demo-3", "demo-4"] {
        world.unsilence(member);
    }
    world.settle();
    assert!(!plan(&mut world).waiting.contains(&withdrawn));
    assert_eq!(world.seen.record.quorum_recovery, None);
    assert!(held(&world).is_empty());
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2", "demo-3", "demo-4"]);
    assert!(world.seen.pods.values().all(|pod| pod.ready && pod.joined));
}

#[test]
fn what_cannot_be_recovered_is_refused_and_nothing_is_stopped() {
    let refused = |change: &dyn Fn(&mut World), text: &str| {
        let mut world = lost("auto");
        change(&mut world);
        let plan = plan(&mut world);
        assert_eq!(plan.record.quorum_recovery, None, "{text}");
        assert!(waits_for(&plan, text), "{text}: {:?}", plan.waiting);
        assert!(!plan.effects.iter().any(quorate_model::Effect::is_destructive), "{text}");
    };
    let target =
        |world: &mut World| world.seen.record.target.as_mut().unwrap().version = Version::new(3, 6, 4);
    refused(
        &target,
        "ForgetsEntries(Version { major: 3, minor: 6, patch: 4 }, Version { major: 3, minor: 6, patch: 5 })",
    );
    let memory =
        |world: &mut World| world.seen.record.target.as_mut().unwrap().storage.medium = Medium::Memory;
    refused(&memory, "InMemory");
    refused(&|world| world.seen.recover_from = Some(RecoverFrom::read("demo-7")), "NoMember(demo-7)");
    refused(&|world| world.seen.etcd.unserved_since = Some(world.now), "TooSoon");
}

#[test]
fn logs_of_another_cluster_and_members_without_data_are_not_chosen() {
    let mut world = reported("auto");
    for member in ["demo-0", "demo-1"] {
        has_nothing(&mut world, member);
    }
    let refused = plan(&mut world);
    assert!(waits_for(&refused, "NoData"), "{:?}", refused.waiting);
    let ReadOnlyAnswer::Stored(foreign) = log(&world, "demo-0", 500, 1, 500) else { unreachable!() };
    world.answers("demo-0", ReadOnlyAnswer::Stored(Log { cluster_id: ClusterId(1), ..foreign }));
    assert_eq!(plan(&mut world).record.quorum_recovery.unwrap().chosen, None);
    let mine = log(&world, "demo-2", 3, 1, 3);
    world.answers("demo-2", mine);
    assert_eq!(plan(&mut world).record.quorum_recovery.unwrap().chosen.unwrap().member, name("demo-2"));
}

#[test]
fn another_member_can_be_named_while_the_snapshot_is_taken() {
    let mut world = reported("auto");
    go_on(&mut world);
    let failure = quorate_model::restore::RestoreFailure::new(
        quorate_model::restore::RestoreCause::Failed,
        "etcd does not start on a copy of the data",
    );
    let pod = world.seen.pods.get_mut(&name("demo-1")).unwrap();
    let ReadOnlyPod { failure: last, .. } = pod.read_only.as_mut().unwrap();
    *last = Some(failure);
    assert!(waits_for(&plan(&mut world), "Agent(demo-1, \"etcd does not start on a copy of the data\")"));
    world.seen.recover_from = Some(RecoverFrom::Member(name("demo-0")));
    // The Pod of the first choice reads once more, so that it is seen stopped.
    let edited = go_on(&mut world);
    assert!(
        edited.waiting.iter().any(|waiting| matches!(waiting, Waiting::Recovery(RecoveryWait::MayRun(..))))
    );
    let again = log(&world, "demo-1", 100, 3, 100);
    world.answers("demo-1", again);
    go_on(&mut world);
    assert_eq!(
        world.seen.record.quorum_recovery.as_ref().unwrap().chosen.as_ref().unwrap().member,
        name("demo-0")
    );
    assert!(matches!(
        world.seen.pods[&name("demo-0")].read_only.as_ref().unwrap().order,
        ReadOnlyOrder::Extract(_)
    ));
}

/// Somebody has deleted Pods by force, and the next ones hang on another node: the old majority may go on where it was.
#[test]
fn h27_a_member_whose_later_pod_is_elsewhere_is_stopped_only_when_the_node_on_which_it_served_is_known_to_run_nothing()
 {
    let mut world = lost("demo-1");
    let last = LastNodes { node: Some("n4".to_owned()), served_on: Some("n1".to_owned()) };
    world.seen.last_nodes.insert(name("demo-2"), last);
    go_on(&mut world);
    let recorded = &world.seen.record.quorum_recovery.as_ref().unwrap().containers[&name("demo-2")];
    assert_eq!(recorded.served_on.as_deref(), Some("n1"));
    world.seen.pods.get_mut(&name("demo-2")).unwrap().node = Some("n4".to_owned());
    for member in ["demo-0", "demo-1", "demo-2", "demo-3", "demo-4"] {
        let answer = log(&world, member, 100, 3, 100);
        world.answers(member, answer);
    }
    let served_on = |world: &mut World, served_on| {
        let site = Site { node: Some(READY), served_on, ..Site::default() };
        world.seen.sites.insert(name("demo-2"), site);
    };
    let just_ready = NodeState::Ready { since: world.now };
    for (state, why) in [
        (Some(NodeState::NotReady), "Node { node: Some(\"n1\"), former: true, state: Silent }"),
        (Some(just_ready), "Node { node: Some(\"n1\"), former: true, state: Stopping }"),
        (None, "Node { node: Some(\"n1\"), former: true, state: NotKnown }"),
    ] {
        served_on(&mut world, state);
        let waits = plan(&mut world);
        assert!(!is_chosen(&waits) && waits_for(&waits, why), "{state:?}: {waits:?}");
    }
    served_on(&mut world, Some(NodeState::Gone));
    assert!(is_chosen(&plan(&mut world)));
    served_on(&mut world, Some(READY));
    world.now = world.now + STOPPED_WITHIN;
    assert!(is_chosen(&plan(&mut world)));
}

#[test]
fn a_member_that_has_no_id_yet_has_no_vote_and_holds_nothing_up() {
    let mut world = reported("auto");
    world.seen.record.members.get_mut(&name("demo-4")).unwrap().id = None;
    world.lose_pod("demo-4");
    world.seen.volumes.remove(&name("demo-4"));
    let recovery = world.seen.record.quorum_recovery.as_mut().unwrap();
    recovery.containers.insert(name("demo-4"), Container::default());
    node(&mut world, "demo-4", None);
    assert!(is_chosen(&plan(&mut world)));
}

#[test]
fn after_an_edit_the_first_choice_counts_as_read_only_when_it_says_once_more_what_it_has() {
    let mut world = reported("demo-1");
    go_on(&mut world);
    world.answers("demo-1", snapshot());
    world.seen.recover_from = Some(RecoverFrom::Auto);
    let edited = plan(&mut world);
    assert!(!is_chosen(&edited), "demo-0 has less than demo-1");
    world.carry_out(edited);
    go_on(&mut world);
    let again = log(&world, "demo-1", 100, 3, 100);
    world.answers("demo-1", again);
    go_on(&mut world);
    assert_eq!(
        world.seen.record.quorum_recovery.as_ref().unwrap().chosen.as_ref().unwrap().member,
        name("demo-1")
    );
}

#[test]
fn the_first_answer_of_an_empty_volume_does_not_count_while_the_second_try_runs() {
    let mut world = reported("auto");
    world.seen.pods.get_mut(&name("demo-4")).unwrap().runs = true;
    let waits = plan(&mut world);
    assert!(!is_chosen(&waits) && waits_for(&waits, "OnceMore"), "{waits:?}");
    world.seen.pods.get_mut(&name("demo-4")).unwrap().restarts = 2;
    assert!(is_chosen(&plan(&mut world)));
}

#[test]
fn a_pod_whose_volume_is_being_deleted_is_not_stopped_because_the_data_would_go_with_it() {
    let mut world = lost("auto");
    world.seen.volumes.get_mut(&name("demo-1")).unwrap().terminating = true;
    let waits = go_on(&mut world);
    assert_eq!(held(&world), ["demo-0", "demo-2", "demo-3", "demo-4"]);
    assert!(waits_for(&waits, "ClaimTerminating(demo-1)"), "{waits:?}");
    // A person has copied them, and deletes the Pod.
    world.lose_pod("demo-1");
    world.seen.volumes.remove(&name("demo-1"));
    world.now = world.now + STOPPED_WITHIN;
    assert!(!waits_for(&plan(&mut world), "ClaimTerminating(demo-1)"));
}

#[test]
fn an_edit_that_cannot_be_followed_takes_the_order_before_it_back() {
    let mut world = reported("auto");
    for value in ["demo-9", ""] {
        world.seen.recover_from = Some(RecoverFrom::read(value));
        let waits = plan(&mut world);
        assert!(!is_chosen(&waits) && waits_for(&waits, "NoMember"), "{value}: {waits:?}");
    }
    world.seen.recover_from = Some(RecoverFrom::Auto);
    assert!(is_chosen(&plan(&mut world)));
}

/// A NetworkPolicy or a bad certificate keeps the operator out, and nobody else.
#[test]
fn a_quorum_whose_pods_are_ready_is_not_recovered_although_the_operator_reaches_nobody() {
    let mut world = lost("demo-0");
    for member in ["demo-1", "demo-2"] {
        world.seen.pods.get_mut(&name(member)).unwrap().ready = true;
    }
    let refused = plan(&mut world);
    assert!(refused.record.quorum_recovery.is_none() && waits_for(&refused, "QuorumAnswers"), "{refused:?}");
    world.seen.pods.get_mut(&name("demo-2")).unwrap().ready = false;
    assert!(plan(&mut world).record.quorum_recovery.is_some());
}

/// etcd 3.5.35, 3.6.16 and 3.7.3 end with "removed all voters" when they are to make a cluster of a learner.
#[test]
fn a_learner_is_not_chosen_by_itself_although_it_has_most() {
    let mut world = reported("auto");
    world.seen.record.members.get_mut(&name("demo-1")).unwrap().stage = Stage::Joining;
    let chosen = plan(&mut world).record.quorum_recovery.unwrap().chosen.unwrap();
    assert_eq!(chosen.member, name("demo-0"));
    world.seen.record.members.get_mut(&name("demo-0")).unwrap().stage = Stage::Leaving(Leaving::Lost);
    let refused = plan(&mut world);
    let why = "LeftOut([(demo-0, GivenUp), (demo-1, Learner)])";
    assert!(!is_chosen(&refused) && waits_for(&refused, why), "{refused:?}");
}

#[test]
fn a_member_that_was_leaving_votes_until_it_is_removed_and_counts_for_the_quorum_that_is_there() {
    let mut world = reported("auto");
    world.seen.record.members.get_mut(&name("demo-0")).unwrap().stage = Stage::Leaving(Leaving::Shrink);
    assert!(is_chosen(&plan(&mut world)), "2 of 5");
    let third = log(&world, "demo-2", 80, 3, 80);
    world.answers("demo-2", third);
    let refused = plan(&mut world);
    assert!(!is_chosen(&refused) && waits_for(&refused, "QuorumHasData"), "{refused:?}");
}

#[test]
fn what_a_pod_on_another_node_reports_does_not_shorten_the_wait_for_the_node_of_the_last_one() {
    let mut world = reported("auto");
    world.seen.pods.get_mut(&name("demo-2")).unwrap().node = Some("n4".to_owned());
    assert!(!is_chosen(&plan(&mut world)));
    world.now = world.now + STOPPED_WITHIN;
    assert!(is_chosen(&plan(&mut world)));
}
