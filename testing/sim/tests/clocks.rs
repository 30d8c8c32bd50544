//! R23: clocks that are apart and jump. Whatever the operator's clock shows, nothing is signed, deleted for its age or given up by it.

use quorate_sim::history::{History, plain, sound_story};
use quorate_sim::world::World;
use quorate_sim::world::clocks::Clock;
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};

const DAY: i64 = 86_400;

fn fault(at: impl Into<Value>, fault: &Value) -> Value {
    json!({ "at": at.into(), "what": { "fault": fault } })
}

fn set(at: &str, whose: &str, by: i64) -> Value {
    fault(at, &json!({ "clock-set": [whose, by] }))
}

/// All clocks, each ahead and back, at all these moments. In at least one history of each all departures happened.
#[track_caller]
fn all_end_well(spec: &Value, first: &[Value], at: &[&str], by: &[i64]) {
    for whose in ["operator", "operator-while-it-observes", "api-server", "kubelets"] {
        let mut came_about = false;
        for (at, by) in at.iter().flat_map(|at| by.iter().map(move |by| (*at, *by))) {
            let mut departures = first.to_vec();
            departures.push(set(at, whose, by));
            let trace = json!({ "before": [spec], "spec": spec, "departures": departures, "wide": true });
            came_about |= sound_story(&trace).all_came_about();
        }
        assert!(came_about, "{whose}");
    }
}

#[test]
fn m58_no_quarantined_volume_is_deleted_for_its_age_by_a_clock_that_jumps_inside_a_pass() {
    let removed = fault(0, &json!({ "removed-by-hand": "demo-2" }));
    all_end_well(&plain(3), &[removed], &["after:G6", "rest"], &[8 * DAY, -8 * DAY]);
}

#[test]
fn m58_a_lost_member_has_its_grace_period_whatever_a_clock_shows() {
    let lost = fault(0, &json!({ "lose-volume": "demo-2" }));
    all_end_well(&plain(3), &[lost], &["after:P0", "after:P1"], &[7200, -7200]);
}

/// A cluster at rest whose leaves are valid for a day.
fn with_tls() -> World {
    let tls = json!({ "provider": "auto", "providerCfg": { "autoCfg": { "validityDuration": "24h" } } });
    let spec =
        json!({ "size": 1, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" }, "tls": tls });
    let mut world = History { spec, wide: true, ..History::default() }.start();
    while world.go().is_some() {}
    world
}

#[test]
fn m58_no_leaf_is_signed_by_a_clock_that_jumps_inside_a_pass() {
    for clock in [Clock::Operator, Clock::OperatorWhileItObserves, Clock::ApiServer, Clock::Kubelets] {
        for by in [DAY / 2, 3 * DAY, -3 * DAY] {
            let mut world = with_tls();
            assert!(world.strike(&Fault::ClockSet(clock, by)));
            while world.go().is_some() {}
            world.judge_rest();
            assert_eq!(world.oracle.violation(), None, "{clock:?} {by}");
        }
    }
}
