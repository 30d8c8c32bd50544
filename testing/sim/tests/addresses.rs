//! Addresses are used again, and clients use the names of members: who answers is not always who was meant.

use quorate_sim::history::{History, plain};
use serde_json::{Value, json};

/// The histories end without a violation, and in at least one of them all departures happened.
#[track_caller]
fn all_end_well(histories: impl IntoIterator<Item = Value>) {
    let mut came_about = false;
    for history in histories {
        let history: History = serde_json::from_value(history).expect("a history");
        let story = history.story();
        assert_eq!(story.violation(), None, "{story}");
        came_about |= story.all_came_about();
    }
    assert!(came_about, "in no history all departures happened");
}

fn fault(at: &str, fault: &Value) -> Value {
    json!({ "at": at, "what": { "fault": fault } })
}

#[test]
fn a_member_of_another_cluster_at_an_address_of_ours_is_never_called_and_never_believed() {
    for size in [4, 2] {
        for member in ["demo-0", "demo-1", "demo-2"] {
            all_end_well((0..40).map(|at| {
                json!({
                    "before": [plain(3)], "spec": plain(size), "wide": true,
                    "departures": [{ "at": at, "what": { "fault": { "others-take-address": member } } }],
                })
            }));
        }
    }
}

#[test]
fn the_answer_of_a_member_at_the_address_of_another_is_not_taken_for_that_of_the_other() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        all_end_well((0..8).flat_map(|killed| {
            (1..5).map(move |stale| {
                json!({
                    "before": [plain(3)], "spec": plain(4), "wide": true,
                    "departures": [
                        fault("before:G3", &json!({ "reuse-address": member })),
                        fault(&format!("+{killed}"), &json!({ "kill-pod": member })),
                        fault(&format!("+{stale}"), &json!({ "stale": ["Pod", 1] })),
                    ],
                })
            })
        }));
    }
}

#[test]
fn clients_that_use_the_names_of_members_lose_nothing_once_the_cluster_has_its_id() {
    for size in [1, 3] {
        all_end_well([json!({
            "spec": plain(size), "wide": true,
            "departures": [fault("+0", &json!("clients-on-names"))],
        })]);
    }
}
