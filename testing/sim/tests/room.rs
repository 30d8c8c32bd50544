//! Sizes: volumes, databases, and a follower that needs a snapshot of the leader's database beside its own file.

use quorate_model::MemberName;
use quorate_sim::history::{History, Replay, plain, sound_story};
use quorate_sim::oracle::Property;
use serde_json::{Value, json};

/// Three members on volumes of 2 GiB: demo-1 is away, or lags, while clients write more than the log is kept for.
fn away(mib: u64, away: &str, size: u32) -> Value {
    let mut spec = plain(size);
    spec["storageSpec"]["volumeSizeRequest"] = json!("2Gi");
    let fault = |at: &Value, fault: Value| json!({ "at": at, "what": { "fault": fault } });
    let departures = [
        fault(&json!(0), json!({ "many-writes": mib })),
        fault(&json!("+1"), json!({ away: "demo-1" })),
        fault(&json!("+0"), json!({ "many-writes": mib })),
    ];
    json!({ "before": [spec], "spec": spec, "departures": departures, "wide": true })
}

/// The ID of demo-1 when such a history has come to rest.
fn id(history: &History) -> String {
    let mut replay = Replay::of(history);
    for _ in replay.by_ref() {}
    let record = replay.world.record();
    record.members[&MemberName::new("demo-1")].id.expect("it was a voter").to_string()
}

#[test]
fn m52_a_follower_without_room_for_the_snapshot_that_it_needs_is_replaced_on_order_only() {
    for (cause, size) in [("cut", 3), ("lag", 3), ("lose-node", 5)] {
        let mut trace = away(1000, cause, size);
        let history: History = serde_json::from_value(trace.clone()).expect("a history");
        let violated = history.story().violation().map(|violation| violation.property);
        assert_eq!(violated, Some(Property::GoalIsReached), "it stands still as long as it is not replaced");
        let order = json!({ "operator.etcd.io/replace-member": format!("demo-1/{}", id(&history)) });
        let edit = json!({ "at": "rest", "what": { "edit": { "metadata": { "annotations": order } } } });
        trace["departures"].as_array_mut().expect("a list").push(edit);
        let story = sound_story(&trace);
        assert!(story.all_came_about(), "{story}");
        let told = story.to_string();
        assert!(told.contains("MemberRemove demo-1") && !told.contains("a person scales"), "{told}");
    }
}

#[test]
fn m52_a_follower_with_room_for_the_snapshot_catches_up() {
    for cause in ["cut", "lag"] {
        let story = sound_story(&away(700, cause, 3));
        assert!(story.all_came_about(), "{story}");
        assert!(!story.to_string().contains("MemberRemove"), "{story}");
    }
}

/// It is reported, and nobody is given up: a new volume of that size would not have the room either. It catches up once its volume has grown.
#[test]
fn m52_nobody_is_replaced_where_a_new_volume_has_no_room_either() {
    let mut trace = away(1600, "cut", 3);
    let larger = json!({ "storageSpec": { "volumeSizeRequest": "5Gi" } });
    let edit = json!({ "at": "rest", "what": { "edit": larger } });
    trace["departures"].as_array_mut().expect("a list").push(edit);
    let story = sound_story(&trace);
    assert!(story.all_came_about(), "{story}");
    let told = story.to_string();
    let at = |what| told.find(what).unwrap_or_else(|| panic!("{what}:\n{told}"));
    assert!(at("EDIT") < at("expand volume demo-1"), "{told}");
    assert!(!told.contains("MemberRemove"), "{told}");
}
