//! A member that answers and stores nothing is not healthy, whatever it says: histories in which the operator has to notice.

use quorate_sim::history::{History, Story, plain};
use serde_json::{Value, json};

fn story(before: &[u32], size: u32, departures: &Value) -> Story {
    let before: Vec<Value> = before.iter().map(|size| plain(*size)).collect();
    let trace = json!({ "before": before, "spec": plain(size), "departures": departures, "wide": true });
    let history: History = serde_json::from_value(trace).expect("a trace");
    history.story()
}

#[test]
fn s01_a_scale_in_keeps_the_members_whose_disks_store() {
    for fault in ["hang-disk", "lag"] {
        for member in ["demo-0", "demo-1", "demo-2"] {
            let departures = json!([{ "at": 0, "what": { "fault": { fault: member } } }]);
            let story = story(&[3], 2, &departures);
            assert_eq!(story.violation(), None, "{fault} {member}\n{story}");
            assert!(story.all_came_about(), "{fault} {member}\n{story}");
        }
    }
}

/// A proof of progress takes two entries. A status that named the index that a member lacks would change with every proof, and the
/// operator would never come to rest.
#[test]
fn s01_status_does_not_change_with_every_proof_of_progress() {
    let departures = json!([
        { "at": "after:K1#11", "what": { "fault": { "lag": "demo-4" } } },
        { "at": "after:K1#11+2", "what": { "edit": { "size": 3 } } },
    ]);
    let story = story(&[], 5, &departures);
    assert_eq!(story.violation(), None, "{story}");
    assert!(story.all_came_about(), "{story}");
}
