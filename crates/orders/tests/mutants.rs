//! The checks of the gate, taken away one by one: without each, a history of the world violates the property that it is for. Some hold only
//! against a wrong proposal, since what is due proposes nothing of the kind: there whoever proposes proposes everything.

use quorate_orders::gate::Unsafe;
use quorate_orders::gate::mutants::without;
use serde_json::json;

use crate::explore::{explore, keep_last, shared};
use crate::world::{Blind, Departure, Forged, Order, Planted, Property, Setup, Which, WhoseClock};

/// A check, and the scope in which it is needed.
struct Needed {
    check: &'static str,
    violates: &'static [Property],
    setup: Setup,
    may: fn(&Departure) -> bool,
    departures: u32,
}

fn needed(
    check: &'static str,
    violates: &'static [Property],
    setup: Setup,
    departures: u32,
    may: fn(&Departure) -> bool,
) -> Needed {
    Needed { check, violates, setup, may, departures }
}

fn all() -> Vec<Needed> {
    use Property::{
        ClocksAgree, LastGoodStays, NotInUse, NothingLeft, NothingToRemove, OneATime, OnlyItsOwn,
        RemovedByOrder, RulesHold,
    };
    let rogue = || Setup { rogue: true, ..keep_last() };
    let aged = || Setup { retention: json!({"maxAge": "150m"}), warm: 5, times: 1, ..keep_last() };
    let kept = || Setup { retention: json!({"keepLast": 5}), ..keep_last() };
    let retained = || Setup { policy: "Retain", ..keep_last() };
    let none = |_: &Departure| false;
    vec![
        needed("NotOfSchedule", &[OnlyItsOwn], rogue(), 1, |what| {
            matches!(what, Departure::Forge(Forged::Copy))
        }),
        needed("Resting", &[RulesHold], rogue(), 1, |what| matches!(what, Departure::Suspend)),
        needed("NotEnded", &[NotInUse], rogue(), 0, none),
        needed("InUse", &[NotInUse], keep_last(), 1, |what| matches!(what, Departure::Need(_))),
        needed("LastGood", &[LastGoodStays], rogue(), 0, none),
        needed("KeeperNotThere", &[LastGoodStays], keep_last(), 1, |what| {
            matches!(what, Departure::Delete(_))
        }),
        needed("KeeperNotSeen", &[LastGoodStays], kept(), 2, |what| {
            matches!(what, Departure::Vanish(Which::Newest) | Departure::Keep(1))
        }),
        needed("ClockDiffers", &[ClocksAgree], keep_last(), 1, |what| matches!(what, Departure::Clock(..))),
        needed("CountedYounger", &[OneATime], aged(), 1, |what| matches!(what, Departure::Clock(..))),
        needed("NotDeleted", &[RemovedByOrder], rogue(), 0, none),
        needed("Retained", &[RemovedByOrder], retained(), 1, |what| matches!(what, Departure::Delete(_))),
        needed("NotBegun", &[NothingToRemove], keep_last(), 1, |what| matches!(what, Departure::Delete(_))),
        needed("StillWritten", &[NothingLeft], keep_last(), 2, |what| {
            matches!(what, Departure::Delete(Which::Last) | Departure::PodWrites)
        }),
        needed("StillNeeded", &[NotInUse], keep_last(), 2, |what| {
            matches!(what, Departure::Delete(Which::Newest) | Departure::Need(Which::Newest))
        }),
        // What stands for an object, and what a restore names by its place.
        needed("NotOfSchedule", &[OnlyItsOwn], Setup { rogue: true, ..shared(None) }, 1, |what| {
            matches!(what, Departure::Forge(Forged::Standing))
        }),
        needed("Retained", &[RemovedByOrder], shared(None), 2, |what| {
            matches!(what, Departure::Forge(Forged::Standing) | Departure::Delete(Which::Standing))
        }),
        needed("InUse", &[NotInUse], shared(Some(Order::RestoreSource)), 0, none),
        needed("StillNeeded", &[NotInUse], shared(Some(Order::RestoreSource)), 1, |what| {
            matches!(what, Departure::Delete(Which::Oldest))
        }),
    ]
}

#[test]
fn every_check_of_the_gate_is_needed_by_a_history_and_with_it_there_is_none() {
    let all = all();
    for check in Unsafe::NAMES {
        assert!(all.iter().any(|needed| needed.check == *check), "no history needs {check}");
    }
    for Needed { check, violates, setup, may, departures } in all {
        let explored = |setup: &Setup| explore(setup, departures, may, 400_000);
        // Those with one departure are part of what is explored with all departures.
        if departures > 1
            && let Err(found) = explored(&setup)
        {
            panic!("with {check}: {}", found.story(&setup));
        }
        let found = without(check, || explored(&setup)).expect_err(check);
        println!("without {check}: {:?} by {:?}", found.violation, found.departures);
        assert!(violates.contains(&found.violation.0), "without {check}: {}", found.story(&setup));
    }
}

/// A check of who reads the store, or of a controller, and the scope in which it is needed.
struct Read {
    check: Blind,
    violates: Property,
    setup: Setup,
    departures: u32,
    may: fn(&Departure) -> bool,
}

fn read(
    check: Blind,
    violates: Property,
    setup: Setup,
    departures: u32,
    may: fn(&Departure) -> bool,
) -> Read {
    Read { check, violates, setup, departures, may }
}

/// What these check is code of Jobs and controllers, which the world has by heart. So what is shown is that each property can be violated, and
/// by what.
fn all_read() -> Vec<Read> {
    use Property::{
        CatalogOwn, CatalogWhole, FindsNewest, FoundOnce, OneEach, RestoresOwn, StandsForOwn, VersionsStay,
    };
    let latest = || shared(Some(Order::Latest));
    let is_neighbor = |what: &Departure| {
        matches!(what, Departure::Forge(Forged::Neighbor) | Departure::Order(Order::Latest))
    };
    let lost = || Setup { policy: "Retain", ..shared(Some(Order::CatalogAfterLoss)) };
    vec![
        read(Blind::Signature, StandsForOwn, latest(), 1, |what| {
            matches!(what, Departure::Plant(Planted::Forged))
        }),
        read(Blind::Signature, CatalogOwn, lost(), 1, |what| {
            matches!(what, Departure::Plant(Planted::Forged))
        }),
        read(Blind::Key, StandsForOwn, latest(), 2, |what| {
            matches!(what, Departure::Plant(Planted::Copied) | Departure::Vanish(Which::Newest))
        }),
        read(Blind::Name, StandsForOwn, shared(None), 2, is_neighbor),
        read(Blind::Id, StandsForOwn, shared(None), 2, |what| {
            matches!(what, Departure::Forge(Forged::Neighbor) | Departure::Order(Order::LatestOfId))
        }),
        read(Blind::Beside, StandsForOwn, latest(), 1, |what| {
            matches!(what, Departure::Plant(Planted::SharedKey))
        }),
        read(Blind::Half, StandsForOwn, latest(), 1, |what| matches!(what, Departure::Halve(_))),
        read(Blind::Revision, FindsNewest, shared(None), 2, |what| {
            matches!(what, Departure::Clock(WhoseClock::Nodes, ..0) | Departure::Order(Order::Latest))
        }),
        read(Blind::Bytes, RestoresOwn, shared(Some(Order::RestoreLatest)), 1, |what| {
            matches!(what, Departure::Rewrite(Which::Newest))
        }),
        read(Blind::Version, VersionsStay, Setup { versioned: true, ..shared(None) }, 1, |what| {
            matches!(what, Departure::Rewrite(_))
        }),
        read(Blind::Current, FoundOnce, latest(), 2, |what| {
            matches!(what, Departure::Held | Departure::Away(_))
        }),
        read(Blind::Others, OneEach, shared(Some(Order::Catalog)), 0, |_| false),
        read(Blind::PageFirst, CatalogWhole, lost(), 1, |what| matches!(what, Departure::Crash)),
    ]
}

#[test]
fn what_holds_of_objects_that_are_there_is_violated_without_a_check() {
    for Read { check, violates, setup, departures, may } in all_read() {
        if let Err(found) = explore(&setup, departures, may, 400_000) {
            panic!("with {check:?}: {}", found.story(&setup));
        }
        let setup = Setup { blind: Some(check), ..setup };
        let found = explore(&setup, departures, may, 400_000).expect_err(&format!("{check:?}"));
        println!("without {check:?}: {:?} by {:?}", found.violation, found.departures);
        assert_eq!(violates, found.violation.0, "without {check:?}: {}", found.story(&setup));
    }
}
