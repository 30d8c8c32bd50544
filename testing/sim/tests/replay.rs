//! Departures happen at the moments that a trace names: at crash points, after steps of the history, and at rest.

use quorate_sim::history::replay::Event;
use quorate_sim::history::{History, Replay, plain};
use serde_json::{Value, json};

fn history(departures: &Value) -> History {
    let trace = json!({ "spec": plain(3), "departures": departures });
    serde_json::from_value(trace).expect("a trace")
}

/// The departures, each with its moment and whether it happened.
fn departures(history: &History) -> Vec<String> {
    Replay::of(history)
        .filter_map(|line| match line.event {
            Event::Departure { what, at, came_about } => Some(format!("{at} {what} {came_about}")),
            Event::NeverReached(departure) => Some(format!("{} never", departure.at)),
            Event::Due { .. } | Event::Violated(_) => None,
        })
        .collect()
}

#[test]
fn a_departure_happens_at_the_crash_point_that_it_names() {
    let history = history(&json!([
        { "at": "before:B4", "what": { "fault": "crash" } },
        { "at": "after:B4#2", "what": { "fault": { "slow": "demo-1" } } },
        { "at": "+0", "what": { "fault": "crash" } },
        { "at": "rest", "what": { "edit": { "size": 2 } } },
        { "at": "after:D3", "what": "delete" },
    ]));
    let expected = [
        "before:B4#1 FAULT: the operator dies and starts again true",
        "after:B4#2 FAULT: Pod demo-1 does not start for a long time true",
        "+0 FAULT: the operator dies and starts again true",
        r#"rest EDIT: {"size":2} true"#,
        "after:D3#1 never",
    ];
    assert_eq!(departures(&history), expected);
    let story = history.story();
    assert_eq!(story.violation(), None, "{story}");
    assert!(!story.all_came_about(), "the cluster is not deleted");
}

#[test]
fn a_history_whose_moments_are_named_is_the_same_history() {
    for step in 0..60 {
        let history = history(&json!([
            { "at": 7, "what": { "fault": { "slow": "demo-0" } } },
            { "at": step, "what": { "fault": { "kill-pod": "demo-1" } } },
            { "at": step, "what": { "edit": { "size": 4 } } },
        ]));
        let named = history.with_named_moments();
        let events =
            |history: &History| -> Vec<Event> { Replay::of(history).map(|line| line.event).collect() };
        assert_eq!(events(&named), events(&history), "{named:?}");
    }
}

#[test]
fn the_world_is_described_as_it_is_at_a_moment() {
    let mut replay = Replay::of(&history(&json!([])));
    replay.find(|line| matches!(&line.event, Event::Due { words, .. } if words.starts_with("B4")));
    let before = replay.world.describe();
    let text = before.to_string();
    for part in ["attempt 1", "next  B4: create Pod demo-1", "Pod demo-0 (uid", "gated"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    replay.by_ref().for_each(drop);
    let after = replay.world.describe();
    assert!(after.to_string().contains("led by demo-"), "{after}");
    assert!(after.changes_since(&before).iter().any(|line| line.starts_with("+ etcd: cluster")));
    assert!(after.changes_since(&after).is_empty());
}
