//! What exploration found once, as the shortest history that shows it.

use quorate_sim::history::{History, plain};
use serde_json::{Value, json};

/// Ends as it must.
#[track_caller]
fn ends_well(history: &Value) {
    let history: History = serde_json::from_value(history.clone()).expect("a history");
    let (story, violation) = history.tell();
    assert_eq!(violation, None, "{}", story.join("\n"));
}

fn memory(size: u32) -> Value {
    json!({
        "size": size, "version": "3.6.16", "tls": { "provider": "disabled" }, "storageSpec": { "medium": "Memory" },
    })
}

#[test]
fn h10_a_promotion_that_was_done_and_not_seen_leaves_no_cluster_without_its_quorum() {
    for fault in ["kill-pod", "kill-process"] {
        for after in 9..14 {
            ends_well(&json!({
                "before": [plain(1)], "spec": plain(2),
                "departures": [{ "after": after, "what": { "fault": { fault: "demo-1" } } }],
            }));
        }
    }
}

#[test]
fn h01_a_member_in_memory_that_forgot_everything_before_it_was_marked_is_replaced() {
    ends_well(&json!({
        "spec": memory(5),
        "departures": [{ "after": 10, "what": { "fault": { "wipe": "demo-1" } } }],
    }));
}

#[test]
fn h01_a_founder_that_is_not_marked_yet_goes_to_sleep_while_others_still_know_it() {
    for after in 25..36 {
        ends_well(&json!({
            "spec": plain(3),
            "departures": [
                { "after": 10, "what": { "fault": { "slow": "demo-0" } } },
                { "after": 24, "what": { "edit": plain(0) } },
                { "after": after, "what": { "fault": { "wipe": "demo-0" } } },
            ],
        }));
    }
}

#[test]
fn h01_what_an_old_leader_makes_to_found_a_cluster_that_sleeps_by_now_never_runs() {
    for (size, late) in [(1, 4..8), (3, 6..14)] {
        for (fault, after) in late.flat_map(|after| [("paused", after), ("late", after)]) {
            let late = if fault == "paused" { json!("paused") } else { json!({ "fate": "Late" }) };
            for wiped in 30..50 {
                ends_well(&json!({
                    "spec": plain(size),
                    "departures": [
                        { "after": after, "what": { "fault": late } },
                        { "after": 24, "what": { "edit": plain(0) } },
                        { "after": wiped, "what": { "fault": { "wipe": "demo-0" } } },
                    ],
                }));
            }
        }
    }
}

#[test]
fn h45_the_late_pod_of_a_founding_that_was_called_off_is_cleared_away() {
    ends_well(&json!({
        "spec": plain(3),
        "departures": [
            { "after": 9, "what": { "edit": plain(0) } },
            { "after": 9, "what": { "fault": { "lose-volume": "demo-1" } } },
            { "after": 9, "what": { "fault": { "fate": "Late" } } },
        ],
    }));
}

#[test]
fn h45_a_volume_that_a_late_call_makes_for_a_member_given_up_is_cleared_away() {
    ends_well(&json!({
        "spec": plain(1),
        "departures": [
            { "after": 3, "what": { "fault": { "fate": "Late" } } },
            { "after": 6, "what": { "edit": { "size": 2 } } },
        ],
    }));
}

#[test]
fn h14_one_plan_never_takes_two_healthy_voters_away() {
    ends_well(&json!({
        "spec": plain(3),
        "departures": [
            { "after": 29, "what": { "fault": { "whim": { "remove": "demo-0" } } } },
            { "after": 29, "what": { "edit": { "podTemplate": { "metadata": { "labels": { "a": "b" } } } } } },
        ],
    }));
}

#[test]
fn h01_nothing_is_acknowledged_before_the_loss_of_a_volume_would_be_noticed() {
    for after in 8..16 {
        ends_well(&json!({
            "spec": plain(1),
            "departures": [
                { "after": 10, "what": { "fault": { "touch": ["Pod", "demo-0"] } } },
                { "after": after, "what": { "fault": { "wipe": "demo-0" } } },
            ],
        }));
    }
}

#[test]
fn h07_a_learner_makes_way_where_a_voter_in_memory_is_lost_beside_it() {
    for after in 4..16 {
        ends_well(&json!({
            "before": [memory(3)], "spec": memory(4),
            "departures": [{ "after": after, "what": { "fault": { "kill-pod": "demo-1" } } }],
        }));
    }
}

#[test]
fn h01_a_founding_member_that_was_emptied_does_not_start_anew_once_its_peers_are_gone_from_sight() {
    for after in 12..18 {
        ends_well(&json!({
            "spec": plain(3),
            "departures": [
                { "after": 8, "what": { "fault": { "touch": ["Service", "demo"] } } },
                { "after": after, "what": { "fault": { "wipe": "demo-0" } } },
                { "after": 30, "what": { "edit": { "size": 0 } } },
            ],
        }));
    }
}

#[test]
fn h01_no_client_meets_the_late_pod_of_an_attempt_given_up_and_it_is_cleared_away() {
    let label = json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } });
    for after in 2..8 {
        ends_well(&json!({
            "spec": memory(1),
            "departures": [
                { "after": after, "what": { "fault": { "fate": "Late" } } },
                { "after": after + 1, "what": { "edit": label } },
            ],
        }));
    }
    ends_well(&json!({
        "spec": plain(1),
        "departures": [
            { "after": 5, "what": { "fault": "two-lead" } },
            { "after": 5, "what": { "fault": { "stale": ["PersistentVolumeClaim", 1] } } },
        ],
    }));
}

#[test]
fn h01_membership_waits_until_the_loss_of_every_voter_would_be_noticed() {
    ends_well(&json!({
        "spec": memory(4),
        "departures": [
            { "after": 3, "what": { "edit": { "size": 3 } } },
            { "after": 5, "what": { "fault": { "fate": "Late" } } },
            { "after": 9, "what": { "fault": { "cut": "demo-6" } } },
            { "after": 10, "what": { "fault": { "fate": "Lost" } } },
            { "after": 13, "what": { "fault": { "wipe": "demo-4" } } },
        ],
    }));
}

#[test]
fn h01_a_founder_in_memory_that_was_made_again_serves_nobody_while_another_may_remember_more() {
    for after in 8..14 {
        ends_well(&json!({
            "spec": memory(3),
            "departures": [
                { "after": 5, "what": { "fault": { "slow": "demo-0" } } },
                { "after": 8, "what": { "fault": { "kill-pod": "demo-2" } } },
                { "after": after, "what": { "fault": { "lose-node": "demo-1" } } },
            ],
        }));
    }
}

#[test]
fn h17_a_pod_in_memory_that_a_late_call_makes_again_is_replaced_and_not_waited_for() {
    ends_well(&json!({
        "spec": memory(3),
        "departures": [
            { "after": 26, "what": { "edit": { "size": 4 } } },
            { "after": 36, "what": { "edit": { "image": "revision" } } },
            { "after": 37, "what": { "fault": { "wipe": "demo-3" } } },
            { "after": 47, "what": { "fault": { "fate": "Late" } } },
            { "after": 59, "what": { "fault": { "alarm": "demo-0" } } },
            { "after": 63, "what": { "fault": { "kill-pod": "demo-4" } } },
        ],
    }));
}

#[test]
fn h20_where_status_is_lost_the_stamp_of_one_volume_keeps_the_data_of_all() {
    for after in 30..44 {
        ends_well(&json!({
            "spec": plain(3),
            "departures": [
                { "after": 12, "what": { "edit": { "size": 5 } } },
                { "after": after, "what": "delete" },
                { "after": after, "what": { "fault": "lose-status" } },
            ],
        }));
    }
}

#[test]
fn h15_nothing_is_done_on_a_status_that_no_longer_stands() {
    for (after, back) in [(21, 3), (54, 3), (12, 2), (30, 5)] {
        ends_well(&json!({
            "spec": plain(3),
            "departures": [
                { "after": 5, "what": { "edit": { "size": 0 } } },
                { "after": 9, "what": { "fault": { "remove": ["Service", "demo"] } } },
                { "after": after, "what": { "fault": { "time-travel": ["EtcdCluster", back] } } },
            ],
        }));
    }
}

#[test]
fn h36_a_version_that_ran_before_the_wish_for_it_was_taken_back_is_not_gone_back_from() {
    let version = |size: u32, version: &str| json!({ "size": size, "version": version, "tls": { "provider": "disabled" } });
    for (edited, back) in [(2, 3), (2, 4), (2, 5), (2, 6)] {
        ends_well(&json!({
            "before": [version(2, "3.5.35")], "spec": version(2, "3.5.35"),
            "departures": [
                { "after": 0, "what": { "edit": { "version": "3.6.5" } } },
                { "after": edited, "what": { "fault": { "slow": "demo-1" } } },
                { "after": back, "what": { "edit": { "version": "3.5.35" } } },
                { "after": back + 1, "what": { "fault": { "slow": "demo-1" } } },
            ],
        }));
    }
    ends_well(&json!({
        "spec": { "size": 1, "version": "3.5.35" },
        "departures": [
            { "after": 4, "what": { "edit": { "size": 2 } } },
            { "after": 51, "what": { "edit": { "version": "3.6.5" } } },
            { "after": 52, "what": { "fault": { "fate": "Raced" } } },
            { "after": 57, "what": { "edit": { "version": "3.5.35" } } },
            { "after": 58, "what": { "fault": { "slow": "demo-2" } } },
        ],
    }));
}

#[test]
fn h36_an_image_that_holds_another_patch_than_its_tag_says_keeps_no_member_down() {
    for patch in ["next", "before"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(3),
            "departures": [
                { "after": 0, "what": { "fault": { "other-patch": ["demo-1", patch] } } },
                { "after": 9, "what": { "fault": { "kill-pod": "demo-1" } } },
            ],
        }));
    }
}

#[test]
fn h01_a_learner_needs_its_data_from_before_it_votes() {
    for wiped in 9..20 {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(4),
            "departures": [
                { "after": wiped.min(11), "what": { "fault": "expired" } },
                { "after": wiped, "what": { "fault": { "wipe": "demo-3" } } },
            ],
        }));
    }
}
