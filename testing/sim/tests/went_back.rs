//! Storage snapshots of earlier take the place of volumes while the cluster sleeps. etcd serves them as if nothing had happened.

use quorate_sim::history::{ends_well, plain, sound_story};
use serde_json::{Value, json};

const EVERY_VOLUME: &str = "";

/// A cluster of this size sleeps, these volumes go back, and it wakes, with these departures.
fn wakes(size: u32, went_back: &[&str], then: &[(&str, Value)]) -> Value {
    let mut departures: Vec<Value> = went_back
        .iter()
        .map(|member| json!({ "at": 0, "what": { "fault": { "went-back": member } } }))
        .collect();
    departures.extend(then.iter().map(|(at, what)| json!({ "at": at, "what": what })));
    json!({ "before": [plain(size), plain(0)], "spec": plain(size), "wide": true, "departures": departures })
}

#[test]
fn a_cluster_that_wakes_with_older_data_serves_no_client_until_a_person_accepts_that() {
    for size in [1, 3] {
        let story = sound_story(&wakes(size, &[EVERY_VOLUME], &[]));
        assert!(story.all_came_about(), "{story}");
        assert!(story.to_string().contains("a person accepts that the data went back"), "{story}");
    }
}

#[test]
fn a_quorum_of_volumes_that_went_back_is_noticed_where_nobody_has_the_later_data() {
    let slow = ("+0", json!({ "fault": { "stays": { "lose-node": "demo-2" } } }));
    let _ = slow;
    ends_well(&wakes(3, &["demo-0", "demo-1"], &[]));
}

#[test]
fn one_volume_that_went_back_gets_what_it_lacks_from_the_others() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        let story = sound_story(&wakes(3, &[member], &[]));
        assert!(story.all_came_about(), "{story}");
        assert!(!story.to_string().contains("accepts that the data went back"), "{story}");
    }
}

/// The operator dies, or its requests are lost, at any step of waking.
#[test]
fn whatever_becomes_of_the_operator_meanwhile_no_client_is_sent_to_data_that_went_back() {
    let faults = ["crash", "two-lead", "paused"].map(|fault| json!({ "fault": fault }));
    let requests = ["lost", "reply-lost", "late", "raced"].map(|how| json!({ "fault": { "request": how } }));
    for fault in faults.into_iter().chain(requests) {
        for at in ["before:W1", "after:W1#3", "before:K2", "before:Z3", "after:Z3"] {
            sound_story(&wakes(3, &[EVERY_VOLUME], &[(at, fault.clone())]));
        }
    }
}

/// A person restores the later volumes after all is not in this world, so the cluster sleeps again, and is accepted then.
#[test]
fn a_cluster_that_went_back_sleeps_and_wakes_again_as_it_is() {
    let edit = |size: u32| json!({ "edit": { "size": size } });
    let story = sound_story(&wakes(3, &[EVERY_VOLUME], &[("after:W1#3+4", edit(0)), ("rest", edit(3))]));
    assert!(story.to_string().contains("a person accepts that the data went back"), "{story}");
}
