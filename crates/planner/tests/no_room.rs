//! A voter that has no room for the snapshot that it needs: who is replaced for that, and who is not.

use crate::replace::{GRACE, adds, nothing_is_given_up};
use crate::world::{World, name};
use quorate_model::record::{Loss, ReplacementEnd};
use quorate_model::snapshot::Database;
use quorate_model::{Span, Waiting};

/// All have a volume of 2 GiB and a database of this many MiB, and demo-1 was away for more entries than its leader keeps.
fn without_room_for_a_snapshot(database: u64) -> World {
    let mut world = World::running(3);
    world.settle();
    fall_behind(&mut world, database);
    world
}

fn fall_behind(world: &mut World, database: u64) {
    world.sees_commits = true;
    world.hang("demo-1");
    world.committed += 6_000;
    world.seen.desired.storage.bytes = 2 << 30;
    world.seen.record.target.as_mut().unwrap().storage.bytes = 2 << 30;
    let database = Database { size: database << 20, in_use: database << 20, quota: Some(1200 << 20) };
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.databases.insert(name(member), database);
        let volume = world.seen.volumes.get_mut(&name(member)).unwrap();
        (volume.capacity, volume.bytes) = (Some(2 << 30), 2 << 30);
    }
}

/// Its data are there: they are only too old.
#[test]
fn m02_a_learner_that_makes_way_for_one_without_room_for_a_snapshot_does_not_say_that_data_are_gone() {
    let mut world = World::running(3);
    world.settle();
    world.resize(4);
    let joins = world.plan_that(adds);
    world.carry_out(joins);
    world.silence("demo-3");
    fall_behind(&mut world, 1000);
    nothing_is_given_up(&mut world, Span::seconds(660));
    let says = |waiting: &Waiting| match waiting {
        Waiting::SafePoint(why) if why.starts_with("demo-3 makes way") => Some(why.clone()),
        _ => None,
    };
    let plan = world.plan_that(|plan| plan.waiting.iter().any(|waiting| says(waiting).is_some()));
    let why = plan.waiting.iter().find_map(says);
    let expected = "demo-3 makes way: demo-1 cannot catch up, and it is replaced first";
    assert_eq!(why.as_deref(), Some(expected));
}

fn loss_of(world: &World, member: &str) -> Option<Loss> {
    world.seen.record.suspected.get(&name(member)).map(|suspected| suspected.loss)
}

#[test]
fn m02_a_voter_that_has_no_room_for_the_snapshot_that_it_needs_is_replaced() {
    let mut world = without_room_for_a_snapshot(1000);
    // However short the grace period is: it may have been restarted just now.
    world.seen.replacement_policy.grace = Span::seconds(0);
    nothing_is_given_up(&mut world, Span::seconds(640));
    assert_eq!(loss_of(&world, "demo-1"), Some(Loss::NoRoomForSnapshot));
    world.now = world.now + Span::seconds(60);
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
    let last = world.seen.record.last_replacement.clone().unwrap();
    assert_eq!((last.member, last.end), (name("demo-1"), ReplacementEnd::Succeeded), "{story}");
    assert!(world.seen.volumes[&name("demo-1")].quarantine.is_some(), "{story}");
}

#[test]
fn m02_one_that_is_slow_hangs_is_cut_off_or_has_the_room_is_not_replaced() {
    let long = Span(2 * GRACE.0 + 60_000);
    let mut with_room = without_room_for_a_snapshot(700);
    nothing_is_given_up(&mut with_room, long);
    assert_eq!(loss_of(&with_room, "demo-1"), None);

    let mut near = without_room_for_a_snapshot(1000);
    near.committed -= 2_000;
    nothing_is_given_up(&mut near, long);
    assert_eq!(loss_of(&near, "demo-1"), None, "its leader still has the entries");

    let mut cut_off = without_room_for_a_snapshot(1000);
    cut_off.cut_from_peers.insert(name("demo-1"));
    nothing_is_given_up(&mut cut_off, long);
    assert_eq!(loss_of(&cut_off, "demo-1"), None);

    let mut hung = without_room_for_a_snapshot(1000);
    hung.seen.pods.get_mut(&name("demo-1")).unwrap().ready = false;
    nothing_is_given_up(&mut hung, long);
    assert_eq!(loss_of(&hung, "demo-1"), None, "its volume may hang");

    // It applies an entry now and then, with what it has of the log: it is slow.
    let mut slow = without_room_for_a_snapshot(1000);
    let end = slow.now + long;
    while slow.now < end {
        *slow.hung.get_mut(&name("demo-1")).unwrap() += 1;
        slow.committed += 3;
        nothing_is_given_up(&mut slow, Span::seconds(50));
    }
    assert_eq!(loss_of(&slow, "demo-1"), None);

    let mut off = without_room_for_a_snapshot(1000);
    off.seen.replacement_policy.enabled = false;
    nothing_is_given_up(&mut off, long);
    assert_eq!(loss_of(&off, "demo-1"), Some(Loss::NoRoomForSnapshot), "it is reported");
}

#[test]
fn m02_one_that_catches_up_or_whose_volume_grew_is_not_replaced() {
    let mut caught_up = without_room_for_a_snapshot(1000);
    nothing_is_given_up(&mut caught_up, GRACE);
    assert_eq!(loss_of(&caught_up, "demo-1"), Some(Loss::NoRoomForSnapshot));
    // The operator is restarted: what is not known shows nothing.
    caught_up.forget_what_passes_remember();
    caught_up.sees_commits = false;
    let plan = caught_up.plan();
    assert!(plan.record.suspected.contains_key(&name("demo-1")));
    caught_up.sees_commits = true;
    caught_up.hung.clear();
    nothing_is_given_up(&mut caught_up, Span::seconds(120));
    assert_eq!(loss_of(&caught_up, "demo-1"), None);

    let mut grown = without_room_for_a_snapshot(1000);
    nothing_is_given_up(&mut grown, GRACE);
    grown.seen.volumes.get_mut(&name("demo-1")).unwrap().capacity = Some(4 << 30);
    nothing_is_given_up(&mut grown, GRACE);
    assert_eq!(loss_of(&grown, "demo-1"), None);
}

#[test]
fn m02_one_is_not_replaced_where_a_new_volume_has_no_room_for_the_database_either() {
    let mut world = without_room_for_a_snapshot(1600);
    nothing_is_given_up(&mut world, Span(2 * GRACE.0 + 60_000));
    assert_eq!(loss_of(&world, "demo-1"), None);
    world.observe();
    let why = world.seen.why_unhealthy(&name("demo-1"), world.now).unwrap();
    for what in ["not replaced", "volumeSizeRequest", "3908Mi"] {
        assert!(why.contains(what), "{what}: {why}");
    }
    // The class does not expand volumes: the new one has the new size.
    world.seen.desired.storage.bytes = 5 << 30;
    world.seen.record.target.as_mut().unwrap().storage.bytes = 5 << 30;
    nothing_is_given_up(&mut world, Span::seconds(60));
    world.now = world.now + Span(2 * GRACE.0);
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
}

#[test]
fn m02_nobody_is_replaced_for_lack_of_room_while_another_voter_is_silent() {
    let mut world = without_room_for_a_snapshot(1000);
    world.silence("demo-2");
    nothing_is_given_up(&mut world, Span(3 * GRACE.0));
}
