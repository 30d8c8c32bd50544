//! Faults that stay: what the runbook promises is judged after a person has followed it.

use quorate_sim::history::{ends_well, plain};
use serde_json::{Value, json};

fn with(fault: &Value) -> Value {
    json!({
        "before": [plain(3)], "spec": plain(3), "wide": true,
        "departures": [{ "at": "rest", "what": { "fault": fault } }],
    })
}

#[test]
fn a_member_whose_disk_is_lost_is_replaced() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        for lost in ["lose-volume", "wipe", "wipe-under", "node-gone"] {
            ends_well(&with(&json!({ lost: member })));
        }
    }
}

#[test]
fn m09_a_member_whose_node_came_back_as_another_machine_is_replaced() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        ends_well(&with(&json!({ "node-created-again": member })));
        let crash = json!({ "at": "before:P3", "what": { "fault": "crash" } });
        let mut history = with(&json!({ "node-created-again": member }));
        history["departures"].as_array_mut().expect("departures").push(crash);
        ends_well(&history);
    }
}

#[test]
fn two_of_five_members_whose_disks_are_lost_are_replaced() {
    for (first, second) in [("demo-0", "demo-1"), ("demo-0", "demo-4"), ("demo-3", "demo-4")] {
        ends_well(&json!({
            "before": [plain(5)], "spec": plain(5), "wide": true,
            "departures": [
                { "at": "rest", "what": { "fault": { "lose-volume": first } } },
                { "at": "+0", "what": { "fault": { "wipe": second } } },
            ],
        }));
    }
}

#[test]
fn a_member_on_a_node_that_never_comes_back_is_replaced_by_scaling_in_and_out() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        ends_well(&with(&json!({ "stays": { "lose-node": member } })));
    }
}

#[test]
fn s01_a_member_whose_disk_is_full_or_hangs_for_good_is_replaced_by_scaling_in_and_out() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        for disk in ["fill-disk", "hang-disk"] {
            ends_well(&with(&json!({ "stays": { disk: member } })));
        }
    }
}

#[test]
fn a_member_that_is_cut_off_for_good_is_replaced_by_scaling_in_and_out() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        ends_well(&with(&json!({ "stays": { "cut": member } })));
    }
}

/// Whatever happens in the middle of a replacement, it ends with three healthy voters, and no acknowledged write is lost.
#[test]
fn a_fault_at_any_step_of_a_replacement_ends_well() {
    let at_operator = [
        json!({ "fault": "crash" }),
        json!({ "fault": "two-lead" }),
        json!({ "fault": "paused" }),
        json!({ "fault": { "request": "reply-lost" } }),
        json!({ "fault": { "request": "lost" } }),
        json!({ "fault": { "request": "late" } }),
    ];
    let at_members = [
        json!({ "fault": { "kill-pod": "demo-0" } }),
        json!({ "fault": { "lose-node": "demo-2" } }),
        json!({ "edit": plain(4) }),
        json!({ "edit": plain(2) }),
        json!({ "edit": plain(0) }),
    ];
    let ends = |moment: String, what: &Value| {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(3), "wide": true,
            "departures": [
                { "at": "rest", "what": { "fault": { "lose-volume": "demo-1" } } },
                { "at": moment, "what": what },
            ],
        }));
    };
    // P1 and P5 are records here: there is no request that could be lost.
    for step in ["P2#2", "P3#1", "G3#1", "G4#1", "G6#1"] {
        for what in &at_operator {
            ends(format!("before:{step}"), what);
        }
    }
    for step in ["P1", "P2", "P3", "P5", "G3", "G4", "G6", "P7"] {
        for what in &at_members {
            ends(format!("before:{step}"), what);
        }
    }
}

/// A second loss: the one that is replaced already, and the learner, must not hold each other up.
#[test]
fn a_second_loss_in_the_middle_of_a_replacement_is_replaced_as_well() {
    for step in ["P1", "P2", "P3", "G3", "G4", "G6"] {
        for second in ["demo-0", "demo-4"] {
            for lost in ["lose-volume", "wipe", "node-gone"] {
                ends_well(&json!({
                    "before": [plain(5)], "spec": plain(5), "wide": true,
                    "departures": [
                        { "at": "rest", "what": { "fault": { "lose-volume": "demo-1" } } },
                        { "at": format!("before:{step}"), "what": { "fault": { lost: second } } },
                    ],
                }));
            }
        }
    }
}

#[test]
fn s05_the_data_of_a_member_that_somebody_removed_are_kept_and_another_member_takes_its_place() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        ends_well(&with(&json!({ "removed-by-hand": member })));
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(2), "wide": true,
            "departures": [{ "at": "after:S1", "what": { "fault": { "removed-by-hand": member } } }],
        }));
    }
}

#[test]
fn l06_an_etcd_cluster_that_is_restored_under_another_uid_serves_its_data_once_they_are_adopted() {
    for with_status in [false, true] {
        ends_well(&with(&json!({ "restored": with_status })));
    }
}

#[test]
fn l01_a_scale_in_removes_the_member_whose_pod_is_refused_for_good() {
    for refused in ["", "demo-2"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(3), "wide": true,
            "departures": [
                { "at": "rest", "what": { "fault": { "stays": { "refuse": ["Pod", refused] } } } },
                { "at": "+0", "what": { "fault": { "kill-pod": "demo-2" } } },
            ],
        }));
    }
}

#[test]
fn a_volume_that_never_binds_holds_up_growth_until_the_wish_shrinks() {
    ends_well(&json!({
        "before": [plain(3)], "spec": plain(4), "wide": true,
        "departures": [
            { "at": "after:G4", "what": { "fault": { "stays": { "slow": "demo-3" } } } },
            { "at": "rest", "what": { "edit": { "size": 3 } } },
        ],
    }));
}

#[test]
fn a_late_request_may_arrive_at_any_moment() {
    for later in 0..12 {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(4),
            "departures": [
                { "at": "before:G3", "what": { "fault": { "request": "late" } } },
                { "at": format!("+{}", later + 1), "what": { "fault": "arrives" } },
            ],
        }));
    }
}

/// The learner in sync and the sick voter must not wait for each other: the scale-in that cures it is carried out.
#[test]
fn l02_a_voter_that_fails_for_good_while_a_learner_joins_is_replaced_by_scaling_in_and_out() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        for fault in ["cut", "hang-disk", "lose-node"] {
            ends_well(&json!({
                "before": [plain(3)], "spec": plain(4), "wide": true,
                "departures": [{ "at": "before:G6", "what": { "fault": { "stays": { fault: member } } } }],
            }));
        }
    }
}

#[test]
fn l03_a_member_that_fails_for_good_as_it_is_promoted_is_replaced_by_scaling_in_and_out() {
    for fault in ["cut", "cut-from-peers", "hang-disk", "lose-node"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(4), "wide": true,
            "departures": [{ "at": "after:G6", "what": { "fault": { "stays": { fault: "demo-3" } } } }],
        }));
    }
    for fault in ["lose-volume", "wipe"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(4), "wide": true,
            "departures": [{ "at": "after:G6", "what": { "fault": { fault: "demo-3" } } }],
        }));
    }
}
