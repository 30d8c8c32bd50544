//! Several clusters of one operator take new defaults of it in turns, under faults, and beside tenants that never get on.

use std::collections::BTreeMap;

use quorate_planner::fleet::Limit;
use quorate_planner::safety::mutants::without;
use quorate_sim::campaign::Random;
use quorate_sim::oracle::{Property, Violation};
use quorate_sim::world::fleet::{Figures, Fleet};

/// The sizes of the clusters, and how many may take new defaults at a time.
const FLEETS: [(&[u32], usize); 4] =
    [(&[1, 1, 1, 1], 2), (&[3, 1, 3], 1), (&[3, 3, 1, 1], 2), (&[1, 3, 1], 1)];

/// The number of histories. `QUORATE_TEST_FLEETS` sets another one, `QUORATE_TEST_SEED` the first seed.
const HISTORIES: u64 = 10;

/// How many are searched for a planted defect.
const SEARCHED: u64 = 16;

/// How many moments of a history have faults and edits.
const MOMENTS: u32 = 300;

/// The planted defects, and the property that finds each.
pub const PLANTED: [(&str, Property); 5] = [
    ("turns limit", Property::TurnsAreFew),
    ("turns given", Property::TurnsAreFew),
    ("turns parked", Property::NobodyHoldsTheTurn),
    ("turns well", Property::SickArePassedOver),
    ("turns stopped", Property::FailuresStopTurns),
];

/// The history of a seed: how it went, and its story if it violates a property.
fn run(seed: u64) -> (Figures, Option<(Violation, String)>) {
    let (sizes, most) = FLEETS[usize::try_from(seed % FLEETS.len() as u64).expect("a small number")];
    let mut fleet = Fleet::new(sizes, Limit { base: most, percent: 0 });
    let figures = fleet.history(&mut Random::from_seed(seed), MOMENTS);
    let violation = fleet.violation();
    (figures, violation.map(|violation| (violation, fleet.story.join("\n"))))
}

/// Where one cluster does not get ready: what is violated, if anything is.
fn failure() -> Option<Violation> {
    let mut fleet = Fleet::new(&[1, 1], Limit { base: 2, percent: 0 });
    fleet.failure();
    fleet.violation()
}

#[test]
fn l07_whatever_tenants_and_faults_do_few_clusters_take_new_defaults_at_a_time_and_all_others_get_them() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    assert_eq!(failure(), None);
    let from = number("QUORATE_TEST_SEED").unwrap_or(0);
    let (mut steps, mut tenants) = (0, (0, 0));
    let mut struck = BTreeMap::<&str, usize>::new();
    for seed in from..from + number("QUORATE_TEST_FLEETS").unwrap_or(HISTORIES) {
        let (figures, failed) = run(seed);
        if let Some((violation, story)) = failed {
            panic!("{story}\nseed {seed}: {violation}");
        }
        steps += figures.steps;
        tenants = (tenants.0 + figures.tenants.0, tenants.1 + figures.tenants.1);
        for (kind, times) in figures.struck {
            *struck.entry(kind).or_default() += times;
        }
    }
    println!(
        "steps {steps}; tenants whose budgets refuse {}, that are down {}; faults: {struck:?}",
        tenants.0, tenants.1
    );
    assert!(tenants.0 > 0 && tenants.1 > 0, "{tenants:?}");
}

#[test]
fn without_a_check_of_the_turns_a_history_violates_the_property_that_is_about_it() {
    for (check, violates) in PLANTED {
        let found =
            without(check, || failure().or_else(|| (0..SEARCHED).find_map(|seed| Some(run(seed).1?.0))));
        let Some(violation) = found else { panic!("no history shows that {check} is needed") };
        println!("without {check}: {violation}");
        assert_eq!(violation.property, violates, "without {check}: {violation}");
    }
}
