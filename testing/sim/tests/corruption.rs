//! Data that differ from the log: the operator finds them by the members' hashes, replaces their member and disarms the alarm, whomever
//! it names. The oracle judges by the disks.

use quorate_sim::history::{History, ends_well, plain};
use serde_json::{Value, json};

/// A history in which the data of a member come to differ, and clients write when its replacement is over.
fn story(size: u32, version: &str, departures: &Value) -> String {
    let mut spec = plain(size);
    spec["version"] = json!(version);
    told(&json!({ "before": [spec], "spec": spec, "departures": departures, "wide": true }))
}

fn told(trace: &Value) -> String {
    let history: History = serde_json::from_value(trace.clone()).expect("a trace");
    let story = history.story();
    assert_eq!(story.violation(), None, "{story}");
    assert!(story.all_came_about(), "{story}");
    story.to_string()
}

#[test]
fn a_member_whose_data_differ_is_replaced_and_the_alarm_disarmed_so_that_clients_write_again() {
    for version in ["3.5.35", "3.6.16"] {
        for (size, wrong) in [(3, "demo-0"), (3, "demo-1"), (5, "demo-4")] {
            let departures = json!([
                { "at": 0, "what": { "fault": { "stays": { "damage": wrong } } } },
                { "at": "after:P7", "what": { "fault": "client-writes" } },
            ]);
            let told = story(size, version, &departures);
            assert!(!told.contains("a person disarms") && !told.contains("a person scales"), "{told}");
        }
    }
}

#[test]
fn of_two_members_that_differ_nobody_is_replaced() {
    let departures = json!([{ "at": 0, "what": { "fault": { "damage": "demo-1" } } }]);
    for version in ["3.5.35", "3.6.16"] {
        assert!(!story(2, version, &departures).contains("P3"), "a person has to decide");
    }
}

/// The one with the wrong data restarts beside the alarm, as a person's reflex has it, and etcd 3.5 never starts it again.
#[test]
fn m03_a_member_with_wrong_data_that_etcds_check_keeps_out_is_replaced_and_the_alarm_disarmed() {
    for (size, wrong) in [(3, "demo-1"), (5, "demo-4")] {
        for restart in ["kill-process", "kill-pod"] {
            let mut spec = plain(size);
            spec["version"] = json!("3.5.35");
            let departures = json!([
                { "at": 0, "what": { "fault": { "stays": { "damage": wrong } } } },
                { "at": "after:P0", "what": { "fault": { restart: wrong } } },
                { "at": "after:P7", "what": { "fault": "client-writes" } },
            ]);
            let trace = json!({ "before": [spec], "spec": spec, "departures": departures, "wide": true, "initial_check": true });
            let told = told(&trace);
            assert!(told.contains("found data inconsistency"), "{told}");
            assert!(!told.contains("a person disarms") && !told.contains("a person scales"), "{told}");
        }
    }
}

/// A good one restarts, and of the two that are left one is wrong: no majority, so nobody is touched.
#[test]
fn m03_a_good_member_that_etcds_check_keeps_out_is_not_replaced() {
    let mut spec = plain(3);
    spec["version"] = json!("3.5.35");
    let departures = json!([
        { "at": 0, "what": { "fault": { "damage": "demo-1" } } },
        { "at": 1, "what": { "fault": { "kill-process": "demo-0" } } },
    ]);
    let trace = json!({ "before": [spec], "spec": spec, "departures": departures, "wide": true, "initial_check": true });
    let told = told(&trace);
    assert!(
        told.contains(
            "demo-0 is not healthy: CrashLoopBackOff: etcd ended with exit code 1: discovery failed"
        ) && !told.contains("P3"),
        "{told}"
    );
}

/// A learner is compared with nobody, and one voter agrees with itself.
#[test]
fn h37_a_learner_whose_data_differ_is_not_promoted() {
    let damage = json!({ "at": "before:K1#6", "what": { "fault": { "stays": { "damage": "demo-1" } } } });
    ends_well(&json!({ "before": [plain(1)], "spec": plain(3), "wide": true, "departures": [damage] }));
}
