//! Kubernetes with room for so many members and no more: nodes that take one member each, and a quota of claims.

use quorate_apistore::ObjectKey;
use quorate_apistore::fields::{name, text};
use quorate_apistore::store::Part;
use quorate_manifests::{Kind, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::World;
use super::objects::resource;

/// How much room there is; `None`: for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Room {
    /// The nodes, of which each takes one Pod.
    pub nodes: Option<usize>,
    /// The claims that a quota of the namespace admits.
    pub claims: Option<usize>,
}

impl World {
    /// Whether a Pod that is bound to no node finds one.
    pub(super) fn has_node(&self, pod: &Value) -> bool {
        let is_bound = !text(pod, "/spec/nodeName").is_empty();
        is_bound || self.room.nodes.is_none_or(|nodes| self.pods.len() < nodes)
    }

    /// The scheduler says of a Pod that it finds no node. Returns whether that is new.
    pub(super) fn is_told_of_no_node(&self, pod: &Value) -> bool {
        let says = json!({
            "phase": "Pending",
            "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.",
            }],
        });
        let key = ObjectKey::new(resource(Kind::Pod), text(pod, "/metadata/namespace"), name(pod));
        pod["status"] != says && self.change(&key, Part::Status, |pod| pod["status"] = says).is_ok()
    }

    /// Whether a quota admits what is created, as far as it is a claim.
    pub(super) fn quota_admits(&self, write: &Write) -> bool {
        let exists = || self.object(Kind::Volume, &write.name).is_some();
        let is_full = || self.room.claims.is_some_and(|claims| self.names(Kind::Volume).len() >= claims);
        write.kind != Kind::Volume || exists() || !is_full()
    }
}
