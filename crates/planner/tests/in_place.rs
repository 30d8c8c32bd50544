//! Another incarnation takes the place of the present one: only by a recorded order that names it, only once every member of it is seen
//! stopped, and with its volumes kept.

use crate::world::{World, describe, name, snapshot};
use quorate_model::effect::{Boot, NotBegun, OrderWait, Successor, Unfit, Unsafe};
use quorate_model::incarnation::{Admission, Admitted, Incarnation, NextIncarnation, Order, RestoreOrder};
use quorate_model::names::Uid;
use quorate_model::record::QuarantineCause;
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use quorate_model::target::Medium;
use quorate_model::{
    AppliedObject, ClockDifference, ClusterId, Effect, KubeEffect, ManagedObject, Ordinal, Plan, Protocol,
    Record, Revision, Span, Step, Version, Waiting,
};
use quorate_planner::View;
use quorate_planner::safety::mutants::without;
use quorate_planner::safety::{Scene, may_begin_incarnation, permits};

fn order(name: &str) -> Order {
    Order::Restore { name: name.to_owned(), uid: Uid::new(format!("uid of {name}")) }
}

/// An EtcdRestore that may begin for an hour, and what it restores was read.
fn orders(world: &World, name: &str, replaces: ClusterId) -> RestoreOrder {
    let until = world.now + Span::seconds(3600);
    RestoreOrder {
        order: order(name),
        replaces,
        restore: Ok(snapshot()),
        until,
        read_until: until,
        admission: Some(Admission { at: until, outcome: Admitted::Yes }),
        backed_up_until: until,
    }
}

/// A cluster that runs, and an EtcdRestore that names it.
fn ordered(size: usize) -> World {
    let mut world = World::running(size);
    let replaces = world.seen.record.cluster_id.expect("it runs");
    world.seen.orders = vec![orders(&world, "back", replaces)];
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

fn why_it_waits(plan: &Plan) -> Option<&NotBegun> {
    plan.waiting.iter().find_map(|waiting| match waiting {
        Waiting::Order(_, OrderWait::NotBegun(why)) => Some(why),
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
fn new_members_wait_for_the_selector_of_the_client_service_and_for_nothing_else_of_it() {
    let fences = |plan: &Plan| {
        let is_it =
            |effect: &Effect| effect.as_kube() == Some(&KubeEffect::Apply(AppliedObject::ClientService));
        plan.effects.iter().any(|effect| effect.step() == Step::B2 && is_it(effect))
    };
    for selects_others in [true, false] {
        let mut world = ordered(3);
        until(&mut world, Step::B1);
        world.seen.client_service = quorate_model::snapshot::Presence::Differs;
        world.seen.client_service_selects_others = selects_others;
        assert_eq!(fences(&world.plan()), selects_others);
        // The API server refuses the form of the spec for good.
        world.seen.client_service_selects_others = false;
        for _ in 0..20 {
            let plan = world.plan();
            world.carry_out(plan);
            if world.seen.record.is_bootstrapped() {
                break;
            }
            world.seen.client_service = quorate_model::snapshot::Presence::Differs;
        }
        assert!(world.seen.record.is_bootstrapped(), "{:?}", world.plan());
    }
}

#[test]
fn a_raise_that_leads_to_no_new_revision_is_made_greater_when_the_order_is_recorded() {
    let mut world = ordered(3);
    world.seen.orders[0].restore = Ok(Restore { bump: 5, ..snapshot() });
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
    if let Some(order) = world.seen.orders.first_mut() {
        order.replaces = ClusterId(0xbad);
    }
    assert!(world.plan().is_settled());
}

#[test]
fn o01_an_order_begins_within_its_deadline_or_never_and_one_that_has_begun_is_carried_to_its_end() {
    let mut world = ordered(3);
    world.seen.orders[0].restore = Err(RestoreFailure::new(RestoreCause::NotReady, "no Secret"));
    assert!(why_it_waits(&world.plan()).is_some());
    // Its cause is mended an hour later.
    world.seen.orders[0].restore = Ok(snapshot());
    world.now = world.seen.orders[0].until;
    let plan = world.plan();
    assert_eq!(
        (plan.record.next_incarnation, plan.waiting.iter().find(|why| why_is_order(why))),
        (None, None)
    );
    let mut world = ordered(3);
    until(&mut world, Step::J1);
    world.now = world.seen.orders[0].until;
    until(&mut world, Step::J4);
}

#[test]
fn o15_an_order_begins_only_while_the_reading_of_its_snapshot_is_fresh() {
    let mut world = ordered(3);
    world.seen.orders[0].read_until = world.now;
    let plan = world.plan();
    assert!(
        plan.waiting.contains(&Waiting::Order(order("back"), OrderWait::ReadAgain)),
        "{:?}",
        plan.waiting
    );
    assert_eq!(plan.record.next_incarnation, None);
    // The time of the reading is the API server's.
    world.seen.clock_differs = Some(ClockDifference::Ahead(Span::seconds(3600)));
    let plan = world.plan();
    assert!(
        !plan.waiting.contains(&Waiting::Order(order("back"), OrderWait::ReadAgain)),
        "{:?}",
        plan.waiting
    );
    world.seen.clock_differs = None;
    // It was read again.
    world.seen.orders[0].read_until = world.now + Span::seconds(1);
    until(&mut world, Step::J1);
    // One that has begun is carried to its end.
    world.seen.orders[0].read_until = world.now;
    until(&mut world, Step::J4);
}

#[test]
fn o05_an_order_begins_only_while_the_backup_of_what_is_given_up_is_fresh() {
    let first = Waiting::Order(order("back"), OrderWait::BackupFirst);
    let mut world = ordered(3);
    world.seen.orders[0].backed_up_until = world.now;
    let plan = world.plan();
    assert!(plan.waiting.contains(&first), "{:?}", plan.waiting);
    assert_eq!(plan.record.next_incarnation, None);
    assert!(plan.effects.is_empty(), "{:?}", plan.effects);
    // The snapshot is read again once there is the backup, so that this counts for as long as can be.
    world.seen.orders[0].read_until = world.now;
    assert!(world.plan().waiting.contains(&first));
    world.seen.orders[0].backed_up_until = world.now + Span::seconds(1);
    assert!(world.plan().waiting.contains(&Waiting::Order(order("back"), OrderWait::ReadAgain)));
    // None is taken for an order that is refused.
    world.seen.orders[0].backed_up_until = world.now;
    world.seen.orders[0].restore = Ok(Restore { version: Some(Version::new(3, 7, 0)), ..snapshot() });
    let plan = world.plan();
    assert!(why_it_waits(&plan).is_some() && !plan.waiting.contains(&first), "{:?}", plan.waiting);
    // It is there.
    world.seen.orders = vec![orders(&world, "back", world.seen.record.cluster_id.unwrap())];
    until(&mut world, Step::J1);
    // An order that has begun is carried to its end.
    world.seen.orders[0].backed_up_until = world.now;
    until(&mut world, Step::J4);
}

#[test]
fn o03_an_order_begins_only_if_the_api_server_would_admit_new_members_now() {
    let mut world = ordered(3);
    world.seen.orders[0].admission = None;
    let plan = world.plan();
    let rehearsal = plan.rehearsal.clone().expect("it is asked");
    assert_eq!((plan.record.next_incarnation, &rehearsal.of), (None, &Successor::Incarnation(order("back"))));
    let texts: Vec<String> = rehearsal.effects.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("demo-3")), "the first new name: {texts:?}");
    assert!(
        rehearsal
            .effects
            .iter()
            .any(|effect| matches!(effect, KubeEffect::CreatePod { boot: Boot::Restore, .. }))
    );
    assert!(plan.effects.is_empty(), "nothing is stopped: {:?}", plan.effects);
    // What it refuses is reported, and nothing else is asked for: no backup, no reading.
    let says = |world: &mut World, outcome: Admitted| {
        world.seen.orders[0].admission = Some(Admission { at: world.now, outcome });
        world.seen.orders[0].backed_up_until = world.now;
        let plan = world.plan();
        assert_eq!((plan.record.next_incarnation.clone(), plan.rehearsal.clone()), (None, None));
        assert!(
            !plan.waiting.contains(&Waiting::Order(order("back"), OrderWait::BackupFirst)),
            "{:?}",
            plan.waiting
        );
        why_it_waits(&plan).expect("it waits").clone()
    };
    let refused = says(&mut world, Admitted::No("exceeded quota: small".to_owned()));
    assert_eq!(refused.cause(), RestoreCause::Refused);
    assert_eq!(refused, NotBegun::NotAdmitted("exceeded quota: small".to_owned()));
    assert_eq!(says(&mut world, Admitted::Unknown("no answer".to_owned())).cause(), RestoreCause::NotReady);
    // A moment ago is not now.
    let mut world = ordered(3);
    world.seen.orders[0].admission = Some(Admission { at: world.now, outcome: Admitted::Yes });
    world.now = world.now + Span::seconds(60);
    let plan = world.plan();
    assert!(plan.rehearsal.is_some() && plan.record.next_incarnation.is_none(), "{:?}", plan.waiting);
    // Nothing is asked for an order that waits for something else, or without one.
    world.seen.orders[0].restore = Err(RestoreFailure::new(RestoreCause::NotReady, "no Secret"));
    assert_eq!(world.plan().rehearsal, None);
    world.seen.orders.clear();
    assert_eq!(world.plan().rehearsal, None);
}

fn why_is_order(waiting: &Waiting) -> bool {
    matches!(waiting, Waiting::Order(_, OrderWait::NotBegun(_)))
}

#[test]
fn o01_the_deadline_of_an_order_counts_by_the_clock_that_wrote_its_creation() {
    let day = Span::seconds(86_400);
    for (differs, is_in_time) in [(ClockDifference::Behind(day), false), (ClockDifference::Ahead(day), true)]
    {
        let mut world = ordered(3);
        // By the operator's clock it is the other way round.
        world.seen.orders[0].until =
            if is_in_time { world.now.before(Span::seconds(60)) } else { world.now + Span::seconds(60) };
        world.seen.orders[0].read_until = world.now + day + day;
        world.seen.clock_differs = Some(differs);
        if is_in_time {
            until(&mut world, Step::J1);
        } else {
            let plan = world.plan();
            assert!(why_it_waits(&plan).is_none() && plan.record.next_incarnation.is_none());
        }
    }
}

/// All members are down by then. A restore that waited for a person to set a clock would leave them so.
#[test]
fn m08_a_restore_in_place_that_has_begun_goes_on_while_the_clocks_differ() {
    for differs in [ClockDifference::Behind(Span::seconds(3600)), ClockDifference::Ahead(Span::seconds(3600))]
    {
        let mut world = ordered(3);
        until(&mut world, Step::J2);
        world.seen.clock_differs = Some(differs);
        until(&mut world, Step::J4);
    }
}

#[test]
fn o01_an_order_that_is_not_ready_does_not_hold_up_a_newer_one_that_is() {
    let mut world = ordered(3);
    let newer = orders(&world, "newer", world.seen.orders[0].replaces);
    world.seen.orders.push(newer.clone());
    let not_ready = Err(RestoreFailure::new(RestoreCause::NotReady, "no Secret"));
    world.seen.orders[0].restore = not_ready.clone();
    world.seen.orders[1].restore = not_ready;
    let plan = world.plan();
    assert_eq!(plan.waiting.iter().filter(|why| why_is_order(why)).count(), 2, "{:?}", plan.waiting);
    world.seen.orders[1] = newer;
    let plan = until(&mut world, Step::J1);
    assert_eq!(plan.record.next_incarnation.map(|next| next.order), Some(order("newer")));
    until(&mut world, Step::J4);
}

/// Makes a world unfit for an order.
type Change<'a> = &'a dyn Fn(&mut World);

#[test]
fn what_refuses_the_snapshot_refuses_it_while_the_members_serve() {
    let of = |world: &mut World, change: &dyn Fn(&mut Restore)| {
        let order = world.seen.orders.first_mut().expect("it is ordered");
        change(order.restore.as_mut().expect("it is resolved"));
    };
    let cases: [(Change<'_>, &str); 6] = [
        (
            &|world| of(world, &|restore| restore.version = Some(Version::new(3, 7, 0))),
            "Unfit(OlderThan(Version { major: 3, minor: 7, patch: 0",
        ),
        (
            &|world| of(world, &|restore| restore.bytes = Some(500 << 20)),
            "Unfit(VolumeTooSmall { bytes: 524288000",
        ),
        (&|world| world.seen.desired.storage.medium = Medium::Memory, "Unfit(Memory)"),
        (&|world| world.resize(0), "SizeZero"),
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
                let order = world.seen.orders.first_mut().expect("it is ordered");
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
        assert!(format!("{why:?}").contains(expected), "{why:?}");
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
        matches!(waiting, Waiting::PodStopsLate { member, node }
            if *member == name("demo-1") && node.as_deref() == Some("n1"))
    };
    assert!(plan.waiting.iter().any(stays), "{:?}", plan.waiting);
    assert!(plan.effects.is_empty(), "never by force: {:?}", plan.effects);
    // Its kubelet answers, or its Node is deleted.
    world.lose_pod("demo-1");
    until(&mut world, Step::J4);
}

/// Kubernetes shows the Pod of a node that does not answer until its kubelet confirms the stop, or the Node is deleted or out of service.
#[test]
fn o03_new_members_begin_only_when_the_kubelet_or_the_end_of_its_node_has_ended_each_old_pod() {
    let mut world = ordered(3);
    world.plan();
    let now = world.now;
    let left = world.seen.pods.get_mut(&name("demo-1")).expect("it runs");
    (left.terminating, left.stops_by, left.node) = (true, Some(now), Some("n1".to_owned()));
    for _ in 0..5 {
        let plan = world.plan();
        world.carry_out(plan);
    }
    assert_eq!(world.seen.pods.keys().collect::<Vec<_>>(), [&name("demo-1")]);
    // Hours after its grace period nothing has changed, and nothing is done by force or given up.
    world.now = world.now + Span::seconds(6 * 3600);
    let plan = world.plan();
    let named = |waiting: &Waiting| {
        matches!(waiting, Waiting::PodStopsLate { member, node }
            if *member == name("demo-1") && node.as_deref() == Some("n1"))
    };
    assert!(plan.waiting.iter().any(named), "{:?}", plan.waiting);
    assert!(plan.effects.is_empty() && plan.recorded_steps.is_empty(), "{plan:?}");
    assert!(plan.record.next_incarnation.as_ref().is_some_and(|next| !next.stopped), "it can be withdrawn");
    assert!(may_begin_incarnation(View { record: &plan.record, ..world.view() }).is_err());
    world.lose_pod("demo-1");
    until(&mut world, Step::J4);
}

#[test]
fn an_order_that_is_deleted_before_all_members_are_stopped_is_withdrawn_and_later_it_is_carried_out() {
    let mut world = ordered(3);
    let before = world.seen.record.clone();
    until(&mut world, Step::J1);
    world.seen.orders.clear();
    let plan = until(&mut world, Step::JX);
    assert_eq!(plan.record.next_incarnation, None);
    world.settle();
    assert_eq!(world.seen.record.cluster_id, before.cluster_id);
    assert_eq!(world.voters(), ["demo-0", "demo-1", "demo-2"]);

    let mut world = ordered(3);
    until(&mut world, Step::J3);
    world.seen.orders.clear();
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
    world.seen.orders = vec![orders(&world, "back", replaces)];
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
    world.seen.orders = vec![orders(&world, "back", next.replaces)];
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
    let begins = |world: &World| may_begin_incarnation(world.view());
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
    let begins = |world: &World| may_begin_incarnation(world.view());
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

#[test]
fn o03_in_place_one_member_is_restored_from_a_claim_and_the_others_join_it() {
    let mut world = ordered(3);
    world.seen.orders[0].restore = Ok(Restore { url: "pvc://backups/1".to_owned(), ..snapshot() });
    until(&mut world, Step::J4);
    until(&mut world, Step::B1);
    assert_eq!(world.seen.record.members.keys().collect::<Vec<_>>(), [&name("demo-3")]);
    world.settle();
    assert_eq!(world.voters(), ["demo-3", "demo-4", "demo-5"]);
}

#[test]
fn o03_a_snapshot_with_auth_stops_no_member_of_a_cluster_without_certificates() {
    let mut world = ordered(3);
    let with_auth = Restore { auth: Some(true), ..snapshot() };
    world.seen.orders[0].restore = Ok(with_auth.clone());
    world.seen.desired.tls = false;
    let plan = world.plan();
    assert_eq!(plan.record.next_incarnation, None);
    let why = why_it_waits(&plan).expect("it is refused");
    assert_eq!(*why, NotBegun::Unfit(Unfit::AuthWithoutTls));
    for (restore, tls) in
        [(with_auth, true), (Restore { auth: Some(false), ..snapshot() }, false), (snapshot(), false)]
    {
        world.seen.orders[0].restore = Ok(restore);
        world.seen.desired.tls = tls;
        assert!(world.plan().record.next_incarnation.is_some(), "{tls}");
    }
}

/// The way back, as docs/restore.md has it.
#[test]
fn o13_it_is_recorded_that_data_which_gave_way_were_taken_back_until_they_give_way_again() {
    let mut world = ordered(3);
    let old = world.cluster_id.unwrap();
    until(&mut world, Step::J4);
    world.settle();
    world.seen.orders.clear();
    assert!(!world.seen.record.taken_back);
    world.recreate("uid-2");
    world.seen.volumes.retain(|_, volume| volume.quarantine.is_some());
    for volume in world.seen.volumes.values_mut() {
        volume.quarantine = None;
    }
    world.seen.adopt = Some(old);
    let plan = world.plan();
    assert_eq!((plan.record.cluster_id, plan.record.taken_back), (Some(old), true));
}

#[test]
fn l15_an_order_that_waits_for_claims_that_nobody_replaces_says_how_to_order_that() {
    for enabled in [true, false] {
        let mut world = ordered(3);
        world.seen.replacement_policy.enabled = enabled;
        world.seen.volumes.get_mut(&name("demo-1")).expect("it has a volume").terminating = true;
        let why = format!("{:?}", why_it_waits(&world.plan()).expect("it waits"));
        assert_eq!(why.contains("member: demo-1"), !enabled, "{why}");
    }
}
