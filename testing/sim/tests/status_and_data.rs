//! The status of an EtcdCluster is lost together with the data of a member. As long as the volumes of a quorum name the cluster, the operator
//! knows everything that it needs: the goal is demanded.

use quorate_sim::history::{ends_well, plain};
use serde_json::{Value, json};

const AT_ONCE: &str = "+0";
const AT_REST: &str = "rest";

/// What may become of the data of a member, as faults that strike one after the other.
fn losses(member: &str) -> Vec<Vec<Value>> {
    let of = |fault: &str| json!({ "fault": { fault: member } });
    vec![
        vec![of("lose-volume")],
        vec![of("wipe")],
        vec![of("node-gone")],
        vec![of("node-created-again")],
        vec![of("delete-claim"), of("kill-pod")],
    ]
}

fn lose_status() -> Value {
    json!({ "fault": "lose-status" })
}

/// A cluster of this size at rest when this happens, each thing at its moment.
fn history(spec: &Value, departures: &[(&str, Value)]) -> Value {
    let departures: Vec<Value> =
        departures.iter().map(|(at, what)| json!({ "at": at, "what": what })).collect();
    json!({ "spec": spec, "wide": true, "departures": departures })
}

/// The first of these at rest, and the others at once.
fn at_rest(what: impl IntoIterator<Item = Value>) -> Vec<(&'static str, Value)> {
    let mut all: Vec<_> = what.into_iter().map(|what| (AT_ONCE, what)).collect();
    all[0].0 = AT_REST;
    all
}

#[test]
fn m61_a_member_whose_data_are_lost_with_the_status_is_replaced() {
    for member in ["demo-0", "demo-2"] {
        for loss in losses(member) {
            let first = loss.iter().cloned().chain([lose_status()]);
            ends_well(&history(&plain(3), &at_rest(first)));
            let last = [lose_status()].into_iter().chain(loss);
            ends_well(&history(&plain(3), &at_rest(last)));
        }
    }
}

#[test]
fn m61_two_of_five_members_whose_data_are_lost_with_the_status_are_replaced() {
    for (one, other) in losses("demo-1").into_iter().zip(losses("demo-4")) {
        let all = one.into_iter().chain([lose_status()]).chain(other);
        ends_well(&history(&plain(5), &at_rest(all)));
    }
}

/// The replacement is under way when the status is lost, or the operator dies between its steps.
#[test]
fn m61_a_status_that_is_lost_while_a_member_is_being_replaced_does_not_end_the_replacement() {
    let lost = || json!({ "fault": { "lose-volume": "demo-1" } });
    for at in
        ["after:P0", "before:P1", "after:P1", "before:P3", "after:P3", "after:G3", "before:G6", "after:P7"]
    {
        ends_well(&history(&plain(3), &[(AT_REST, lost()), (at, lose_status())]));
    }
    for at in ["before:P3", "before:G3", "before:G4", "before:G6"] {
        let crash = json!({ "fault": "crash" });
        ends_well(&history(&plain(3), &[(AT_REST, lost()), (AT_ONCE, lose_status()), (at, crash)]));
    }
}

/// What is due when the status is lost is done with what the volumes record.
#[test]
fn m61_an_edit_after_status_and_data_were_lost_is_carried_out() {
    for edit in [json!({ "size": 4 }), json!({ "size": 2 }), json!({ "version": "3.7.0" })] {
        let all = [lose_status(), json!({ "fault": { "lose-volume": "demo-2" } }), json!({ "edit": edit })];
        ends_well(&history(&plain(3), &at_rest(all)));
    }
    // At size zero there is no Pod that could be asked for its list.
    let sleeps = (AT_REST, json!({ "edit": { "size": 0 } }));
    let wakes = (AT_REST, json!({ "edit": { "size": 3 } }));
    ends_well(&history(&plain(3), &[sleeps.clone(), (AT_REST, lose_status()), wakes.clone()]));
    let lost = (AT_ONCE, json!({ "fault": { "lose-volume": "demo-2" } }));
    ends_well(&history(&plain(3), &[sleeps, (AT_REST, lose_status()), lost, wakes]));
}

/// In histories that are not wide.
fn plain_history(before: &[u32], size: u32, departures: &[(&str, Value)]) -> Value {
    let departures: Vec<Value> =
        departures.iter().map(|(at, what)| json!({ "at": at, "what": what })).collect();
    let before: Vec<Value> = before.iter().map(|size| plain(*size)).collect();
    json!({ "before": before, "spec": plain(size), "departures": departures })
}

#[test]
fn m61_a_member_that_dies_at_its_promotion_as_the_status_is_lost_is_started_again() {
    let dies = || json!({ "fault": { "kill-pod": "demo-1" } });
    for at in ["before:G6", "after:G6", "after:K1#3", "after:K1#4"] {
        ends_well(&plain_history(&[1], 2, &[(at, dies()), (AT_ONCE, lose_status())]));
    }
}

/// The API server accepts such an edit until the cluster id is recorded, and the members have a leader by then.
#[test]
fn m61_an_edit_of_what_is_fixed_that_was_not_carried_out_is_not_after_the_status_was_lost_either() {
    let edit = |edit: Value| json!({ "edit": edit });
    for (at, what) in [
        ("after:BR#1", edit(json!({ "tls": null }))),
        ("after:BR#1", edit(json!({ "storageSpec": { "medium": "Memory" } }))),
        ("before:B6#1", edit(json!({ "storageSpec": null }))),
    ] {
        ends_well(&plain_history(&[], 1, &[(at, what), (AT_REST, lose_status())]));
    }
}

/// The order is recorded nowhere else, and the volumes of the members before are quarantined: a person decides, and status says how.
#[test]
fn m61_where_the_status_is_lost_between_two_incarnations_a_person_is_asked_about_the_quarantined_volumes() {
    let order = (AT_REST, json!({ "edit": { "etcdRestore": "back" } }));
    let history = plain_history(&[], 1, &[order, ("after:J4#1", lose_status())]);
    let story = quorate_sim::history::sound_story(&history);
    let asked =
        "Quarantined volumes (demo-0) are never served: to serve their data, first remove the annotation";
    assert!(story.all_came_about() && story.to_string().contains(asked), "{story}");
}

/// Nothing says any more which cluster it was: a quorum of the volumes is lost with the status.
#[test]
fn m61_the_last_copy_of_a_name_is_not_lost() {
    let lost = json!({ "fault": { "lose-volume": "demo-0" } });
    let story = quorate_sim::history::sound_story(&history(&plain(1), &at_rest([lose_status(), lost])));
    assert!(!story.all_came_about(), "no rule can hold");
}
