//! Every history of small scopes: what is due, and at every moment every departure while the number of departures lasts.

mod existing;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::json;

use crate::world::{Departure, Property, Setup, World};
pub use existing::shared;

/// A departure, after so many steps.
pub type Depart = (usize, Departure);

/// How a history went wrong, and how to see it again.
#[derive(Debug)]
pub struct Found {
    pub violation: (Property, String),
    pub departures: Vec<Depart>,
}

/// What was explored.
#[derive(Clone, Copy, Debug, Default)]
pub struct Explored {
    pub states: usize,
    pub ends: usize,
}

/// Explores a scope; the first violation ends it.
pub fn explore(
    setup: &Setup,
    departures: u32,
    may: fn(&Departure) -> bool,
    most: usize,
) -> Result<Explored, Box<Found>> {
    let mut explored = Explored::default();
    let mut known: HashMap<u64, u32> = HashMap::new();
    let mut open = vec![(World::new(setup.clone()), departures, Vec::new(), 0)];
    while let Some((mut world, left, path, mut depth)) = open.pop() {
        loop {
            match known.entry(world.fingerprint()) {
                Entry::Occupied(met) if *met.get() >= left => break,
                Entry::Occupied(mut met) => drop(met.insert(left)),
                Entry::Vacant(free) => drop(free.insert(left)),
            }
            explored.states = known.len();
            assert!(explored.states < most, "more states than {most}");
            let offers = if left > 0 { world.offers() } else { Vec::new() };
            for what in offers.into_iter().filter(&may) {
                let mut other = world.clone();
                if other.happen(&what) {
                    let mut path: Vec<Depart> = path.clone();
                    path.push((depth, what));
                    fail(&other, &path)?;
                    open.push((other, left - 1, path, depth));
                }
            }
            let goes = world.go();
            depth += 1;
            fail(&world, &path)?;
            if !goes {
                explored.ends += 1;
                break;
            }
        }
    }
    Ok(explored)
}

fn fail(world: &World, path: &[Depart]) -> Result<(), Box<Found>> {
    match world.violation() {
        None => Ok(()),
        Some(violation) => Err(Box::new(Found { violation: violation.clone(), departures: path.to_vec() })),
    }
}

/// The story of a history.
pub fn replay(setup: &Setup, departures: &[Depart]) -> World {
    let mut world = World::new(setup.clone());
    world.story = Some(Vec::new());
    let mut step = 0;
    loop {
        for (_, what) in departures.iter().filter(|(at, _)| *at == step) {
            world.happen(what);
        }
        if !world.go() {
            return world;
        }
        step += 1;
    }
}

impl Found {
    /// What happened, one line a step.
    pub fn story(&self, setup: &Setup) -> String {
        let world = replay(setup, &self.departures);
        let story = world.story.unwrap_or_default();
        let last = &story[story.len().saturating_sub(80)..];
        format!("{:?}\n{setup:?}\n{:?}\n{}", self.violation, self.departures, last.join("\n"))
    }
}

pub fn keep_last() -> Setup {
    Setup {
        retention: json!({"keepLast": 1}),
        policy: "Delete",
        tested: false,
        warm: 2,
        times: 1,
        rogue: false,
        shared: false,
        order: None,
        versioned: false,
        blind: None,
    }
}

#[track_caller]
fn explored(name: &str, setup: &Setup, departures: u32, may: fn(&Departure) -> bool) {
    let begun = std::time::Instant::now();
    match explore(setup, departures, may, 3_000_000) {
        Ok(Explored { states, ends }) => {
            println!(
                "explored {name} with {departures} departures: states {states} ends {ends} in {:?}",
                begun.elapsed()
            );
        }
        Err(found) => panic!("{name}: {}", found.story(setup)),
    }
}

#[test]
fn nothing_departs() {
    explored("nothing", &keep_last(), 0, |_| true);
}

/// One departure of any kind.
#[test]
fn what_keeps_the_last_one() {
    explored("keepLast", &keep_last(), 1, |_| true);
}

#[test]
fn what_keeps_by_age() {
    explored("maxAge", &Setup { retention: json!({"maxAge": "150m"}), warm: 4, ..keep_last() }, 1, |_| true);
}

#[test]
fn objects_that_are_retained() {
    explored("Retain", &Setup { policy: "Retain", ..keep_last() }, 1, |_| true);
}

#[test]
fn restore_tests() {
    explored("tested", &Setup { tested: true, ..keep_last() }, 1, |_| true);
}

/// Whatever is proposed, the gate keeps all properties of what is deleted.
#[test]
fn everything_is_proposed() {
    explored("rogue", &Setup { rogue: true, ..keep_last() }, 1, |_| true);
}

/// Two departures of the operator itself.
#[test]
fn the_operator_departs_twice() {
    explored("operator", &keep_last(), 2, |what| {
        matches!(what, Departure::Crash | Departure::Reply(_) | Departure::Stale(..) | Departure::Held)
    });
}

/// Two departures of the store and of those who use it.
#[test]
fn the_store_departs_twice() {
    let kept = Setup { retention: json!({"keepLast": 3}), warm: 3, ..keep_last() };
    explored("store", &kept, 2, |what| {
        matches!(
            what,
            Departure::Vanish(_)
                | Departure::Swap
                | Departure::Keep(1)
                | Departure::Away(_)
                | Departure::Credentials(_)
        )
    });
}
