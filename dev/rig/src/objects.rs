//! The first objects of a cluster: permissions, and the storage classes.

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::disks;
use crate::provisioner::PROVISIONER;

/// Applies them.
pub async fn apply(client: &Client) -> Result<()> {
    let dns = json!([
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces", "nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]);
    let volumes = json!([
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims/status"], "verbs": ["patch"]},
        {
            "apiGroups": [""], "resources": ["persistentvolumes"],
            "verbs": ["get", "list", "watch", "create", "patch", "delete"],
        },
    ]);
    for (user, rules) in [("quorate:coredns", dns), ("quorate:provisioner", volumes)] {
        apply_one::<ClusterRole>(client, user, json!({"rules": rules})).await?;
        let binding = json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        apply_one::<ClusterRoleBinding>(client, user, binding).await?;
    }
    let class = json!({
        "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete",
        // A volume is a folder of one node, so the scheduler chooses the node first.
        "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
    });
    apply_one::<StorageClass>(client, "standard", class).await?;
    let class = json!({
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
    });
    apply_one::<StorageClass>(client, disks::CLASS, class).await
}

async fn apply_one<K>(client: &Client, name: &str, mut object: Value) -> Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>,
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    object["metadata"]["name"] = name.into();
    let api: Api<K> = Api::all(client.clone());
    let params = PatchParams::apply("quorate-kube").force();
    let applied = api.patch(name, &params, &Patch::Apply(&object)).await;
    applied.with_context(|| format!("cannot apply {} {name}", K::kind(&())))?;
    Ok(())
}
