//! The phase of a volume, and its deletion after its claim is gone.

use quorate_apistore::fields::{deleting, drop_finalizer, has_finalizer, text, uid};
use serde_json::{Value, json};

use super::super::action::Action;
use super::super::view::{View, kinds};
use super::protection;

/// Updates a volume's phase, and deletes it after its claim where its policy says so.
pub(super) fn volume(view: &View, volume: &Value) -> Vec<Action> {
    let phase = phase(view, volume);
    let free = phase != "Bound";
    if deleting(volume) {
        if !(free && has_finalizer(volume, protection::VOLUME)) {
            return Vec::new();
        }
        let mut unprotected = volume.clone();
        drop_finalizer(&mut unprotected, protection::VOLUME);
        return vec![Action::Update(kinds::VOLUMES.into(), unprotected)];
    }
    if text(volume, "/status/phase") != phase {
        let mut changed = volume.clone();
        changed["status"]["phase"] = json!(phase);
        return vec![Action::UpdateStatus(kinds::VOLUMES.into(), changed)];
    }
    if phase == "Released" && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        return vec![Action::delete(kinds::VOLUMES, volume)];
    }
    Vec::new()
}

fn phase(view: &View, volume: &Value) -> &'static str {
    let [namespace, name, owner] =
        ["namespace", "name", "uid"].map(|field| text(volume, &format!("/spec/claimRef/{field}")));
    // A reference without a uid reserves the volume for a claim that may come.
    if name.is_empty() || owner.is_empty() {
        return "Available";
    }
    match view.get(kinds::CLAIMS, namespace, name) {
        Some(claim) if uid(claim) == owner => "Bound",
        Some(_) | None => "Released",
    }
}
