//! What every safety check is for: with it taken away, and a planner that proposes anything at any time, something that
//! must never happen does happen; with all of them in place it does not.

use quorate_planner::safety::mutants::{CHECKS, without};
use quorate_sim::campaign::{Campaign, Weather};
use quorate_sim::history::Broken;

const RECKLESS: Weather = Weather { every: 4, faults: 12, edits: 2, reckless: true };

/// How many histories a check has to show what it is for.
const PATIENCE: u64 = 4000;

#[test]
fn whatever_a_planner_gone_wrong_proposes_safety_keeps_quorum_and_data() {
    let mut campaign = Campaign::default();
    for seed in 0..400 {
        if let Err(broken) = campaign.run(seed, RECKLESS) {
            println!(
                "seed {seed}: {}",
                broken
                    .told()
                    .lines()
                    .map(|line| line.chars().take(300).collect::<String>() + "\n")
                    .collect::<String>()
            );
        }
    }
    println!("{campaign:?}");
}

#[test]
fn without_any_one_safety_check_a_violation_is_found() {
    let mut unnoticed = Vec::new();
    for check in CHECKS {
        let found = without(check, || (0..PATIENCE).find_map(|seed| Some((seed, broken(seed)?))));
        match found {
            Some((seed, broken)) => println!("{check}: history {seed} violates {}", broken.violation),
            None => unnoticed.push(check),
        }
    }
    assert!(unnoticed.is_empty(), "nothing notices that these are gone: {unnoticed:?}");
}

fn broken(seed: u64) -> Option<Box<Broken>> {
    Campaign::default().run(seed, RECKLESS).err()
}
