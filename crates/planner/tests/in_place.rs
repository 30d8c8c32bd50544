//! Another incarnation takes the place of the present one: only by a recorded order that names it, only once every member of it is seen
//! stopped, and with its volumes kept.

use crate::world::{World, describe, name};
use quorate_model::effect::{Boot, Unsafe};
use quorate_model::incarnation::{Incarnation, NextIncarnation, Order, RestoreOrder};
use quorate_model::names::Uid;
use quorate_model::record::QuarantineCause;
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use quorate_model::target::Medium;
use quorate_model::{
    ClusterId, Effect, KubeEffect, ManagedObject, Ordinal, Plan, Protocol, Record, Revision, Span, Step,
    Version, Waiting,
};
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, may_begin_incarnation, permits};

fn snapshot() -> Restore {
    Restore {
        content: "{}".to_owned(),
        url: "s3://backups/1".to_owned(),
        version: Some(Version::new(3, 6, 16)),
        bytes: Some(1 << 20),
        revision: Some(Revision(2)),
        bump: 1_000_000_000,
    }
}

fn order(name: &str) -> Order {
    Order::Restore { name: name.to_owned(), uid: Uid::new(format!("uid of {name}")) }
}

/// A cluster that runs, and an EtcdRestore that names it.
fn ordered(size: usize) -> World {
    let mut world = World::running(size);
    let replaces = world.seen.record.cluster_id.expect("it runs");
    world.seen.order = Some(RestoreOrder { order: order("back"), replaces, restore: Ok(snapshot()) });
    world
}

/// Plans and carries out until a step is reached. Returns that plan.
fn until(world: &mut World, step: Step) -> Plan {
    for _ in 0..20 {
        let plan = world.plan();
        let is_there =
            plan.recorded_steps.contains(&step) || plan.effects.iter().any(|effect| effect.step() == step);
        world.carry_out(plan.clone());
        if is_there {
            return plan;
        }
    }
    panic!("{step} is not reached");
}

fn why_it_waits(plan: &Plan) -> Option<&RestoreFailure> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::OrderWaits(_, why) => Some(why),
        _ => None,
    })
}

fn next_incarnation(world: &World) -> NextIncarnation {
    NextIncarnation {
        order: order("back"),
        replaces: world.seen.record.cluster_id.expect("it runs"),
        restore: snapshot(),
        members: None,
        stopped: true,
        since: world.now,
    }
}

fn judge(world: &World, effect: &KubeEffect) -> Result<(), Unsafe> {
    let scene = Scene { seen: &world.seen, record: &world.seen.record, now: world.now, before: &[] };
    permits(&scene, &Effect::kube(Step::J3, effect.clone()))
}

#[test]
fn the_members_stop_their_volumes_are_quarantined_and_others_begin_with_the_snapshot() {
    let mut world = ordered(3);
    let old = world.seen.record.clone();
    let plan = until(&mut world, Step::J1);
    assert_eq!(plan.record.next_incarnation.as_ref().map(|next| &next.restore), Some(&snapshot()));
    assert_eq!(plan.ended_by, Some(Protocol::NewIncarnation));
    assert!(plan.effects.iter().all(|effect| effect.step() == Step::J2), "{:?}", plan.effects);
    let mut story = String::new();
    let plan = until(&mut world, Step::J4);
    describe(&mut story, &plan);
    assert_eq!(plan.record.cluster_id, None, "{story}");
    assert_eq!((plan.record.next_ordinal, plan.record.attempt), (Ordinal(3), old.attempt));
    let kept = old.members.keys().all(|member| world.seen.volumes[member].quarantine.is_some());
    assert!(kept && world.seen.pods.is_empty(), "{story}");
    world.settle();
    let now = &world.seen.record;
    assert!(now.is_bootstrapped() && now.cluster_id != old.cluster_id && now.token != old.token);
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"], "names are never used again");
    assert_eq!(now.authority, old.authority, "R19");
    let present = now.incarnation.as_ref().expect("it is recorded");
    assert_eq!((present.number, present.first, &present.order), (1, Ordinal(3), &order("back")));
    assert_eq!(Some(present.replaced), old.cluster_id);
    // The same order names a cluster that is not there any more.
    assert!(world.plan().is_settled(), "{:?}", world.plan());
}

/// The members report revision 7, and the raise that is ordered would lead to that.
#[test]
fn a_raise_that_leads_to_no_new_revision_is_made_greater_when_the_order_is_recorded() {
    let mut world = ordered(3);
    world.seen.order.as_mut().unwrap().restore = Ok(Restore { bump: 5, ..snapshot() });
    let recorded = until(&mut world, Step::J1).record.next_incarnation.unwrap().restore;
    assert!(recorded.least_revision() > Revision(1_000_000), "{recorded:?}");
    let mut silent = ordered(3);
    silent.seen.record.restore = Some(Restore { bump: 5_000_000_000, ..snapshot() });
    for member in ["demo-0", "demo-1", "demo-2"] {
        silent.silence(member);
    }
    let recorded = until(&mut silent, Step::J1).record.next_incarnation.unwrap().restore;
    assert!(recorded.least_revision() > Revision(5_000_000_000), "{recorded:?}");
}

#[test]
fn an_order_that_names_another_cluster_id_begins_nothing() {
    let mut world = ordered(3);
    if let Some(order) = &mut world.seen.order {
        order.replaces = ClusterId(0xbad);
    }
    assert!(world.plan().is_settled());
}

/// Makes a world unfit for an order.
type Change<'a> = &'a dyn Fn(&mut World);

#[test]
fn what_refuses_the_snapshot_refuses_it_while_the_members_serve() {
    let of = |world: &mut World, change: &dyn Fn(&mut Restore)| {
        let order = world.seen.order.as_mut().expect("it is ordered");
        change(order.restore.as_mut().expect("it is resolved"));
    };
    let cases: [(Change<'_>, &str); 6] = [
        (
            &|world| of(world, &|restore| restore.version = Some(Version::new(3, 7, 0))),
            "Set spec.version to 3.7 or newer",
        ),
        (
            &|world| of(world, &|restore| restore.bytes = Some(500 << 20)),
            "Raise spec.storageSpec.volumeSizeRequest",
        ),
        (&|world| world.seen.desired.storage.medium = Medium::Memory, "not restored into memory"),
        (&|world| world.resize(0), "at size zero"),
        (
            &|world| {
                world
                    .seen
                    .foreign
                    .insert(ManagedObject::ClientService, "Service default/demo-client".to_owned());
            },
            "Service default/demo-client",
        ),
        (
            &|world| {
                let order = world.seen.order.as_mut().expect("it is ordered");
                order.restore =
                    Err(RestoreFailure::new(RestoreCause::NotReady, "EtcdBackup b is not complete yet"));
            },
            "is not complete yet",
        ),
    ];
    for (change, expected) in cases {
        let mut world = ordered(3);
        change(&mut world);
        let plan = world.plan();
        let why = why_it_waits(&plan).unwrap_or_else(|| panic!("{expected}: it does not wait: {plan:?}"));
        assert!(why.message.contains(expected), "{why}");
        assert_eq!(plan.record.next_incarnation, None, "{expected}");
        assert_ne!(plan.ended_by, Some(Protocol::NewIncarnation), "{expected}: the cluster goes on");
    }
}

#[test]
fn nothing_new_begins_while_a_pod_of_an_old_member_is_left_and_a_late_one_is_named() {
    let mut world = ordered(3);
    world.plan();
    let now = world.now;
    let stuck = world.seen.pods.get_mut(&name("demo-1")).expect("it runs");
    (stuck.terminating, stuck.stops_by, stuck.node) = (true, Some(now), Some("n1".to_owned()));
    for _ in 0..5 {
        let plan = world.plan();
        assert!(!plan.recorded_steps.contains(&Step::J3), "{plan:?}");
        world.carry_out(plan);
    }
    world.now = world.now + Span::seconds(120);
    let plan = world.plan();
    let stays = |waiting: &Waiting| {
        matches!(waiting, Waiting::PodNotTerminated { member, node, .. }
            if *member == name("demo-1") && node.as_deref() == Some("n1"))
    };
    assert!(plan.waiting.iter().any(stays), "{:?}", plan.waiting);
    assert!(plan.effects.is_empty(), "never by force: {:?}", plan.effects);
    // Its kubelet answers, or its Node is deleted.
    world.lose_pod("demo-1");
    until(&mut world, Step::J4);
}

#[test]
fn an_order_that_is_deleted_before_all_members_are_stopped_is_withdrawn_and_later_it_is_carried_out() {
    let mut world = ordered(3);
    let before = world.seen.record.clone();
    until(&mut world, Step::J1);
    world.seen.order = None;
    let plan = until(&mut world, Step::JX);
    assert_eq!(plan.record.next_incarnation, None);
    world.settle();
    assert_eq!(world.seen.record.cluster_id, before.cluster_id);
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);

    let mut world = ordered(3);
    until(&mut world, Step::J3);
    world.seen.order = None;
    world.settle();
    assert_ne!(world.seen.record.cluster_id, before.cluster_id, "it went on from the record");
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"]);
}

#[test]
fn it_goes_on_without_a_quorum_and_ends_a_change_that_is_stuck() {
    let mut world = ordered(3);
    world.silence("demo-0");
    world.silence("demo-1");
    world.settle();
    assert_eq!(world.seen.record.incarnation.as_ref().map(|present| present.number), Some(1));

    let mut world = World::running(3);
    world.resize(4);
    world.plan_that(|plan| plan.record.joining().is_some());
    let plan = world.plan();
    world.carry_out(plan);
    let replaces = world.seen.record.cluster_id.expect("it runs");
    world.seen.order = Some(RestoreOrder { order: order("back"), replaces, restore: Ok(snapshot()) });
    world.settle();
    assert_eq!(world.voters().len(), 4);
    assert!(world.voters().iter().all(|voter| *voter > "demo-3"), "{:?}", world.voters());
}

#[test]
fn while_paused_it_stays_where_it_is_and_no_stopped_member_starts() {
    let mut world = ordered(3);
    world.seen.paused = true;
    assert_eq!(world.plan().record.next_incarnation, None, "it does not begin");
    world.seen.paused = false;
    until(&mut world, Step::J1);
    world.seen.paused = true;
    let plan = world.plan();
    assert!(plan.effects.is_empty() && plan.recorded_steps.is_empty(), "{plan:?}");
    world.seen.paused = false;
    world.settle();
    assert!(world.seen.record.incarnation.is_some());
}

#[test]
fn a_pod_that_a_late_call_creates_for_an_old_member_is_not_asked_and_is_deleted_before_any_other_starts() {
    let mut world = ordered(1);
    let late = world.seen.pods[&name("demo-0")].clone();
    until(&mut world, Step::J4);
    world.seen.pods.insert(name("demo-0"), late);
    let plan = world.plan();
    assert!(world.seen.can_answer().next().is_none());
    let deletes = |effect: &Effect| matches!(effect.as_kube(), Some(KubeEffect::DeletePod { member, .. }) if *member == name("demo-0"));
    assert!(plan.effects.iter().any(deletes), "{:?}", plan.effects);
    world.settle();
    assert_eq!(world.voters(), ["demo-1"]);
}

#[test]
fn a_set_of_one_grows_to_the_size_of_the_spec() {
    let mut world = World::running(3);
    let next = NextIncarnation { members: Some(1), stopped: false, ..next_incarnation(&world) };
    world.seen.order =
        Some(RestoreOrder { order: next.order.clone(), replaces: next.replaces, restore: Ok(snapshot()) });
    world.seen.record.next_incarnation = Some(next);
    let plan = until(&mut world, Step::B1);
    assert_eq!(plan.record.members.len(), 1);
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"]);
}

#[test]
fn r1_another_incarnation_begins_only_by_order_without_any_old_pod_and_with_every_volume_quarantined() {
    let mut world = World::running(3);
    world.observe();
    let begins = |world: &World| may_begin_incarnation(&world.seen, &world.seen.record);
    assert_eq!(begins(&world), Err(Unsafe::NotOrdered));
    world.seen.record.next_incarnation = Some(NextIncarnation { stopped: false, ..next_incarnation(&world) });
    assert_eq!(begins(&world), Err(Unsafe::NotOrdered), "not before they are stopped");
    world.seen.record.next_incarnation =
        Some(NextIncarnation { replaces: ClusterId(0xbad), ..next_incarnation(&world) });
    assert_eq!(begins(&world), Err(Unsafe::NotOrdered), "of another cluster");
    world.seen.record.next_incarnation = Some(next_incarnation(&world));
    assert_eq!(begins(&world), Err(Unsafe::OldMemberRuns(name("demo-0"))));
    let volume = world.seen.volumes[&name("demo-1")].uid.clone();
    let quarantine = KubeEffect::QuarantineVolume {
        member: name("demo-1"),
        volume,
        since: world.now,
        why: QuarantineCause::Superseded,
    };
    assert_eq!(judge(&world, &quarantine), Err(Unsafe::OldMemberRuns(name("demo-0"))));
    world.seen.pods.clear();
    assert_eq!(judge(&world, &quarantine), Ok(()));
    assert_eq!(begins(&world), Err(Unsafe::NotQuarantined(name("demo-0"))));
    let resume = KubeEffect::CreatePod { member: name("demo-0"), boot: Boot::Resume, peers: Vec::new() };
    assert_eq!(judge(&world, &resume), Err(Unsafe::BeingReplaced(name("demo-0"))));
    world.seen.record.next_incarnation = None;
    assert_eq!(judge(&world, &quarantine), Err(Unsafe::NotOrdered));
}

#[test]
fn r1_no_member_of_a_new_incarnation_starts_or_is_ungated_beside_a_pod_of_the_one_before() {
    let mut world = ordered(1);
    let old = world.seen.pods[&name("demo-0")].clone();
    let plan = world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::B4));
    let create =
        plan.effects.iter().find(|effect| effect.step() == Step::B4).and_then(Effect::as_kube).cloned();
    let create = create.expect("it creates the Pod");
    world.seen.record = plan.record.clone();
    assert_eq!(judge(&world, &create), Ok(()));
    world.seen.pods.insert(name("demo-0"), old.clone());
    assert_eq!(judge(&world, &create), Err(Unsafe::OldMemberRuns(name("demo-0"))));
    world.seen.pods.remove(&name("demo-0"));
    world.carry_out(plan);
    world.observe();
    let ungate =
        KubeEffect::UngatePod { member: name("demo-1"), pod: world.seen.pods[&name("demo-1")].uid.clone() };
    assert_eq!(judge(&world, &ungate), Ok(()));
    world.seen.pods.insert(name("demo-0"), old);
    assert_eq!(judge(&world, &ungate), Err(Unsafe::OldMemberRuns(name("demo-0"))));
}

#[test]
fn deletion_on_the_way_keeps_the_data_of_the_old_members_and_not_what_was_never_served() {
    let mut world = ordered(1);
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::B4));
    world.seen.deleting = true;
    world.settle();
    let left: Vec<&str> = world.seen.volumes.keys().map(quorate_model::MemberName::as_str).collect();
    assert_eq!(left, ["demo-0"]);
}

#[test]
fn an_attempt_of_the_new_incarnation_that_is_given_up_leaves_the_old_volumes_alone() {
    let mut world = ordered(1);
    world.plan_that(|plan| plan.effects.iter().any(|effect| effect.step() == Step::B4));
    world.resize(3);
    world.settle();
    assert_eq!(world.voters().len(), 3);
    assert!(world.seen.volumes.contains_key(&name("demo-0")), "{:?}", world.seen.volumes.keys());
    assert!(world.seen.record.restore.is_some(), "the same snapshot");
    let present: Option<&Incarnation> = world.seen.record.incarnation.as_ref();
    assert_eq!(present.map(|present| present.number), Some(1));
    let lost = Record::default();
    assert!(!lost.is_of_earlier_incarnation(Ordinal(0)));
}

#[test]
fn without_one_of_these_checks_nothing_else_refuses_what_it_is_for() {
    let mut world = World::running(1);
    world.observe();
    let begins = |world: &World| may_begin_incarnation(&world.seen, &world.seen.record);
    // No order, no Pod and no volume is left: nothing but the missing order forbids it.
    let running = world.seen.clone();
    world.seen.pods.clear();
    world.seen.volumes.clear();
    assert_eq!(without("NotOrdered", || begins(&world)), Ok(()));
    // Ordered, and a member still runs.
    world.seen = running.clone();
    world.seen.record.next_incarnation = Some(next_incarnation(&world));
    world.seen.volumes.clear();
    assert_eq!(without("OldMemberRuns", || begins(&world)), Ok(()));
    // Stopped, and its volume could be mounted again.
    world.seen = running.clone();
    world.seen.record.next_incarnation = Some(next_incarnation(&world));
    world.seen.pods.clear();
    assert_eq!(without("NotQuarantined", || begins(&world)), Ok(()));
    // A member that was stopped would start again on its volume.
    let resume = KubeEffect::CreatePod { member: name("demo-0"), boot: Boot::Resume, peers: Vec::new() };
    assert_eq!(judge(&world, &resume), Err(Unsafe::BeingReplaced(name("demo-0"))));
    assert_eq!(without("BeingReplaced", || judge(&world, &resume)), Ok(()));
}
