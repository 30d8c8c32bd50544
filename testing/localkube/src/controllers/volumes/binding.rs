//! Binds claims to volumes.

use quorate_apistore::cluster_defaults::PROVISIONER;
use quorate_apistore::fields::{annotation, deleting, items, name, namespace, text, uid};
use quorate_apistore::quantity::millis;
use serde_json::{Value, json};

use super::super::action::Action;
use super::super::view::{View, kinds};
use super::{BINDER, default_class, record_once};
use crate::events::Note;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The next step towards binding a claim; nothing if it is bound.
pub(super) fn claim(view: &View, claim: &Value) -> Vec<Action> {
    if deleting(claim) || matches!(text(claim, "/status/phase"), "Bound" | "Lost") {
        return lost(view, claim);
    }
    if !text(claim, "/spec/volumeName").is_empty() {
        return finish(view, claim);
    }
    if let Some(volume) = available(view, claim) {
        return claim_volume(claim, volume);
    }
    match claim.pointer("/spec/storageClassName").and_then(Value::as_str) {
        None => match default_class(view) {
            Some(class) => {
                let mut claim = claim.clone();
                claim["spec"]["storageClassName"] = json!(name(class));
                vec![Action::Update(kinds::CLAIMS.into(), claim)]
            }
            None => unclaimed(view, claim),
        },
        Some("") => unclaimed(view, claim),
        Some(wanted) => {
            let Some(class) = view.get(kinds::CLASSES, "", wanted) else {
                let message = format!("storageclass.storage.k8s.io \"{wanted}\" not found");
                return waiting(view, claim, Note::warning(claim, "ProvisioningFailed", message, BINDER));
            };
            of_class(view, claim, class)
        }
    }
}

fn of_class(view: &View, claim: &Value, class: &Value) -> Vec<Action> {
    let node = annotation(claim, SELECTED_NODE);
    if text(class, "/volumeBindingMode") == "WaitForFirstConsumer" && node.is_none() {
        let message = "waiting for first consumer to be created before binding";
        return waiting(view, claim, Note::normal(claim, "WaitForFirstConsumer", message, BINDER));
    }
    if text(class, "/provisioner") != PROVISIONER {
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system \
             administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered.",
            text(class, "/provisioner")
        );
        return waiting(view, claim, Note::normal(claim, "ExternalProvisioning", message, BINDER));
    }
    let volume = provision(claim, class, node);
    let message = format!("Successfully provisioned volume {}", name(&volume));
    let mut actions = Vec::new();
    if view.get(kinds::VOLUMES, "", name(&volume)).is_none() {
        actions.push(Action::Create(kinds::VOLUMES.into(), volume.clone()));
        actions.extend(record_once(view, Note::normal(claim, "ProvisioningSucceeded", message, PROVISIONER)));
    }
    actions.extend(claim_volume(claim, &volume));
    actions
}

/// A directory on the selected node, of the claim's size. If the claim is shared, it is on all of them.
fn provision(claim: &Value, class: &Value, node: Option<&str>) -> Value {
    let name_of_volume = format!("pvc-{}", uid(claim));
    let base = match text(class, "/parameters/path") {
        "" => "/var/lib/quorate/volumes",
        path => path.trim_end_matches('/'),
    };
    let reclaim = match text(class, "/reclaimPolicy") {
        "" => "Delete",
        policy => policy,
    };
    let mode = match text(claim, "/spec/volumeMode") {
        "" => "Filesystem",
        mode => mode,
    };
    let mut volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name_of_volume,
            "annotations": { "pv.kubernetes.io/provisioned-by": PROVISIONER },
            "finalizers": [super::protection::VOLUME],
        },
        "spec": {
            "capacity": { "storage": claim.pointer("/spec/resources/requests/storage") },
            "accessModes": claim.pointer("/spec/accessModes"),
            "claimRef": reference(claim),
            "persistentVolumeReclaimPolicy": reclaim,
            "storageClassName": name(class),
            "volumeMode": mode,
            "local": { "path": format!("{base}/{name_of_volume}_{}_{}", namespace(claim), name(claim)) },
        },
    });
    // All nodes reach a volume that several of them may write to at a time.
    if let Some(node) = node.filter(|_| !is_shared(claim)) {
        volume["spec"]["nodeAffinity"] = json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": [node] },
        ] }] } });
    }
    volume
}

/// Whether Pods of several nodes may mount it.
pub(in super::super) fn is_shared(claim: &Value) -> bool {
    items(claim, "/spec/accessModes").iter().any(|mode| mode == "ReadWriteMany")
}

/// The volume reserved for this claim, or the smallest free one that fits.
fn available<'a>(view: &'a View, claim: &Value) -> Option<&'a Value> {
    let meant = |volume: &&Value| {
        text(volume, "/spec/claimRef/name") == name(claim)
            && text(volume, "/spec/claimRef/namespace") == namespace(claim)
            && ["", uid(claim)].contains(&text(volume, "/spec/claimRef/uid"))
    };
    let wanted = claim.pointer("/spec/resources/requests/storage").and_then(millis).unwrap_or_default();
    let size = |volume: &Value| volume.pointer("/spec/capacity/storage").and_then(millis).unwrap_or_default();
    let free = |volume: &&Value| {
        text(volume, "/spec/claimRef/name").is_empty()
            && text(volume, "/status/phase") == "Available"
            && text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
            && items(claim, "/spec/accessModes")
                .iter()
                .all(|mode| items(volume, "/spec/accessModes").contains(mode))
            && size(volume) >= wanted
            && volume.pointer("/spec/nodeAffinity").is_none()
    };
    let usable = || view.all(kinds::VOLUMES).filter(|volume| !deleting(volume));
    usable().find(meant).or_else(|| usable().filter(free).min_by_key(|volume| size(volume)))
}

/// Sets the volume in the claim; the next step completes both sides.
fn claim_volume(claim: &Value, volume: &Value) -> Vec<Action> {
    let mut claim = claim.clone();
    let metadata = &mut claim["metadata"];
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    metadata["annotations"]["pv.kubernetes.io/bound-by-controller"] = json!("yes");
    if let Some(provisioner) = annotation(volume, "pv.kubernetes.io/provisioned-by") {
        metadata["annotations"]["volume.kubernetes.io/storage-provisioner"] = json!(provisioner);
    }
    claim["spec"]["volumeName"] = json!(name(volume));
    vec![Action::Update(kinds::CLAIMS.into(), claim)]
}

/// The claim names its volume: set the claim in the volume, then set both phases to Bound.
fn finish(view: &View, claim: &Value) -> Vec<Action> {
    let Some(volume) = view.get(kinds::VOLUMES, "", text(claim, "/spec/volumeName")) else {
        return pending(claim).into_iter().collect();
    };
    let holder = (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name"));
    if !holder.1.is_empty() && holder != (namespace(claim), name(claim)) {
        let message = format!("volume \"{}\" already bound to a different claim.", name(volume));
        return waiting(view, claim, Note::warning(claim, "FailedBinding", message, BINDER));
    }
    if text(volume, "/spec/claimRef/uid") != uid(claim) {
        let mut volume = volume.clone();
        volume["spec"]["claimRef"] = reference(claim);
        return vec![Action::Update(kinds::VOLUMES.into(), volume)];
    }
    let mut bound_claim = claim.clone();
    bound_claim["status"]["phase"] = json!("Bound");
    bound_claim["status"]["accessModes"] = volume["spec"]["accessModes"].clone();
    bound_claim["status"]["capacity"] = volume["spec"]["capacity"].clone();
    vec![Action::UpdateStatus(kinds::CLAIMS.into(), bound_claim)]
}

/// A bound claim whose volume is gone is lost.
fn lost(view: &View, claim: &Value) -> Vec<Action> {
    let volume = text(claim, "/spec/volumeName");
    let gone = text(claim, "/status/phase") == "Bound" && view.get(kinds::VOLUMES, "", volume).is_none();
    if deleting(claim) || !gone {
        return Vec::new();
    }
    let mut lost = claim.clone();
    lost["status"]["phase"] = json!("Lost");
    let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    let mut actions = vec![Action::UpdateStatus(kinds::CLAIMS.into(), lost)];
    actions.extend(record_once(view, Note::warning(claim, "ClaimLost", message, BINDER)));
    actions
}

fn unclaimed(view: &View, claim: &Value) -> Vec<Action> {
    let message = "no persistent volumes available for this claim and no storage class is set";
    waiting(view, claim, Note::normal(claim, "FailedBinding", message, BINDER))
}

fn waiting(view: &View, claim: &Value, note: Note) -> Vec<Action> {
    pending(claim).into_iter().chain(record_once(view, note)).collect()
}

fn pending(claim: &Value) -> Option<Action> {
    let mut pending = claim.clone();
    pending["status"]["phase"] = json!("Pending");
    (pending != *claim).then_some(Action::UpdateStatus(kinds::CLAIMS.into(), pending))
}

fn reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": namespace(claim),
        "name": name(claim),
        "uid": uid(claim),
    })
}
