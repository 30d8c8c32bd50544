//! Members that are healthy and take no leadership over, because their disks are slower than an election timeout.

use quorate_sim::history::{History, Story, plain};
use serde_json::{Value, json};

/// A rollout of a cluster of three, in which the disks of these members are slow.
fn rollout(slow: &[&str], for_good: bool) -> Story {
    let fault = |member: &&str| {
        let fault = json!({ "slow-disk": member });
        let fault = if for_good { json!({ "stays": fault }) } else { fault };
        json!({ "at": 0, "what": { "fault": fault } })
    };
    let label = json!({ "podTemplate": { "metadata": { "labels": { "a": "b" } } } });
    let mut departures: Vec<Value> = slow.iter().map(fault).collect();
    departures.push(json!({ "at": 0, "what": { "edit": label } }));
    let trace = json!({
        "before": [plain(3)], "spec": plain(3), "departures": departures, "wide": true,
    });
    let history: History = serde_json::from_value(trace).expect("a trace");
    history.story()
}

/// The members that leadership was moved to, in order.
fn targets(story: &Story) -> Vec<String> {
    let story = story.to_string();
    let to = |line: &str| Some(line.split_once("U4: MoveLeader to ")?.1.split(' ').next()?.to_owned());
    story.lines().filter_map(to).collect()
}

#[test]
fn s11_a_rollout_moves_leadership_to_a_member_that_takes_it_over() {
    for slow in ["demo-0", "demo-1", "demo-2"] {
        for for_good in [false, true] {
            let story = rollout(&[slow], for_good);
            assert_eq!(story.violation(), None, "{slow}\n{story}");
            assert!(story.all_came_about(), "{slow}\n{story}");
            let targets = targets(&story);
            assert!(!targets.is_empty() && targets.len() <= 3, "{slow} {targets:?}\n{story}");
        }
    }
}

#[test]
fn s11_while_no_member_takes_over_the_attempts_are_few_and_reported_and_the_rollout_ends_afterwards() {
    let story = rollout(&["demo-0", "demo-1", "demo-2"], true);
    assert_eq!(story.violation(), None, "{story}");
    assert!(story.all_came_about(), "{story}");
    let targets = targets(&story);
    assert!((3..=12).contains(&targets.len()), "{targets:?}\n{story}");
    assert!(story.to_string().contains("and it still leads"), "{story}");
}
