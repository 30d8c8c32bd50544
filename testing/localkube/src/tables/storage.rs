//! Rows of claims, volumes and storage classes.

use jiff::Timestamp;
use quorate_apistore::fields::{annotation, deleting, flag, items, name, text, time};
use serde_json::{Value, json};

use super::age;
use super::columns::{BuiltIn, Column, text as shown, wide};

pub(super) const CLAIMS: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Status"),
        shown("Volume"),
        shown("Capacity"),
        shown("Access Modes"),
        shown("StorageClass"),
        shown("VolumeAttributesClass"),
        shown("Age"),
        wide("VolumeMode"),
    ],
    cells: claim,
};

pub(super) const VOLUMES: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Capacity"),
        shown("Access Modes"),
        shown("Reclaim Policy"),
        shown("Status"),
        shown("Claim"),
        shown("StorageClass"),
        shown("VolumeAttributesClass"),
        shown("Reason"),
        shown("Age"),
        wide("VolumeMode"),
    ],
    cells: volume,
};

pub(super) const CLASSES: BuiltIn = BuiltIn {
    columns: &[
        shown("Name"),
        shown("Provisioner"),
        shown("ReclaimPolicy"),
        shown("VolumeBindingMode"),
        Column { name: "AllowVolumeExpansion", kind: "boolean", wide: false },
        shown("Age"),
    ],
    cells: class,
};

fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !text(claim, "/spec/volumeName").is_empty();
    let (capacity, modes) = if bound {
        (text(claim, "/status/capacity/storage"), access_modes(items(claim, "/status/accessModes")))
    } else {
        ("", String::new())
    };
    vec![
        json!(name(claim)),
        json!(phase(claim)),
        json!(text(claim, "/spec/volumeName")),
        json!(capacity),
        json!(modes),
        json!(text(claim, "/spec/storageClassName")),
        json!(or_unset(text(claim, "/spec/volumeAttributesClassName"))),
        json!(age::since(time(claim, "/metadata/creationTimestamp"), now)),
        json!(or_unset(text(claim, "/spec/volumeMode"))),
    ]
}

fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match (text(volume, "/spec/claimRef/namespace"), text(volume, "/spec/claimRef/name")) {
        (_, "") => String::new(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![
        json!(name(volume)),
        json!(text(volume, "/spec/capacity/storage")),
        json!(access_modes(items(volume, "/spec/accessModes"))),
        json!(text(volume, "/spec/persistentVolumeReclaimPolicy")),
        json!(phase(volume)),
        json!(claim),
        json!(text(volume, "/spec/storageClassName")),
        json!(or_unset(text(volume, "/spec/volumeAttributesClassName"))),
        json!(text(volume, "/status/reason")),
        json!(age::since(time(volume, "/metadata/creationTimestamp"), now)),
        json!(or_unset(text(volume, "/spec/volumeMode"))),
    ]
}

fn class(class: &Value, now: Timestamp) -> Vec<Value> {
    let default = annotation(class, "storageclass.kubernetes.io/is-default-class") == Some("true");
    let or = |pointer: &str, absent: &str| {
        let value = text(class, pointer);
        if value.is_empty() { absent.to_owned() } else { value.to_owned() }
    };
    vec![
        json!(format!("{}{}", name(class), if default { " (default)" } else { "" })),
        json!(text(class, "/provisioner")),
        json!(or("/reclaimPolicy", "Delete")),
        json!(or("/volumeBindingMode", "<unset>")),
        json!(flag(class, "/allowVolumeExpansion")),
        json!(age::since(time(class, "/metadata/creationTimestamp"), now)),
    ]
}

fn phase(object: &Value) -> &str {
    if deleting(object) { "Terminating" } else { text(object, "/status/phase") }
}

fn or_unset(text: &str) -> &str {
    if text.is_empty() { "<unset>" } else { text }
}

/// `RWO,ROX,RWX,RWOP`, in this order and without repeats.
fn access_modes(modes: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short: Vec<&str> = known
        .iter()
        .filter(|(long, _)| modes.iter().any(|mode| mode == long))
        .map(|(_, short)| *short)
        .collect();
    short.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_shows_its_capacity_only_once_it_is_bound() {
        let mut pending = json!({
            "metadata": { "name": "demo-0", "creationTimestamp": "2024-01-01T00:00:00Z" },
            "spec": { "storageClassName": "standard", "volumeMode": "Filesystem" },
            "status": { "phase": "Pending", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] },
        });
        let now = "2024-01-01T00:00:05Z".parse().unwrap();
        assert_eq!(claim(&pending, now)[1..5], [json!("Pending"), json!(""), json!(""), json!("")]);
        pending["spec"]["volumeName"] = json!("pvc-1");
        pending["status"]["phase"] = json!("Bound");
        assert_eq!(
            Value::from(claim(&pending, now)),
            json!(["demo-0", "Bound", "pvc-1", "1Gi", "RWO", "standard", "<unset>", "5s", "Filesystem"])
        );
    }

    #[test]
    fn the_default_class_is_shown_as_default() {
        let standard = json!({
            "metadata": { "name": "standard", "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } },
            "provisioner": "local", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
        });
        let row = class(&standard, Timestamp::UNIX_EPOCH);
        assert_eq!(
            Value::from(&row[..5]),
            json!(["standard (default)", "local", "Delete", "WaitForFirstConsumer", true])
        );
    }
}
