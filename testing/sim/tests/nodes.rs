//! What nodes and their disks do: a node that shuts down gracefully leaves Pods that have failed, a file system is mounted read-only after an
//! I/O error, and somebody takes the label of the cluster off a claim.

use quorate_sim::history::{ends_well, plain, sound_story};
use serde_json::{Value, json};

/// A cluster of this size at rest that is edited to another size, and this fault so many steps later.
fn beside_an_edit(sizes: [u32; 2], later: usize, fault: &Value) -> Value {
    let [from, to] = sizes;
    json!({
        "before": [plain(from)], "spec": plain(to), "wide": true,
        "departures": [{ "at": format!("+{later}"), "what": { "fault": fault } }],
    })
}

#[test]
fn a_member_whose_node_was_shut_down_starts_again_at_any_moment_of_a_change() {
    for (sizes, member) in [([1, 1], "demo-0"), ([3, 4], "demo-1"), ([4, 3], "demo-0"), ([3, 0], "demo-2")] {
        for later in 0..12 {
            sound_story(&beside_an_edit(sizes, later, &json!({ "node-shuts-down": member })));
        }
    }
}

#[test]
fn a_member_whose_file_system_is_mounted_read_only_serves_nobody_until_a_person_has_mended_it() {
    for (sizes, member) in [([3, 3], "demo-1"), ([3, 4], "demo-0"), ([5, 4], "demo-2")] {
        for later in [0, 3, 6] {
            ends_well(&beside_an_edit(sizes, later, &json!({ "read-only-disk": member })));
            ends_well(&beside_an_edit(sizes, later, &json!({ "stays": { "read-only-disk": member } })));
        }
    }
}

#[test]
fn a_claim_without_the_label_of_its_cluster_that_cannot_be_read_is_not_lost() {
    let unlabel = json!({ "touch": ["PersistentVolumeClaim", "demo-1"] });
    ends_well(&beside_an_edit([3, 3], 0, &unlabel));
    let departures = json!([
        { "at": 0, "what": { "fault": { "stays": { "reads-fail": "claims" } } } },
        { "at": "+0", "what": { "fault": unlabel } },
        { "at": "+0", "what": { "fault": { "kill-pod": "demo-1" } } },
    ]);
    let story = sound_story(
        &json!({ "before": [plain(3)], "spec": plain(3), "wide": true, "departures": departures }),
    );
    assert!(story.all_came_about(), "{story}");
    assert!(!story.to_string().contains("P1"), "it is not replaced: {story}");
}
