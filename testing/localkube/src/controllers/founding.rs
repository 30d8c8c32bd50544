//! What a cluster has from its first moment, besides the namespaces that the store itself makes.

use serde_json::{Value, json};

use super::volumes::PROVISIONER;
use crate::errors::ApiError;
use crate::resources::ResourceKey;
use crate::store::Store;

/// Makes the namespace `quorate-system` and the storage class `standard`: the default one, which waits for the first
/// consumer and whose volumes are directories below `volumes` and may grow. What is there already is left as it is.
pub fn found(store: &Store, volumes: &str) -> Result<(), ApiError> {
    let namespace = json!({ "metadata": { "name": "quorate-system" } });
    make(store, &ResourceKey::new("", "namespaces"), namespace)?;
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
    make(store, &ResourceKey::new("storage.k8s.io", "storageclasses"), class)
}

fn make(store: &Store, resource: &ResourceKey, object: Value) -> Result<(), ApiError> {
    match store.create(resource, "", object, false) {
        Ok(_) => Ok(()),
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        Err(error) => Err(error),
    }
}
