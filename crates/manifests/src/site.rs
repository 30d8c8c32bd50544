//! Where a volume can be used: which nodes it is pinned to, and whether they are gone for good.
//!
//! A volume on a node's own disk is pinned to that node by the node affinity of its PersistentVolume. A volume of a zone is pinned to
//! no node: that no node of the zone exists at the moment says nothing about its data.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Node, NodeCondition, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim,
};
use quorate_model::Instant;
use quorate_model::quorum_recovery::NodeState;
use quorate_model::snapshot::Site;

/// The taint with which a person declares that a node is off and will not write any more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Label keys that name a node. CSI drivers of local disks use keys of their own; they end like these.
const NODE_KEYS: [&str; 3] = ["/hostname", "/node", "/nodename"];

/// What is to be read of a claim's surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteQuestion {
    /// The PersistentVolume that is bound to it.
    pub volume: Option<String>,
    /// The node of the member's last Pod.
    pub node: Option<String>,
    /// Another node, on which it last followed a leader.
    pub served_on: Option<String>,
}

/// A node by its label or its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The label; `None` for the name of the node.
    pub label: Option<String>,
    /// Its value.
    pub value: String,
}

impl SiteQuestion {
    /// What is to be read for a claim.
    pub fn of(claim: &PersistentVolumeClaim) -> Self {
        let spec = claim.spec.as_ref();
        let named = |name: Option<&String>| name.filter(|name| !name.is_empty()).cloned();
        Self { volume: named(spec.and_then(|spec| spec.volume_name.as_ref())), node: None, served_on: None }
    }
}

impl Pin {
    /// The selector for a list of nodes: by label, else by field.
    pub fn label_selector(&self) -> Option<String> {
        self.label.as_ref().map(|label| format!("{label}={}", self.value))
    }
}

/// The nodes that a volume is pinned to; empty if it may be used elsewhere, or if what pins it is not known.
pub fn pins(volume: &PersistentVolume) -> Vec<Pin> {
    let required = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let terms: &[NodeSelectorTerm] = required.map_or(&[], |required| &required.node_selector_terms);
    let pins: Vec<Vec<Pin>> = terms.iter().map(pins_of_term).collect();
    // A term without a node admits nodes that are not known here.
    if pins.iter().any(Vec::is_empty) { Vec::new() } else { pins.into_iter().flatten().collect() }
}

/// What follows for the volume from the nodes that its pins select: each pin with the nodes that match it.
pub fn judge(pins: &[(Pin, Vec<Arc<Node>>)]) -> Site {
    let is_gone = |(_, nodes): &(Pin, Vec<Arc<Node>>)| nodes.iter().all(|node| is_out_of_service(node));
    let gone = !pins.is_empty() && pins.iter().all(is_gone);
    let names: Vec<&str> = pins.iter().map(|(pin, _)| pin.value.as_str()).collect();
    let why = if pins.iter().any(|(_, nodes)| !nodes.is_empty()) {
        format!("Node {} has the taint {OUT_OF_SERVICE}", names.join(", "))
    } else {
        format!("Node {} does not exist any more", names.join(", "))
    };
    Site { gone: gone.then_some(why), ..Site::default() }
}

fn pins_of_term(term: &NodeSelectorTerm) -> Vec<Pin> {
    let labels = term.match_expressions.iter().flatten().filter(|expression| {
        expression.operator == "In" && NODE_KEYS.iter().any(|key| expression.key.ends_with(key))
    });
    let labels = labels.flat_map(|expression| {
        let values = expression.values.iter().flatten();
        values.map(|value| Pin { label: Some(expression.key.clone()), value: value.clone() })
    });
    let fields = term
        .match_fields
        .iter()
        .flatten()
        .filter(|expression| expression.operator == "In" && expression.key == "metadata.name");
    let fields = fields.flat_map(|expression| {
        let values = expression.values.iter().flatten();
        values.map(|value| Pin { label: None, value: value.clone() })
    });
    labels.chain(fields).collect()
}

/// What Kubernetes reports of a node; `None` if it does not exist.
pub fn state_of(node: Option<&Node>) -> NodeState {
    let Some(node) = node else { return NodeState::Gone };
    if is_out_of_service(node) {
        return NodeState::OutOfService;
    }
    let since = ready(node).and_then(|condition| condition.last_transition_time.as_ref());
    since.map_or(NodeState::NotReady, |since| NodeState::Ready { since: Instant(since.0.as_millisecond()) })
}

/// Whether nothing uses the data on the node any more. A taint that was left on a node whose kubelet reports says nothing.
pub fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == OUT_OF_SERVICE) && ready(node).is_none()
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(terms: &Value) -> PersistentVolume {
        let affinity = json!({ "required": { "nodeSelectorTerms": terms } });
        serde_json::from_value(json!({ "metadata": {}, "spec": { "nodeAffinity": affinity } })).unwrap()
    }

    fn node(taint: Option<&str>) -> Node {
        let taints: Vec<Value> =
            taint.into_iter().map(|key| json!({ "key": key, "effect": "NoExecute" })).collect();
        serde_json::from_value(json!({ "metadata": { "name": "n1" }, "spec": { "taints": taints } })).unwrap()
    }

    fn by_hostname() -> Vec<Pin> {
        let terms = json!([{ "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"] },
        ] }]);
        pins(&volume(&terms))
    }

    #[test]
    fn a_volume_on_the_disk_of_a_node_is_pinned_to_it_and_one_of_a_zone_is_not() {
        assert_eq!(by_hostname()[0].label_selector().unwrap(), "kubernetes.io/hostname=n1");
        let zone = json!({ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"] });
        assert_eq!(pins(&volume(&json!([{ "matchExpressions": [zone] }]))), []);
        let named =
            json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }]);
        assert_eq!(pins(&volume(&named)), [Pin { label: None, value: "n1".to_owned() }]);
        // The second term admits any node of the zone.
        let driver = json!({ "key": "topology.topolvm.io/node", "operator": "In", "values": ["n1"] });
        let either = json!([{ "matchExpressions": [driver] }, { "matchExpressions": [zone] }]);
        assert_eq!(pins(&volume(&either)), []);
    }

    #[test]
    fn a_node_that_is_not_ready_may_come_back_and_one_that_was_deleted_or_declared_out_of_service_does_not() {
        let judged = |nodes: Vec<Node>| {
            let nodes: Vec<_> = nodes.into_iter().map(Arc::new).collect();
            let found: Vec<_> = by_hostname().into_iter().map(|pin| (pin, nodes.clone())).collect();
            judge(&found).gone
        };
        assert_eq!(judged(vec![node(None)]), None);
        assert_eq!(judged(vec![node(Some("node.kubernetes.io/unreachable"))]), None);
        assert!(judged(vec![]).unwrap().contains("does not exist"));
        assert!(judged(vec![node(Some(OUT_OF_SERVICE))]).unwrap().contains(OUT_OF_SERVICE));
        assert_eq!(judge(&[]).gone, None, "a volume that is pinned nowhere");
    }
}
