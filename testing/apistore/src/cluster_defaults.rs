//! The objects that every cluster has besides the namespaces that the store itself creates.

use serde_json::{Value, json};

use crate::errors::ApiError;
use crate::resources::ResourceKey;
use crate::store::Store;

/// The provisioner of the storage class `standard`: its volumes are directories of the node.
pub const PROVISIONER: &str = "localkube/directory";

/// Creates the namespace `quorate-system` and the default storage class `standard`. The class waits for the first
/// consumer; its volumes are directories below `volumes` and can be expanded. Objects that exist are left unchanged.
pub fn create(store: &Store, volumes: &str) -> Result<(), ApiError> {
    let namespace = json!({ "metadata": { "name": "quorate-system" } });
    ensure(store, &ResourceKey::new("", "namespaces"), namespace)?;
    let class = json!({
        "metadata": {
            "name": "standard",
            "annotations": { "storageclass.kubernetes.io/is-default-class": "true" },
        },
        "provisioner": PROVISIONER,
        "parameters": { "path": volumes },
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    });
    ensure(store, &ResourceKey::new("storage.k8s.io", "storageclasses"), class)
}

fn ensure(store: &Store, resource: &ResourceKey, object: Value) -> Result<(), ApiError> {
    match store.create(resource, "", object, false) {
        Ok(_) => Ok(()),
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error),
    }
}
