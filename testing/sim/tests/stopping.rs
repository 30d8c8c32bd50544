//! Pods take time to stop: a Pod that is being deleted stays, and its etcd may serve, until its kubelet confirms.

use quorate_sim::history::{ends_well, plain};
use serde_json::json;

#[test]
fn a_deleted_pod_serves_on_until_its_kubelet_confirms_and_is_then_created_again() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        ends_well(&json!({
            "before": [plain(3)], "spec": plain(3),
            "departures": [{ "at": "rest", "what": { "fault": { "delete-pod": member } } }],
        }));
    }
}

#[test]
fn a_scale_in_ends_although_the_pod_of_the_removed_member_takes_time_to_stop() {
    ends_well(&json!({
        "before": [plain(3)], "spec": plain(2),
        "departures": [{ "at": "before:S4", "what": { "fault": { "lingers": "demo-2" } } }],
    }));
}

#[test]
fn s02_no_healthy_voter_is_disrupted_while_the_pod_of_another_is_terminating() {
    let label = json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } });
    for member in ["demo-0", "demo-1", "demo-2"] {
        for edited in 0..6 {
            ends_well(&json!({
                "before": [plain(3)], "spec": plain(3),
                "departures": [
                    { "at": "rest", "what": { "fault": { "delete-pod": member } } },
                    { "at": format!("+{edited}"), "what": { "edit": label } },
                ],
            }));
        }
    }
}
