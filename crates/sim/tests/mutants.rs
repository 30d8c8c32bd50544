//! What every safety check is for: with it taken away, and a planner that proposes anything at any time, something that
//! must never happen does happen; with all of them in place it does not.

use quorate_planner::safety::mutants::{CHECKS, without};
use quorate_sim::campaign::{Campaign, Weather};
use quorate_sim::history::Broken;

const RECKLESS: Weather = Weather { every: 4, faults: 12, edits: 2, reckless: true };

/// Histories in which all checks stand: they come to no harm, so what breaks one of them is the lack of a check.
const HISTORIES: u64 = 400;

/// Checks whose lack these histories show. The others of [`CHECKS`] want a chain of mishaps that is too long to be met by lot in
/// so few; docs/proof.md names them.
const SHOWN: [&str; 6] = [
    "NotSeen",
    "ChangeOutstanding",
    "SecondDisruption",
    "VoterUnhealthy",
    "NotThatMember",
    "WouldLoseQuorum",
];

#[test]
fn whatever_a_planner_gone_wrong_proposes_safety_keeps_quorum_and_data() {
    let mut campaign = Campaign::default();
    for seed in 0..HISTORIES {
        if let Err(broken) = campaign.run(seed, RECKLESS) {
            panic!("seed {seed}: {}", broken.told());
        }
    }
    println!("reckless {}", campaign.figures());
}

#[test]
fn without_one_of_these_safety_checks_a_violation_is_found() {
    let mut unnoticed = Vec::new();
    for check in SHOWN {
        assert!(CHECKS.contains(&check), "{check} is no check");
        let found = without(check, || (0..HISTORIES).find_map(|seed| Some((seed, broken(seed)?))));
        match found {
            Some((seed, broken)) => println!("without {check}: history {seed} violates {}", broken.violation),
            None => unnoticed.push(check),
        }
    }
    assert!(unnoticed.is_empty(), "nothing notices that these are gone: {unnoticed:?}");
}

fn broken(seed: u64) -> Option<Box<Broken>> {
    Campaign::default().run(seed, RECKLESS).err()
}
