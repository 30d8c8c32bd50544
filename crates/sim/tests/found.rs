//! What exploration found once, as the shortest history that shows it.

use quorate_sim::history::History;
use serde_json::{Value, json};

/// Ends as it must.
#[track_caller]
fn ends_well(history: &Value) {
    let history: History = serde_json::from_value(history.clone()).expect("a history");
    let (story, violation) = history.tell();
    assert_eq!(violation, None, "{}", story.join("\n"));
}

fn size(size: u32) -> Value {
    json!({
        "size": size, "version": "3.6.16", "tls": { "provider": "disabled" },
        "storageSpec": { "volumeSizeRequest": "1Gi" },
    })
}

#[test]
fn h10_a_promotion_that_was_done_and_not_seen_leaves_no_cluster_without_its_quorum() {
    for fault in ["kill-pod", "kill-process"] {
        for after in 9..14 {
            ends_well(&json!({
                "before": [size(1)], "spec": size(2),
                "departures": [{ "after": after, "what": { "fault": { fault: "demo-1" } } }],
            }));
        }
    }
}

#[test]
fn h01_a_member_in_memory_that_forgot_everything_before_it_was_marked_is_replaced() {
    let spec = json!({
        "size": 5, "version": "3.6.16", "tls": { "provider": "disabled" }, "storageSpec": { "medium": "Memory" },
    });
    ends_well(&json!({
        "spec": spec,
        "departures": [{ "after": 10, "what": { "fault": { "wipe": "demo-1" } } }],
    }));
}

#[test]
fn h45_a_volume_that_a_late_call_makes_for_a_member_given_up_is_cleared_away() {
    ends_well(&json!({
        "spec": size(1),
        "departures": [
            { "after": 3, "what": { "fault": { "fate": "Late" } } },
            { "after": 6, "what": { "edit": { "size": 2 } } },
        ],
    }));
}

#[test]
fn h14_one_plan_never_takes_two_healthy_voters_away() {
    ends_well(&json!({
        "spec": size(3),
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
            "spec": size(1),
            "departures": [
                { "after": 10, "what": { "fault": { "touch": ["Pod", "demo-0"] } } },
                { "after": after, "what": { "fault": { "wipe": "demo-0" } } },
            ],
        }));
    }
}

#[test]
fn h07_a_learner_makes_way_where_a_voter_in_memory_is_lost_beside_it() {
    let memory = |size: u32| {
        json!({
            "size": size, "version": "3.6.16", "tls": { "provider": "disabled" },
            "storageSpec": { "medium": "Memory" },
        })
    };
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
            "spec": size(3),
            "departures": [
                { "after": 8, "what": { "fault": { "touch": ["Service", "demo"] } } },
                { "after": after, "what": { "fault": { "wipe": "demo-0" } } },
                { "after": 30, "what": { "edit": { "size": 0 } } },
            ],
        }));
    }
}
