//! R23: clocks that are apart and jump. A wrong clock makes waits longer, never shorter, and blocks nothing.

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

/// A few minutes, which nobody corrects: a cluster begins, loses a member for good, is scaled, rolled and renewed.
#[test]
fn l06_with_a_clock_that_is_wrong_for_good_every_goal_is_reached() {
    for (clock, by) in [Clock::Operator, Clock::ApiServer, Clock::Kubelets]
        .into_iter()
        .flat_map(|clock| [90, -90, 400, -400].map(|by| (clock, by)))
    {
        let wrong = fault(0, &json!({ "stays": { "clock-set": [clock, by] } }));
        let lost = fault("rest", &json!({ "lose-volume": "demo-1" }));
        for (before, spec) in [(plain(3), plain(5)), (plain(5), plain(3)), (plain(3), plain(0))] {
            let departures = [wrong.clone(), lost.clone()];
            let trace = json!({ "before": [before], "spec": spec, "departures": departures, "wide": true });
            assert!(sound_story(&trace).all_came_about(), "{clock} {by} s");
        }
    }
}
