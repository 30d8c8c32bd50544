//! R24: a client that is pinned to one endpoint of the client Service is served while a quorum serves.

use quorate_sim::history::{ends_well, plain, sound_story};
use serde_json::{Value, json};

fn history(sizes: [u32; 2], departures: &Value) -> Value {
    json!({ "before": [plain(sizes[0])], "spec": plain(sizes[1]), "wide": true, "departures": departures })
}

#[test]
fn m05_clients_are_not_sent_to_a_member_that_its_peers_do_not_reach() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        let cut = json!({ "fault": { "stays": { "cut-from-peers": member } } });
        ends_well(&history([3, 3], &json!([{ "at": "rest", "what": cut }])));
    }
    let two = json!([
        { "at": "rest", "what": { "fault": { "stays": { "cut-from-peers": "demo-1" } } } },
        { "at": "+0", "what": { "fault": { "stays": { "cut-from-peers": "demo-4" } } } },
    ]);
    ends_well(&history([5, 5], &two));
}

/// Whatever happens at the moment at which clients are led away or back, they are, in the end.
#[test]
fn m05_a_fault_at_the_step_that_leads_clients_away_ends_well() {
    let cut = json!({ "at": "rest", "what": { "fault": { "stays": { "cut-from-peers": "demo-1" } } } });
    for fault in [
        json!("crash"),
        json!("two-lead"),
        json!("paused"),
        json!({ "request": "reply-lost" }),
        json!({ "request": "lost" }),
        json!({ "request": "late" }),
        json!({ "request": "raced" }),
        json!({ "kill-pod": "demo-1" }),
        json!({ "kill-pod": "demo-2" }),
    ] {
        for moment in ["before:K2", "after:K2"] {
            // Between two passes no operator dies.
            sound_story(&history([3, 3], &json!([cut, { "at": moment, "what": { "fault": fault } }])));
        }
    }
}

/// The time for which clients leave is on the Pod: no operator that dies repeats or shortens it.
#[test]
fn m12_a_fault_between_the_steps_that_lead_clients_away_and_remove_their_member_ends_well() {
    for fault in [
        json!("crash"),
        json!("two-lead"),
        json!("paused"),
        json!({ "request": "reply-lost" }),
        json!({ "request": "lost" }),
        json!({ "request": "late" }),
        json!({ "request": "twice" }),
        json!({ "kill-pod": "demo-0" }),
        json!({ "kill-pod": "demo-2" }),
        json!({ "cut": "demo-1" }),
        json!({ "cut-from-peers": "demo-1" }),
    ] {
        for moment in ["before:K2", "after:K2", "before:S3", "after:S3"] {
            sound_story(&history([3, 2], &json!([{ "at": moment, "what": { "fault": fault } }])));
        }
    }
    for moment in ["before:K2", "after:K2", "after:S3"] {
        ends_well(&history([3, 2], &json!([{ "at": moment, "what": { "edit": plain(3) } }])));
    }
}

#[test]
fn m12_an_operator_that_forgot_that_a_member_leaves_does_not_lead_clients_to_it_and_remove_it() {
    ends_well(&json!({
        "before": [plain(3)], "spec": plain(2),
        "departures": [
            { "at": "before:S3#1", "what": { "fault": "lose-status" } },
            { "at": "+0", "what": { "fault": { "kill-process": "demo-1" } } },
        ],
    }));
}

/// A claim is deleted beside a volume that is empty, so its member is moved. A clock is set while clients leave it, and the operator that
/// observes does not know it yet.
#[test]
fn m08_a_member_is_not_removed_before_clients_have_left_it_by_a_clock_that_is_wrong() {
    sound_story(&json!({
        "before": [],
        "spec": {
            "size": 3, "version": "3.6.16", "storageSpec": { "volumeSizeRequest": "1Gi" }, "tls": { "provider": "disabled" },
        },
        "wide": true,
        "departures": [
            { "at": "after:B7#1+1", "what": { "fault": { "stays": { "empty-mount": "demo-0" } } } },
            { "at": "rest", "what": { "fault": { "delete-claim": "demo-0" } } },
            { "at": "after:K2#1", "what": { "fault": { "clock-set": ["operator-while-it-observes", 34_560_000] } } },
        ],
    }));
}
