//! The finalizers that keep a claim while a Pod uses it, and a volume while a claim is bound to it.

use quorate_apistore::fields::{deleting, drop_finalizer, has_finalizer, items, name, namespace, text};
use serde_json::{Value, json};

use super::super::action::Action;
use super::super::view::{View, kinds};

/// The finalizer of claims.
const CLAIM: &str = "kubernetes.io/pvc-protection";
/// The finalizer of volumes.
pub(super) const VOLUME: &str = "kubernetes.io/pv-protection";

/// Adds the finalizer to a claim; removes it from a claim that is being deleted and that no Pod uses.
pub(super) fn claim(view: &View, claim: &Value) -> Vec<Action> {
    let mut changed = claim.clone();
    match (deleting(claim), has_finalizer(claim, CLAIM)) {
        (false, false) => match changed["metadata"]["finalizers"].as_array_mut() {
            Some(finalizers) => finalizers.push(json!(CLAIM)),
            None => changed["metadata"]["finalizers"] = json!([CLAIM]),
        },
        (true, true) if !in_use(view, claim) => drop_finalizer(&mut changed, CLAIM),
        (true, _) | (false, true) => return Vec::new(),
    }
    vec![Action::Update(kinds::CLAIMS.into(), changed)]
}

/// A Pod uses its claims while it has a node and has not finished.
fn in_use(view: &View, claim: &Value) -> bool {
    view.of_namespace(kinds::PODS, namespace(claim))
        .filter(|pod| !text(pod, "/spec/nodeName").is_empty())
        .filter(|pod| !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed"))
        .any(|pod| {
            items(pod, "/spec/volumes")
                .iter()
                .any(|volume| text(volume, "/persistentVolumeClaim/claimName") == name(claim))
        })
}
