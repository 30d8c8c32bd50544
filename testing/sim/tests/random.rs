//! L2: random histories on all cores. They must strike with every kind of fault that is offered.

use std::thread;

use quorate_sim::campaign::{Campaign, FuzzConfig};

/// The number of histories of a run, unless `QUORATE_TEST_HISTORIES` is set. `QUORATE_TEST_SEED` is the first seed.
const HISTORIES: u64 = 20_000;

#[test]
fn no_random_history_loses_a_write_breaks_a_rule_or_misses_its_goal() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (from, histories) =
        (number("QUORATE_TEST_SEED").unwrap_or(0), number("QUORATE_TEST_HISTORIES").unwrap_or(HISTORIES));
    let lanes = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let done: Vec<Campaign> = thread::scope(|scope| {
        let lanes: Vec<_> =
            (0..lanes).map(|lane| scope.spawn(move || run(from + lane, lanes, from + histories))).collect();
        lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect()
    });
    let mut campaign = Campaign::default();
    for lane in done {
        campaign.join(lane);
    }
    println!("{}", campaign.figures());
    assert_eq!(campaign.histories as u64, histories);
    // A thousand histories meet every kind of fault.
    if histories >= 1000 {
        let idle = |kind: &&&str| !campaign.struck.contains_key(*kind);
        let idle: Vec<_> = campaign.offered.iter().filter(idle).collect();
        assert!(idle.is_empty(), "these faults could have struck and never did: {idle:?}");
        assert!(campaign.edits.0 > 0 && campaign.edits.1 > 0, "edits are made, and some are refused");
    }
}

/// How many failed histories a lane reports before it ends.
const REPORTED: usize = 3;

fn run(from: u64, step: u64, to: u64) -> Campaign {
    let mut campaign = Campaign::default();
    let mut failed = 0;
    for seed in (from..to).step_by(usize::try_from(step).expect("few lanes")) {
        if let Err(failure) = campaign.run(seed, FuzzConfig::default()) {
            println!("seed {seed}: {}\n", failure.report());
            failed += 1;
            assert!(failed < REPORTED, "{REPORTED} histories fail up to seed {seed}");
        }
    }
    assert_eq!(failed, 0, "histories fail");
    campaign
}
