//! Namespaces: active from the start; on deletion emptied, the Pods first, then removed.

use quorate_apistore::ResourceKey;
use quorate_apistore::fields::{deleting, has_finalizer, items, name, namespace, text};
use quorate_apistore::store::Propagation;
use serde_json::{Value, json};

use super::action::Action;
use super::view::{View, kinds};

/// Updates each namespace's phase, and empties those that are being deleted.
pub fn step(view: &View) -> Vec<Action> {
    view.all(kinds::NAMESPACES).flat_map(|namespace| tend(view, namespace)).collect()
}

fn tend(view: &View, namespace: &Value) -> Vec<Action> {
    let phase = if deleting(namespace) { "Terminating" } else { "Active" };
    if text(namespace, "/status/phase") != phase {
        let mut changed = namespace.clone();
        changed["status"]["phase"] = json!(phase);
        return vec![Action::UpdateStatus(kinds::NAMESPACES.into(), changed)];
    }
    if !deleting(namespace) {
        return Vec::new();
    }
    let left: Vec<_> = contents(view, name(namespace)).collect();
    if left.is_empty() && items(namespace, "/spec/finalizers").iter().any(|one| one == "kubernetes") {
        let mut released = namespace.clone();
        drop(released["spec"].as_object_mut().and_then(|spec| spec.remove("finalizers")));
        return vec![Action::Update(kinds::NAMESPACES.into(), released)];
    }
    // Everything else stays as long as there is a Pod.
    let is_pod = |resource: &ResourceKey| *resource == kinds::PODS.into();
    let has_pods = left.iter().any(|(resource, _)| is_pod(resource));
    left.into_iter()
        .filter(|(resource, object)| !deleting(object) && (is_pod(resource) || !has_pods))
        .map(|(resource, object)| {
            // An orphaning deletion stays one here.
            let orphan = has_finalizer(object, "orphan");
            let propagation = if orphan { Propagation::Orphan } else { Propagation::Background };
            Action::delete_as(resource.clone(), object, propagation)
        })
        .collect()
}

fn contents<'a>(view: &'a View, inside: &'a str) -> impl Iterator<Item = (&'a ResourceKey, &'a Value)> {
    view.everything().filter(move |(_, object)| namespace(object) == inside)
}
