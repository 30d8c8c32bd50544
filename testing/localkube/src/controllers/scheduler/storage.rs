//! The claims of a Pod for the scheduler: which nodes their volumes allow, and which still need a node.

use quorate_apistore::fields::{annotation, deleting, items, namespace, text};
use quorate_apistore::selectors::node_matches;
use serde_json::Value;

use super::super::view::{View, kinds};
use super::super::volumes;
use super::SELECTED_NODE;

/// The node affinities of the volumes of a Pod's claims.
pub(super) struct Claims<'a>(Vec<&'a Value>);

impl<'a> Claims<'a> {
    /// Reads the claims of a Pod. If they prevent scheduling on any node, the error is in the words of the real
    /// scheduler.
    pub fn of(view: &'a View, pod: &Value) -> Result<Self, String> {
        let mut affinities = Vec::new();
        for wanted in claim_names(pod) {
            let Some(claim) = view.get(kinds::CLAIMS, namespace(pod), wanted) else {
                return Err(format!("persistentvolumeclaim \"{wanted}\" not found"));
            };
            if deleting(claim) {
                return Err(format!("persistentvolumeclaim \"{wanted}\" is being deleted"));
            }
            let volume = text(claim, "/spec/volumeName");
            if volume.is_empty() {
                if waits_for_consumer(view, claim) {
                    continue;
                }
                return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
            }
            let Some(bound) = view.get(kinds::VOLUMES, "", volume) else {
                return Err(format!(
                    "persistentvolumeclaim \"{wanted}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            };
            affinities.extend(bound.pointer("/spec/nodeAffinity/required"));
        }
        Ok(Self(affinities))
    }

    /// Whether every volume can be used on a node.
    pub fn reach(&self, node: &Value) -> bool {
        self.0.iter().all(|affinity| affinity.is_null() || node_matches(affinity, node))
    }
}

/// The claims that wait for the node of this Pod.
pub(super) fn unbound<'a>(view: &'a View, pod: &'a Value) -> impl Iterator<Item = &'a Value> {
    claim_names(pod)
        .filter_map(|wanted| view.get(kinds::CLAIMS, namespace(pod), wanted))
        .filter(|claim| text(claim, "/spec/volumeName").is_empty() || text(claim, "/status/phase") != "Bound")
}

/// The node that was selected earlier for one of the Pod's claims.
pub(super) fn selected_node<'a>(view: &'a View, pod: &Value) -> Option<&'a str> {
    claim_names(pod).find_map(|wanted| {
        let claim =
            view.get(kinds::CLAIMS, namespace(pod), wanted).filter(|claim| !volumes::is_shared(claim))?;
        let node = annotation(claim, SELECTED_NODE)?;
        view.get(kinds::NODES, "", node).map(|_| node)
    })
}

/// The names of the claims a Pod mounts.
fn claim_names(pod: &Value) -> impl Iterator<Item = &str> {
    items(pod, "/spec/volumes")
        .iter()
        .map(|volume| text(volume, "/persistentVolumeClaim/claimName"))
        .filter(|name| !name.is_empty())
}

fn waits_for_consumer(view: &View, claim: &Value) -> bool {
    // A claim without a class gets the default one.
    let class = match claim.pointer("/spec/storageClassName").and_then(Value::as_str) {
        Some(class) => view.get(kinds::CLASSES, "", class),
        None => volumes::default_class(view),
    };
    class.is_some_and(|class| text(class, "/volumeBindingMode") == "WaitForFirstConsumer")
}
