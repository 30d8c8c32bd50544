//! Expands bound claims. A directory has no fixed size, so the new size is effective at once.

use quorate_apistore::cluster_defaults::PROVISIONER;
use quorate_apistore::fields::{deleting, flag, items, text};
use quorate_apistore::quantity::millis;
use serde_json::{Value, json};

use super::super::action::Action;
use super::super::view::{View, kinds};
use super::record_once;
use crate::events::Note;

/// Raises the volume's capacity first, then the claim's.
pub(super) fn claim(view: &View, claim: &Value) -> Vec<Action> {
    let size = |object: &Value, pointer: &str| object.pointer(pointer).and_then(millis).unwrap_or_default();
    let wanted = size(claim, "/spec/resources/requests/storage");
    let bound = text(claim, "/status/phase") == "Bound" && !deleting(claim);
    if !bound || wanted <= size(claim, "/status/capacity/storage") {
        return Vec::new();
    }
    let expandable = view
        .get(kinds::CLASSES, "", text(claim, "/spec/storageClassName"))
        .is_some_and(|class| flag(class, "/allowVolumeExpansion"));
    let Some(volume) = view.get(kinds::VOLUMES, "", text(claim, "/spec/volumeName")).filter(|_| expandable)
    else {
        return Vec::new();
    };
    let request = &claim["spec"]["resources"]["requests"]["storage"];
    if size(volume, "/spec/capacity/storage") < wanted {
        let mut grown = volume.clone();
        grown["spec"]["capacity"]["storage"] = request.clone();
        return vec![Action::Update(kinds::VOLUMES.into(), grown)];
    }
    let mut grown = claim.clone();
    grown["status"]["capacity"]["storage"] = request.clone();
    let rest: Vec<Value> = items(claim, "/status/conditions")
        .iter()
        .filter(|one| one["type"] != "Resizing" && one["type"] != "FileSystemResizePending")
        .cloned()
        .collect();
    if !rest.is_empty() {
        grown["status"]["conditions"] = json!(rest);
    }
    let mut actions = vec![Action::UpdateStatus(kinds::CLAIMS.into(), grown)];
    let note = Note::normal(claim, "VolumeResizeSuccessful", "Resize volume succeeded", PROVISIONER);
    actions.extend(record_once(view, note));
    actions
}
