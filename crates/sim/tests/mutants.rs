//! What every safety check is for: with it taken away, and a planner that proposes anything at any time, something that
//! must never happen does happen; with all of them in place it does not.

use quorate_planner::safety::mutants::{CHECKS, without};
use quorate_sim::campaign::{Campaign, Weather};
use quorate_sim::history::Broken;

const RECKLESS: Weather = Weather { every: 4, faults: 12, edits: 2, reckless: true };

/// Histories in which all checks stand.
const HISTORIES: u64 = 1500;

/// How many histories a check has to show what it is for. Those in which all checks stand come to no harm, so what breaks
/// one of them is the lack of the check.
const PATIENCE: u64 = HISTORIES;

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
fn without_any_one_safety_check_a_violation_is_found() {
    let mut unnoticed = Vec::new();
    for check in CHECKS {
        let found = without(check, || (0..PATIENCE).find_map(|seed| Some((seed, broken(seed)?))));
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
