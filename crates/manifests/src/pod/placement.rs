//! Where members are placed: anti-affinity and spread, unless the template has its own.

use quorate_api::cluster::{OneMemberPerNode, Zones};
use quorate_model::ClusterRef;
use serde_json::{Value, json};

use crate::labels;
use crate::template::Template;

/// The affinity of the template. Without a Pod anti-affinity of its own it gets the operator's: somebody who chooses nodes still wants
/// members apart.
pub(super) fn affinity(at: &ClusterRef, template: &Template) -> Value {
    let given = template.spec.affinity.clone().unwrap_or_default();
    let mut affinity = json!(given);
    if given.pod_anti_affinity.is_none() {
        affinity["podAntiAffinity"] = one_to_a_node(at, template.one_member_per_node);
    }
    affinity
}

/// Preferred by default: a cluster of three on one node is worse than on three, and better than none.
pub(crate) fn one_to_a_node(at: &ClusterRef, one_member_per_node: OneMemberPerNode) -> Value {
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": { "matchLabels": labels::selector(at) },
    });
    match one_member_per_node {
        OneMemberPerNode::Preferred => json!({
            "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "podAffinityTerm": term }],
        }),
        OneMemberPerNode::Required => json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] }),
    }
}

/// The constraints of the template, or the operator's.
pub(super) fn topology_spread_constraints(at: &ClusterRef, template: &Template) -> Option<Value> {
    match (&template.spec.topology_spread_constraints, template.zones) {
        (Some(given), _) => Some(json!(given)),
        (None, Zones::Preferred) => Some(json!([over_the_zones(at)])),
        (None, Zones::Ignored) => None,
    }
}

fn over_the_zones(at: &ClusterRef) -> Value {
    json!({
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": labels::selector(at) },
    })
}
