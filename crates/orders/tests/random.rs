//! Histories at random, by seeds: more times of the schedule and more departures than can be explored.

use serde_json::json;

use crate::explore::{Found, keep_last};
use crate::world::{Departure, Setup, WhoseClock, World};

/// So many histories of each scope. A twentieth of `QUORATE_TEST_HISTORIES`, where that is set: one takes longer than one of members.
const HISTORIES: u64 = 100;

/// One departure in so many steps.
const RARE: u64 = 25;

struct Seed(u64);

impl Seed {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The clock of a node that is ahead makes a backup newer by as much as its answer was late: docs/protocols/backup.md. So a history has one of both.
///
/// The API server's clock is set in explored scopes only: over more times the oracle cannot tell yet what a clock that was set may leave.
fn may_follow(what: &Departure, before: &[(usize, Departure)]) -> bool {
    if matches!(what, Departure::Clock(WhoseClock::Api | WhoseClock::Both, _)) {
        return false;
    }
    let is_clock = |what: &Departure| matches!(what, Departure::Clock(WhoseClock::Nodes, _));
    let is_late =
        |what: &Departure| matches!(what, Departure::Away(_) | Departure::Held | Departure::Clock(..));
    let mut before = before.iter().map(|(_, what)| what);
    if is_clock(what) { !before.any(is_late) } else { !is_late(what) || !before.any(is_clock) }
}

fn history(start: &World, number: u64) -> Result<(), Box<Found>> {
    let mut seed = Seed(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = start.clone();
    let mut departures = Vec::new();
    let mut step = 0;
    loop {
        if seed.next(RARE) == 0 {
            let offers = world.offers();
            if !offers.is_empty() {
                let place = usize::try_from(seed.next(offers.len() as u64)).unwrap_or_default();
                let what = offers[place].clone();
                if may_follow(&what, &departures) && world.happen(&what) {
                    departures.push((step, what));
                }
            }
        }
        let goes = world.go();
        step += 1;
        if let Some(violation) = world.violation() {
            return Err(Box::new(Found { violation: violation.clone(), departures }));
        }
        if !goes {
            return Ok(());
        }
    }
}

#[test]
fn random_histories_of_schedules_violate_nothing() {
    let histories = std::env::var("QUORATE_TEST_HISTORIES").ok().and_then(|count| count.parse().ok());
    let base = Setup { times: 6, ..keep_last() };
    let setups = [
        base.clone(),
        Setup { retention: json!({"keepLast": 3}), tested: true, ..base.clone() },
        Setup { retention: json!({"maxAge": "150m"}), warm: 4, ..base.clone() },
        Setup { policy: "Retain", retention: json!({"keepLast": 2, "maxAge": "100m"}), ..base.clone() },
        Setup { shared: true, retention: json!({"keepLast": 2}), ..base.clone() },
        Setup { shared: true, versioned: true, policy: "Retain", retention: json!({"keepLast": 3}), ..base },
    ];
    for setup in setups {
        let start = World::new(setup.clone());
        for number in 1..=histories.map_or(HISTORIES, |count: u64| count / 20) {
            if let Err(found) = history(&start, number) {
                panic!("seed {number}: {}", found.story(&setup));
            }
        }
    }
}
