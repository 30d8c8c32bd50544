//! A member that answers and stores nothing is not healthy, whatever it says: histories in which the operator has to notice.

use quorate_model::canary;
use quorate_model::snapshot::PROOF_INTERVAL;
use quorate_planner::safety::mutants::without;
use quorate_sim::history::{History, Story, plain};
use quorate_sim::world::World;
use quorate_sim::world::faults::Fault;
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

/// The World at rest with three members, nothing written, and the disk of one of them hangs for good. Then half a minute passes and
/// more, and less than five minutes. Returns what `Degraded` reports, and how many entries were committed meanwhile.
fn degraded_after_a_minute_with_a_hung_disk(member: &str) -> (String, usize) {
    let mut world = History::through(&[3]).start();
    while world.go().is_some() {}
    let committed = |world: &World| world.etcd.groups().next().map(|group| group.log().len());
    let before = committed(&world).expect("a cluster");
    assert!(world.strike(&Fault::Stays(Box::new(Fault::HangDisk(member.to_owned())))));
    let hung = world.now;
    while world.now - hung <= canary::LIMIT {
        world.go().expect("time passes");
    }
    while world.now - hung < PROOF_INTERVAL {
        let cluster = world.cluster().expect("it exists");
        let conditions = cluster.status.expect("it has a status").conditions;
        let degraded = conditions.iter().find(|one| one.type_ == "Degraded").expect("it is reported");
        if degraded.status == "True" {
            return (degraded.message.clone(), committed(&world).expect("a cluster") - before);
        }
        if world.go().is_none() {
            break;
        }
    }
    ("nothing".to_owned(), 0)
}

#[test]
fn s01_on_an_idle_cluster_a_hung_disk_is_noticed_by_the_canary_without_any_write() {
    for member in ["demo-0", "demo-1", "demo-2"] {
        let (message, entries) = degraded_after_a_minute_with_a_hung_disk(member);
        assert!(
            message.starts_with(&format!("{member}: its Pod is not ready although etcd answers")),
            "{message}"
        );
        assert_eq!(entries, 0, "nothing was committed");
        let without = without("R15 canary", || degraded_after_a_minute_with_a_hung_disk(member).0);
        assert_eq!(without, "nothing");
    }
}
