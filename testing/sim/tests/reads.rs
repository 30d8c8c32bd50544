//! Reads of one kind fail, alone, and for good: a Role that lacks a verb, a proxy that answers single reads with 403. The watches go on.

use quorate_sim::history::{ends_well, plain, sound_story};
use serde_json::{Value, json};

const ALL: [&str; 5] = ["claims", "pods", "services", "secrets", "sites"];
const AGAIN: &str = "gives the operator the right to read again";

/// A cluster of these sizes of which reads fail for good from the beginning, with these departures.
fn without_reads(of: &str, sizes: [u32; 2], then: &[(&str, Value)]) -> Value {
    let fails = json!({ "at": 0, "what": { "fault": { "stays": { "reads-fail": of } } } });
    let then = then.iter().map(|(at, what)| json!({ "at": at, "what": what }));
    let departures: Vec<Value> = std::iter::once(fails).chain(then).collect();
    let [from, to] = sizes;
    json!({ "before": [plain(from)], "spec": plain(to), "wide": true, "departures": departures })
}

/// The lines of a story before the person acts.
fn before_the_person(history: &Value) -> String {
    let story = sound_story(history);
    assert!(story.all_came_about(), "{story}");
    let story = story.to_string();
    story.split(AGAIN).next().expect("a story").to_owned()
}

#[test]
fn whatever_is_not_read_lost_pods_are_started_again() {
    for of in ALL {
        for member in ["demo-0", "demo-2"] {
            let story = before_the_person(&without_reads(
                of,
                [3, 3],
                &[("+0", json!({ "fault": { "kill-pod": member } }))],
            ));
            assert!(story.contains(&format!("W1: create Pod {member}")), "{of}: {story}");
        }
    }
}

#[test]
fn whatever_is_not_read_every_change_of_size_is_carried_out_or_told_and_ends_well() {
    for of in ALL {
        for sizes in [[1, 2], [3, 4], [3, 2], [3, 0], [0, 3]] {
            ends_well(&without_reads(of, sizes, &[]));
        }
    }
}

#[test]
fn a_new_cluster_waits_where_its_names_are_not_read_and_begins_where_other_reads_fail() {
    for of in ALL {
        let fails = json!({ "at": 0, "what": { "fault": { "stays": { "reads-fail": of } } } });
        ends_well(&json!({ "spec": plain(3), "wide": true, "departures": [fails] }));
    }
}

/// R25: what another program made under the names of the cluster is not found without reads.
#[test]
fn objects_of_another_operator_are_not_changed_where_they_are_not_read() {
    for (of, named) in [("services", "demo"), ("secrets", "demo-server-tls"), ("secrets", "demo-connection")]
    {
        let mut spec = plain(3);
        spec["tls"] = json!({ "provider": "auto" });
        let made = json!({ "at": 0, "what": { "fault": { "other-operator": named } } });
        for stays in [false, true] {
            let fails = json!({ "reads-fail": of });
            let fails = if stays { json!({ "stays": fails }) } else { fails };
            let fails = json!({ "at": 0, "what": { "fault": fails } });
            ends_well(&json!({ "spec": spec, "wide": true, "departures": [made, fails] }));
        }
    }
}

#[test]
fn a_learner_that_is_rolled_back_needs_no_claim_to_be_read() {
    let slow = json!({ "fault": { "stays": { "slow": "demo-3" } } });
    sound_story(&without_reads("claims", [3, 4], &[("after:G4", slow)]));
}

#[test]
fn a_rollout_waits_where_claims_or_pods_are_not_read() {
    for of in ["claims", "pods"] {
        let label = json!({ "edit": { "podTemplate": { "metadata": { "labels": { "a": "b" } } } } });
        let story = before_the_person(&without_reads(of, [3, 3], &[("+0", label)]));
        assert!(!story.contains("U5: evict"), "{of}: {story}");
    }
}

#[test]
fn a_cluster_whose_data_may_go_is_deleted_though_no_claim_is_read() {
    let mut history = without_reads("claims", [3, 3], &[("+0", json!("delete"))]);
    for spec in ["/before/0", "/spec"] {
        let spec = history.pointer_mut(spec).expect("a spec");
        spec["storageSpec"]["retention"] = json!({ "whenDeleted": "Delete" });
    }
    let story = before_the_person(&history);
    assert!(story.contains("the cluster is gone"), "{story}");
}
