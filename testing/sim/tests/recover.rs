//! A quorum is lost for good, and a person orders to go on with what one member has: nothing that a member has left is given up by the choice,
//! no old quorum serves beside the new cluster, and a crash at any step changes nothing of that.

use quorate_model::incarnation::Order;
use quorate_model::quorum_recovery::RecoverFrom;
use quorate_sim::history::{History, Replay, ends_well, plain, sound_story};
use quorate_sim::world::World;
use serde_json::{Value, json};

const ANNOTATION: &str = "operator.etcd.io/recover-quorum-from";

fn of(fault: &str, member: &str) -> Value {
    json!({ "fault": { fault: member } })
}

fn order(from: Option<&str>) -> Value {
    json!({ "edit": { "metadata": { "annotations": { ANNOTATION: from } } } })
}

/// A cluster of three at rest loses the disks of two, and a person orders to recover it. Then departures, as pairs of a moment and what
/// happens then.
fn lost(from: &str, departures: Value) -> Value {
    let departures: Vec<(Value, Value)> = serde_json::from_value(departures).expect("pairs");
    let first = [
        (json!("rest"), of("wipe", "demo-1")),
        (json!("+1"), of("kill-pod", "demo-1")),
        (json!("+1"), of("wipe", "demo-2")),
        (json!("+1"), of("kill-pod", "demo-2")),
        (json!("rest"), order(Some(from))),
    ];
    let departures: Vec<Value> =
        first.into_iter().chain(departures).map(|(at, what)| json!({ "at": at, "what": what })).collect();
    json!({ "spec": plain(3), "departures": departures })
}

/// The end of a history in which the quorum is recovered.
fn recovered(history: &Value) -> World {
    let history: History = serde_json::from_value(history.clone()).expect("a history");
    let story = history.story();
    assert_eq!(story.violation(), None, "{story}");
    assert!(story.all_came_about(), "{story}");
    let mut replay = Replay::of(&history);
    for _ in replay.by_ref() {}
    let world = replay.world;
    let record = world.record();
    assert!(record.incarnation.is_some(), "{story}");
    assert_eq!(record.voters().count(), 3, "{story}");
    assert_eq!(world.goal(), Ok(()), "{story}");
    world
}

#[test]
fn a_cluster_of_three_of_which_one_disk_is_left_comes_back_with_its_data_under_another_id() {
    let world = recovered(&lost("auto", json!([])));
    let record = world.record();
    let present = record.incarnation.as_ref().expect("another incarnation");
    assert_eq!(present.order, Order::Recovery { from: RecoverFrom::Auto });
    let old = world.etcd.group(present.replaced).expect("it existed");
    let new = world.etcd.group(record.cluster_id.expect("it is bootstrapped")).expect("it exists");
    let before: Vec<u64> = old.writes().collect();
    assert!(!before.is_empty());
    assert_eq!(new.began_with().expect("it was restored").writes, before, "all that was acknowledged");
}

#[test]
fn a_recovery_ends_well_from_a_member_that_is_named() {
    recovered(&lost("demo-0", json!([])));
}

#[test]
fn an_operator_that_dies_at_any_step_of_it_carries_it_to_its_end() {
    // A record is written with the pass: there is no moment before it. After the last effect of a pass nothing is under way.
    let after = ["Q1", "Q2", "Q2#2", "Q2#4", "Q6", "J2", "J3"].map(|step| format!("after:{step}"));
    let before = ["Q2", "Q2#2", "Q2#4", "Q5", "Q5#2", "J2"].map(|step| format!("before:{step}"));
    for at in after.into_iter().chain(before) {
        recovered(&lost("auto", json!([[at, { "fault": "crash" }]])));
    }
}

#[test]
fn an_order_that_is_withdrawn_leaves_the_members_as_they_were() {
    for at in ["after:Q1", "after:Q2", "after:Q2#3", "after:Q4", "after:Q5", "after:Q6"] {
        sound_story(&lost("auto", json!([[at, order(None)]])));
    }
}

#[test]
fn an_order_that_is_edited_on_the_way_ends_well() {
    for at in ["after:Q1", "after:Q2#2", "after:Q4", "after:Q5", "after:Q6"] {
        recovered(&lost("auto", json!([[at, order(Some("demo-0"))]])));
    }
}

#[test]
fn an_order_while_a_quorum_answers_changes_nothing_and_is_not_followed_when_the_quorum_is_lost_later() {
    ends_well(&json!({ "spec": plain(3), "departures": [{ "at": "rest", "what": order(Some("auto")) }] }));
    let departures = [
        (json!("rest"), order(Some("auto"))),
        (json!("rest"), of("wipe", "demo-1")),
        (json!("+1"), of("kill-pod", "demo-1")),
        (json!("+1"), of("wipe", "demo-2")),
        (json!("+1"), of("kill-pod", "demo-2")),
    ];
    let departures: Vec<Value> =
        departures.into_iter().map(|(at, what)| json!({ "at": at, "what": what })).collect();
    let history = json!({ "spec": plain(3), "departures": departures });
    let mut world = serde_json::from_value::<History>(history).expect("a history").start();
    while world.go().is_some() {}
    assert_eq!(world.oracle.violation(), None);
    assert_eq!(world.record().incarnation, None, "nobody ordered it for this loss");
}

/// Two members are out of reach and run: their Pods were deleted by force while their nodes do not report.
#[test]
fn h27_an_old_majority_behind_a_partition_holds_a_recovery_up_until_its_nodes_are_gone() {
    let departures = [
        (json!("rest"), of("lose-node", "demo-1")),
        (json!("+1"), of("lose-node", "demo-2")),
        (json!("rest"), order(Some("auto"))),
    ];
    let departures: Vec<Value> =
        departures.into_iter().map(|(at, what)| json!({ "at": at, "what": what })).collect();
    sound_story(&json!({ "spec": plain(3), "departures": departures }));
}
