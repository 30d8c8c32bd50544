//! A voter that has no room for the snapshot that it needs: its data are right, and only too old, so a person decides.

use crate::replace::{GRACE, nothing_is_given_up};
use crate::world::{World, name};
use quorate_model::Span;
use quorate_model::record::ReplacementEnd;
use quorate_model::snapshot::{Database, Sick};

/// All have a volume of 2 GiB and a database of 1000 MiB, and demo-1 was away for more entries than its leader keeps.
fn without_room_for_a_snapshot() -> World {
    let mut world = World::running(3);
    world.settle();
    world.sees_commits = true;
    world.hang("demo-1");
    world.committed += 6_000;
    world.seen.desired.storage.bytes = 2 << 30;
    world.seen.record.target.as_mut().unwrap().storage.bytes = 2 << 30;
    let database = Database { size: 1000 << 20, in_use: 1000 << 20, quota: Some(1200 << 20) };
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.databases.insert(name(member), database);
        let volume = world.seen.volumes.get_mut(&name(member)).unwrap();
        (volume.capacity, volume.bytes) = (Some(2 << 30), 2 << 30);
    }
    world
}

#[test]
fn m02_a_voter_that_has_no_room_for_the_snapshot_that_it_needs_says_so_and_is_replaced_on_order_only() {
    let mut world = without_room_for_a_snapshot();
    nothing_is_given_up(&mut world, Span(2 * GRACE.0 + 60_000));
    assert!(world.seen.record.suspected.is_empty());
    world.observe();
    let why = world.seen.why_unhealthy(&name("demo-1"), world.now).unwrap();
    assert!(
        matches!(&why, Sick::FarBehind(Some(no_room)) if no_room.order.member == name("demo-1")),
        "{why:?}"
    );
    world.seen.replace_member = Some(name("demo-1"));
    let story = world.settle();
    assert_eq!(world.voters(), ["demo-0", "demo-2", "demo-3"], "{story}");
    let last = world.seen.record.last_replacement.clone().unwrap();
    assert_eq!((last.member, last.end), (name("demo-1"), ReplacementEnd::Succeeded), "{story}");
    assert!(world.seen.volumes[&name("demo-1")].quarantine.is_some(), "{story}");
}
