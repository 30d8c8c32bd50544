//! A cluster whose data are replaced by those of a snapshot, in place: no member of the old incarnation serves beside one of the new,
//! whatever happens on the way.

use quorate_manifests::record::witness;
use quorate_model::Step;
use quorate_sim::explore::{Scope, explore};
use quorate_sim::history::{History, ends_well, plain, sound_story};
use quorate_sim::world::faults::{Fault, Hits};
use quorate_sim::world::wire::RequestOutcome;
use serde_json::{Value, json};

/// A cluster of this size that is at rest when a person orders a restore, with departures as pairs of a moment and what happens then.
fn ordered(size: u32, departures: Value) -> Value {
    let departures: Vec<(Value, Value)> = serde_json::from_value(departures).expect("pairs");
    let order = (json!("rest"), json!({ "edit": { "etcdRestore": "back" } }));
    let departures: Vec<Value> = std::iter::once(order)
        .chain(departures)
        .map(|(at, what)| json!({ "at": at, "what": what }))
        .collect();
    json!({ "spec": plain(size), "departures": departures })
}

fn of(fault: &str, member: &str) -> Value {
    json!({ "fault": { fault: member } })
}

#[test]
fn a_cluster_begins_again_with_the_snapshot_under_another_id_and_other_names() {
    for size in [1, 3] {
        ends_well(&ordered(size, json!([])));
    }
}

#[test]
fn an_operator_that_dies_at_any_step_of_it_carries_it_to_its_end() {
    // A record is written with the pass: there is a moment after it, and none before it.
    let records = ["J1", "J3", "B1#3", "B6#2"].map(|step| format!("after:{step}"));
    let sent = ["J2", "J3#2", "B3#5", "B4#5", "BR#5"];
    let sent = sent.iter().flat_map(|step| [format!("before:{step}"), format!("after:{step}")]);
    for at in records.into_iter().chain(sent) {
        ends_well(&ordered(3, json!([[at, { "fault": "crash" }]])));
    }
}

#[test]
fn an_order_that_is_deleted_before_every_member_was_stopped_is_withdrawn_and_later_carried_out() {
    let deleted = json!({ "edit": { "etcdRestore": { "deleted": "back" } } });
    for at in ["after:J1", "after:J2", "after:J2#2", "after:J2#3", "after:J3", "after:J4"] {
        ends_well(&ordered(3, json!([[at, deleted]])));
    }
}

#[test]
fn a_snapshot_of_before_an_earlier_restore_is_raised_above_what_clients_know_since() {
    for size in [1, 3] {
        ends_well(&ordered(size, json!([["rest", { "edit": { "etcdRestore": "again" } }]])));
    }
}

#[test]
fn a_second_order_that_names_the_same_cluster_changes_nothing_once_the_first_is_done() {
    for at in ["after:J1", "after:J3"] {
        let second = json!([[at, { "edit": { "etcdRestore": "other" } }]]);
        ends_well(&ordered(3, second));
    }
}

#[test]
fn an_edit_or_the_deletion_of_the_cluster_on_the_way_ends_well() {
    for at in ["after:J1", "after:J2#2", "after:J3", "after:J4", "after:B4#4"] {
        for edit in [json!({ "size": 1 }), json!({ "size": 5 })] {
            ends_well(&ordered(3, json!([[at, { "edit": edit }]])));
        }
        ends_well(&ordered(3, json!([[at, "delete"]])));
        let sleeps = json!([[at, { "edit": { "size": 0 } }], ["rest", { "edit": { "size": 3 } }]]);
        ends_well(&ordered(3, sleeps));
        let paused = json!([[at, { "edit": { "paused": true } }], ["rest", { "edit": { "paused": false } }]]);
        ends_well(&ordered(3, paused));
    }
}

#[test]
fn it_helps_a_cluster_whose_quorum_or_whose_member_is_lost() {
    let order = json!({ "edit": { "etcdRestore": "back" } });
    for lost in [&["demo-1"][..], &["demo-1", "demo-2"]] {
        let wiped = lost.iter().map(|member| json!({ "at": "rest", "what": of("wipe", member) }));
        let departures: Vec<Value> = wiped.chain([json!({ "at": "+1", "what": order })]).collect();
        sound_story(&json!({ "spec": plain(3), "departures": departures }));
    }
}

#[test]
fn a_pod_of_an_old_member_that_is_created_late_gets_no_client_and_is_deleted() {
    let late = json!({ "fault": { "request": "late" } });
    let trace = json!({ "spec": plain(1), "departures": [
        { "at": "rest", "what": of("kill-pod", "demo-0") },
        { "at": "before:W1", "what": late },
        { "at": "+1", "what": { "edit": { "etcdRestore": "back" } } },
    ]});
    sound_story(&trace);
}

fn explored(name: &'static str, size: u32, faults: u32, strikes: fn(&Fault) -> bool) {
    let scope = Scope {
        name,
        before: vec![plain(size)],
        spec: plain(size),
        edits: vec![json!({ "etcdRestore": "back" })],
        faults,
        strikes,
        wide: false,
        harmless: false,
        max_states: 3_000_000,
    };
    match explore(&scope) {
        Ok(explored) => {
            println!("explored {name} with {faults} faults: states {}", explored.states);
            assert!(!explored.cut, "{name}: more states than {}", scope.max_states);
            for step in [Step::J1, Step::J2, Step::J3, Step::J4] {
                assert!(
                    explored.covered.iter().any(|(covered, _)| *covered == step),
                    "{step} is not reached"
                );
            }
        }
        Err(failure) => panic!("{name}: {}", failure.report()),
    }
}

fn of_the_operator(fault: &Fault) -> bool {
    fault.entry().hits == Hits::Operator
}

#[test]
fn every_history_of_a_restore_in_place_of_one_with_a_fault() {
    explored("restore in place of 1", 1, 1, |_| true);
}

#[test]
fn every_history_of_a_restore_in_place_of_three_with_a_fault_of_the_operator() {
    explored("restore in place of 3", 3, 1, of_the_operator);
}

#[test]
fn every_history_of_a_restore_in_place_of_one_with_two_crashes_or_lost_or_late_requests() {
    explored("restore in place of 1, the operator's own", 1, 2, |fault| {
        let is_lost = |outcome: &RequestOutcome| {
            matches!(outcome, RequestOutcome::ReplyLost | RequestOutcome::Lost | RequestOutcome::Late)
        };
        matches!(fault, Fault::Crash) || matches!(fault, Fault::Request(outcome) if is_lost(outcome))
    });
}

/// The definition of another program: it drops these fields of status, also of what was stored earlier.
fn another_definition() -> Value {
    json!({ "edit": { "definition": { "lacks": ["replacing", "incarnation", "bootstrap/restore"] } } })
}

#[test]
fn m07_an_order_that_the_definition_cannot_record_stops_nothing() {
    let history = json!({
        "spec": plain(3),
        "departures": [
            { "at": "rest", "what": another_definition() },
            { "at": "rest", "what": { "edit": { "etcdRestore": "back" } } },
        ],
    });
    let history: History = serde_json::from_value(history).expect("a history");
    let story = history.story();
    assert!(story.all_came_about(), "{story}");
    let told = story.to_string();
    for step in ["J2", "J3", "J4", "B1#2", "B3#4"] {
        assert!(!told.contains(&format!(" {step}: ")), "{step} was carried out: {story}");
    }
    assert!(told.contains("status.recordHash"), "{story}");
}

#[test]
fn l01_a_definition_that_forgets_in_the_middle_of_a_restore_starts_no_empty_member() {
    let order = json!({ "edit": { "etcdRestore": "back" } });
    let mut happened = 0;
    for at in ["after:J1#1", "after:J3#1", "after:J4#1", "before:B4#4", "after:B4#4", "before:B6#2"] {
        for then in [None, Some("crash")] {
            let mut departures = vec![
                json!({ "at": "rest", "what": order }),
                json!({ "at": at, "what": another_definition() }),
            ];
            departures.extend(then.map(|fault| json!({ "at": "+1", "what": { "fault": fault } })));
            let history = json!({ "spec": plain(3), "departures": departures });
            let history: History = serde_json::from_value(history).expect("a history");
            let story = history.story();
            happened += usize::from(story.all_came_about());
            let told = story.to_string();
            let since = told.split("definition").nth(1).unwrap_or_default();
            assert!(!since.contains("(new;"), "an empty member is started: {story}");
            for property in ["A1", "A2", "S1", "R1"] {
                assert!(!told.contains(&format!("VIOLATED {property}")), "{story}");
            }
        }
    }
    assert!(happened >= 8, "{happened}");
}

#[test]
fn l01_a_record_that_is_put_right_or_confirmed_goes_on_with_what_was_begun() {
    let order = json!({ "edit": { "etcdRestore": "back" } });
    for field in ["replacing", "members", "recordHash", "formatVersion"] {
        for at in ["after:J1#1", "before:J3#1"] {
            let spoil = json!({ "fault": { "spoil-status": field } });
            let departures = [("rest", order.clone()), (at, spoil)];
            let departures = departures.map(|(at, what)| json!({ "at": at, "what": what }));
            ends_well(&json!({ "spec": plain(3), "wide": true, "departures": departures }));
        }
    }
    let mut world = History { spec: plain(3), ..History::default() }.start();
    while world.go().is_some() {}
    world.edit(&another_definition()).unwrap();
    world.edit(&order["edit"]).unwrap();
    while world.go().is_some() {}
    world.edit(&json!({ "definition": {} })).unwrap();
    let hash = witness::hash(&world.cluster().unwrap().status.unwrap());
    let confirm = json!({ "metadata": { "annotations": { "operator.etcd.io/confirm-record": hash } } });
    world.edit(&confirm).unwrap();
    while world.go().is_some() {}
    world.judge_rest();
    assert_eq!(world.oracle.violation(), None, "the order is carried out");
}
