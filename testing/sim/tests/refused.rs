//! A kubelet may refuse a Pod that was bound to it: the Pod has failed, and none of its containers ever ran. Kubernetes starts it nowhere
//! else, and deletes it only when thousands have failed.

use quorate_sim::history::{ends_well, plain};
use serde_json::{Value, json};

fn refused_at(at: &str, member: &str, then: &[Value]) -> Vec<Value> {
    let mut departures = vec![json!({ "at": at, "what": { "fault": { "refused-by-kubelet": member } } })];
    departures.extend_from_slice(then);
    departures
}

#[test]
fn m11_a_member_whose_pod_its_kubelet_refuses_joins_and_comes_back_once_it_admits_it() {
    for (at, member) in [("after:B4#1", "demo-0"), ("after:B4#3", "demo-0"), ("after:B4#3", "demo-2")] {
        ends_well(&json!({ "spec": plain(3), "wide": true, "departures": refused_at(at, member, &[]) }));
    }
    let grows = refused_at("after:G4", "demo-3", &[]);
    ends_well(&json!({ "before": [plain(3)], "spec": plain(4), "wide": true, "departures": grows }));
    let mut rolled = plain(3);
    rolled["podTemplate"] = json!({ "metadata": { "labels": { "rolled": "yes" } } });
    let rolls = refused_at("after:W1", "demo-1", &[]);
    ends_well(&json!({ "before": [plain(3)], "spec": rolled, "wide": true, "departures": rolls }));
}

#[test]
fn m01_a_refused_pod_keeps_the_claim_that_somebody_deletes_as_long_as_the_member_votes() {
    let deleted = json!({ "at": "+0", "what": { "fault": { "delete-claim": "demo-0" } } });
    let mut rolled = plain(1);
    rolled["podTemplate"] = json!({ "metadata": { "labels": { "rolled": "yes" } } });
    let rolls = refused_at("after:W1", "demo-0", &[deleted]);
    ends_well(&json!({ "before": [plain(1)], "spec": rolled, "wide": true, "departures": rolls }));
}
