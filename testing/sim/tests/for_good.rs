//! Faults that stay: what the runbook promises is judged after a person has followed it.

use quorate_sim::history::{ends_well, plain, sound_story};
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
fn m09_a_member_whose_node_came_back_as_another_machine_is_replaced_by_a_person() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        ends_well(&with(&json!({ "node-created-again": member })));
        let crash = json!({ "at": "before:S3", "what": { "fault": "crash" } });
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
    for step in ["P3#1", "G3#1", "G4#1", "G6#1"] {
        for what in &at_operator {
            ends(format!("before:{step}"), what);
        }
    }
    for step in ["P1", "P3", "P5", "G3", "G4", "G6", "P7"] {
        for what in &at_members {
            ends(format!("before:{step}"), what);
        }
    }
}

/// A second loss: the one that is replaced already, and the learner, must not hold each other up.
#[test]
fn a_second_loss_in_the_middle_of_a_replacement_is_replaced_as_well() {
    for step in ["P1", "P3", "G3", "G4", "G6"] {
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

/// Whatever the number of steps after an edit at which the EtcdCluster is lost and restored, once a second edit was made.
fn restored_after(size: u32, version: &str, edit: &Value, second: &Value) {
    let mut spec = plain(size);
    spec["version"] = json!(version);
    let came_about = (1..16).filter(|steps| {
        let story = sound_story(&json!({
            "spec": spec, "wide": true,
            "departures": [
                { "at": "rest", "what": { "edit": edit } },
                { "at": format!("+{steps}"), "what": { "edit": second } },
                { "at": "+0", "what": { "fault": { "restored": true } } },
            ],
        }));
        story.all_came_about()
    });
    assert!(came_about.count() > 1, "{version}, {edit}");
}

#[test]
fn l06_adopted_data_start_with_their_own_version_though_the_spec_asks_for_an_older_one() {
    let orders = |version: &str| json!({ "version": version, "metadata": { "annotations": { "operator.etcd.io/allow-downgrade": version } } });
    for (size, edit) in [
        (3, json!({ "version": "3.5.20" })),
        (1, orders("3.5.20")),
        (1, orders("3.6.5")),
        (3, orders("3.6.16")),
    ] {
        restored_after(size, "3.7.3", &edit, &edit);
    }
}

#[test]
fn l06_data_that_are_adopted_in_the_middle_of_an_upgrade_go_on_with_a_version_that_may_follow() {
    for (size, old, new) in [(1, "3.5.35", "3.6.16"), (1, "3.6.16", "3.7.3"), (3, "3.6.16", "3.7.3")] {
        let [old_spec, new_spec] = [old, new].map(|version| json!({ "version": version }));
        restored_after(size, old, &new_spec, &new_spec);
        restored_after(size, old, &new_spec, &old_spec);
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

/// The move cannot go on, and as long as it was recorded the scale-in was not carried out.
#[test]
fn m01_a_member_that_is_sick_for_good_is_removed_while_another_one_waits_for_a_new_claim() {
    for (at, sick) in [
        ("after:P1#1", json!({ "cut-from-peers": "demo-1" })),
        ("after:P1#1", json!({ "lose-node": "demo-1" })),
        ("after:G4#1", json!({ "hang-disk": "demo-0" })),
    ] {
        let mut history = with(&json!({ "delete-claim": "demo-2" }));
        let then = json!({ "at": at, "what": { "fault": { "stays": sick } } });
        history["departures"].as_array_mut().expect("departures").push(then);
        ends_well(&history);
    }
}

/// What the runbook promises for the first one is judged without the second one, of which the person has not read yet.
#[test]
fn a_second_node_that_is_lost_for_good_while_the_first_one_is_scaled_in_is_mended_later() {
    let mut history = with(&json!({ "stays": { "lose-node": "demo-2" } }));
    let then = json!({ "at": "after:S3#1", "what": { "fault": { "stays": { "lose-node": "demo-1" } } } });
    history["departures"].as_array_mut().expect("departures").push(then);
    ends_well(&history);
}

/// A learner changes no quorum, and the call is an entry by which the hung disk is found. Until it is committed, the voter has all that is.
#[test]
fn a_learner_may_be_added_once_more_while_a_disk_hangs_on_the_call_before() {
    sound_story(&json!({
        "spec": { "size": 2, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" } }, "wide": true,
        "departures": [
            { "at": "after:BR#2", "what": { "edit": { "size": 4 } } },
            { "at": "after:K1#2", "what": { "fault": { "hang-disk": "demo-1" } } },
        ],
    }));
}
