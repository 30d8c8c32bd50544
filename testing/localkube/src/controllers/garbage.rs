//! The garbage collector: deletes objects that lost their last owner; a foreground deletion waits for the dependents
//! that block it; an orphaning deletion removes the owner reference from them first.

use std::collections::BTreeMap;

use quorate_apistore::ResourceKey;
use quorate_apistore::fields::{
    deleting, drop_finalizer, flag, has_finalizer, items, name, namespace, text, uid,
};
use quorate_apistore::store::Propagation;
use serde_json::Value;

use super::action::Action;
use super::view::View;

/// The finalizer of a foreground deletion.
const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an orphaning deletion.
const ORPHAN: &str = "orphan";

/// One pass over all owners and dependents.
pub fn step(view: &View) -> Vec<Action> {
    let graph = Graph::of(view);
    let dependents = graph.dependents.iter().filter_map(|(resource, object)| graph.collect(resource, object));
    let owners = graph.owners.values().flat_map(|(resource, object)| graph.finish(resource, object));
    owners.chain(dependents).collect()
}

/// Owners and dependents. An owner is identified by its uid; name and namespace must match.
struct Graph<'a> {
    owners: BTreeMap<&'a str, (&'a ResourceKey, &'a Value)>,
    dependents: Vec<(&'a ResourceKey, &'a Value)>,
}

impl<'a> Graph<'a> {
    fn of(view: &'a View) -> Self {
        let mut graph = Self { owners: BTreeMap::new(), dependents: Vec::new() };
        for (resource, object) in view.everything() {
            if !references(object).is_empty() {
                graph.dependents.push((resource, object));
            }
            graph.owners.insert(uid(object), (resource, object));
        }
        graph
    }

    /// What happens to one dependent, given the state of its owners.
    fn collect(&self, resource: &ResourceKey, object: &Value) -> Option<Action> {
        if deleting(object) {
            return None;
        }
        let (mut solid, mut waiting) = (Vec::new(), false);
        for reference in references(object) {
            match self.owner(object, reference) {
                Some(owner) if deleting(owner) && has_finalizer(owner, FOREGROUND) => waiting = true,
                Some(_) => solid.push(reference.clone()),
                None => {}
            }
        }
        if solid.len() == references(object).len() {
            return None;
        }
        if !solid.is_empty() {
            return Some(with_owners(resource, object, solid));
        }
        // In a foreground deletion a dependent waits for its own dependents.
        let has_dependents = self.blocking(object).next().is_some();
        let propagation = if has_finalizer(object, ORPHAN) {
            Propagation::Orphan
        } else if has_finalizer(object, FOREGROUND) || (waiting && has_dependents) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        Some(Action::delete_as(resource.clone(), object, propagation))
    }

    /// Removes the finalizer of a deleted owner once nothing that it waits for is left.
    fn finish(&self, resource: &ResourceKey, owner: &Value) -> Vec<Action> {
        if !deleting(owner) {
            return Vec::new();
        }
        let release = |finalizer: &str| {
            let mut released = owner.clone();
            drop_finalizer(&mut released, finalizer);
            vec![Action::Update(resource.clone(), released)]
        };
        if has_finalizer(owner, ORPHAN) {
            let freed: Vec<Action> =
                self.of_owner(owner).map(|(kind, object, _)| free(kind, object, owner)).collect();
            return if freed.is_empty() { release(ORPHAN) } else { freed };
        }
        if has_finalizer(owner, FOREGROUND) && self.blocking(owner).next().is_none() {
            return release(FOREGROUND);
        }
        Vec::new()
    }

    fn owner(&self, dependent: &Value, reference: &Value) -> Option<&'a Value> {
        let (_, owner) = self.owners.get(text(reference, "/uid"))?;
        let within_reach = namespace(owner).is_empty() || namespace(owner) == namespace(dependent);
        (within_reach && name(owner) == text(reference, "/name")).then_some(*owner)
    }

    fn of_owner(&self, owner: &Value) -> impl Iterator<Item = (&'a ResourceKey, &'a Value, &'a Value)> {
        self.dependents.iter().filter_map(move |(resource, object)| {
            let reference = references(object).iter().find(|one| text(one, "/uid") == uid(owner))?;
            Some((*resource, *object, reference))
        })
    }

    fn blocking(&self, owner: &Value) -> impl Iterator<Item = &'a Value> {
        self.of_owner(owner)
            .filter(|(_, _, reference)| flag(reference, "/blockOwnerDeletion"))
            .map(|(_, object, _)| object)
    }
}

fn references(object: &Value) -> &[Value] {
    items(object, "/metadata/ownerReferences")
}

fn free(resource: &ResourceKey, object: &Value, owner: &Value) -> Action {
    let rest = references(object).iter().filter(|one| text(one, "/uid") != uid(owner)).cloned().collect();
    with_owners(resource, object, rest)
}

fn with_owners(resource: &ResourceKey, object: &Value, owners: Vec<Value>) -> Action {
    let mut changed = object.clone();
    if let Some(metadata) = changed["metadata"].as_object_mut() {
        if owners.is_empty() {
            metadata.remove("ownerReferences");
        } else {
            metadata.insert("ownerReferences".to_owned(), Value::Array(owners));
        }
    }
    Action::Update(resource.clone(), changed)
}
