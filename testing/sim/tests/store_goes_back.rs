//! Kubernetes' own etcd is restored from an earlier moment of a cluster's history: objects, status and claims go back, and etcd lives on.

use quorate_sim::history::{History, plain, sound_story};
use serde_json::{Value, json};

/// The history of these sizes, at whose end Kubernetes goes back by so many changes, with what happens then.
fn goes_back(sizes: &[u32], back: u32, then: &[(&str, Value)]) -> Value {
    let mut specs: Vec<Value> = sizes.iter().map(|size| plain(*size)).collect();
    let spec = specs.pop().expect("a size");
    let first = json!({ "at": "rest", "what": { "fault": { "store-goes-back": back } } });
    let then = then.iter().map(|(at, what)| json!({ "at": at, "what": what }));
    let departures: Vec<Value> = std::iter::once(first).chain(then).collect();
    json!({ "before": specs, "spec": spec, "wide": true, "departures": departures })
}

/// Whether Kubernetes could go back in this history. It ends in the goal.
fn ends_well(history: &Value) -> bool {
    sound_story(history).all_came_about()
}

#[test]
fn a_cluster_of_which_kubernetes_goes_back_to_any_moment_reaches_its_goal() {
    for sizes in [&[1, 2][..], &[3, 4], &[3, 2], &[3, 0], &[3, 0, 3], &[3, 4, 3], &[3, 2, 3]] {
        let came_about = (1..=45).step_by(3).filter(|back| ends_well(&goes_back(sizes, *back, &[]))).count();
        println!("through {sizes:?} to {came_about} moments");
        assert!(came_about > 0, "{sizes:?}: {came_about}");
    }
}

/// In the middle of a change, and with an edit or another fault at once.
#[test]
fn a_fault_or_an_edit_after_kubernetes_went_back_ends_well() {
    let edit = |size: u32| json!({ "edit": { "size": size } });
    let of = |fault: &str, member: &str| json!({ "fault": { fault: member } });
    let then = [
        edit(1),
        edit(5),
        edit(0),
        of("kill-pod", "demo-0"),
        of("lose-node", "demo-1"),
        of("lose-volume", "demo-2"),
        json!({ "fault": "crash" }),
    ];
    for sizes in [&[3, 4][..], &[3, 2]] {
        for back in [3, 7, 12, 20, 30] {
            for what in &then {
                for at in ["+0", "+3"] {
                    ends_well(&goes_back(sizes, back, &[(at, what.clone())]));
                }
            }
        }
    }
}

/// The learner has run, and its claim and what status recorded of it are gone. It does not start on another volume: it is removed, and another
/// member comes in its place.
#[test]
fn a_learner_of_which_only_the_list_is_left_is_replaced() {
    let story = sound_story(&json!({
        "before": [plain(1)], "spec": plain(2), "wide": true,
        "departures": [{ "at": "before:G6", "what": { "fault": { "store-goes-back": 12 } } }],
    }));
    assert!(story.all_came_about(), "{story}");
    assert!(story.to_string().contains("MemberAdd demo-2 as learner"), "{story}");
}

#[test]
fn l09_kubernetes_goes_back_at_any_step_of_a_growth_or_a_scale_in() {
    let mut came_about = 0;
    for (sizes, steps) in
        [([3, 4], &["G1", "G2", "G3", "G4", "G6", "K2"][..]), ([3, 2], &["S1", "S3", "S4", "S5"][..])]
    {
        for step in steps {
            for side in ["before", "after"] {
                for back in [2, 5, 9] {
                    let fault = json!({ "fault": { "store-goes-back": back } });
                    let history: History = serde_json::from_value(json!({
                        "before": [plain(sizes[0])], "spec": plain(sizes[1]), "wide": true,
                        "departures": [{ "at": format!("{side}:{step}"), "what": fault }],
                    }))
                    .expect("a history");
                    let story = history.story();
                    assert_eq!(story.violation(), None, "{story}");
                    came_about += usize::from(story.all_came_about());
                }
            }
        }
    }
    assert!(came_about > 20, "{came_about}");
}
