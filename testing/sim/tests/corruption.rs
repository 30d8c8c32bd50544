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

/// While a member makes a hash it answers nobody. A call that lasts longer than the operator waits has no reply, and the member goes on.
#[test]
fn m54_a_member_whose_data_differ_is_found_and_replaced_where_hashes_take_their_time() {
    for (size, seconds) in [(3, 1), (3, 20), (5, 20), (3, 45)] {
        for version in ["3.5.35", "3.6.16"] {
            let mut spec = plain(size);
            spec["version"] = json!(version);
            let departures = json!([
                { "at": 0, "what": { "fault": { "stays": { "damage": "demo-1" } } } },
                { "at": "after:P7", "what": { "fault": "client-writes" } },
            ]);
            let trace = json!({
                "before": [spec], "spec": spec, "departures": departures, "wide": true, "hash_takes": seconds,
            });
            let told = told(&trace);
            assert!(!told.contains("a person disarms") && !told.contains("a person scales"), "{told}");
        }
    }
}

/// A hash that takes longer than the operator waits for it shows nothing. Nobody else is asked while the member may be at it, and the
/// members serve.
#[test]
fn m54_hashes_that_take_too_long_find_nobody_and_stop_no_quorum() {
    for size in [3, 5] {
        let departures = json!([{ "at": 0, "what": { "fault": { "damage": "demo-1" } } }]);
        let trace = json!({
            "before": [plain(size)], "spec": plain(size), "departures": departures, "wide": true, "hash_takes": 300,
        });
        assert!(!told(&trace).contains("P3"));
    }
}

/// A node is lost while the cluster begins, so its member is to be given up. Another one is cut from its peers, and the data of the third
/// are wrong. It cannot be compared while it restarts, so it is not known whose data are wrong, and the person scales in.
#[test]
fn s12_no_good_member_is_removed_while_it_is_not_known_whose_data_are_wrong() {
    let trace = json!({
        "before": [], "spec": plain(3), "wide": true,
        "departures": [
            { "at": "after:K1#7", "what": { "fault": { "lose-node": "demo-0" } } },
            { "at": "after:B7#1+1", "what": { "fault": { "stays": { "cut-from-peers": "demo-1" } } } },
            { "at": "after:K2#1+2", "what": { "fault": { "other-patch": ["demo-2", "next"] } } },
            { "at": "+0", "what": { "fault": { "stays": { "damage": "demo-2" } } } },
        ],
    });
    told(&trace);
}
