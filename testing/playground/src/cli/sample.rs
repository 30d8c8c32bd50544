//! The content of a new playground: the custom resource definitions and a sample cluster.

use anyhow::{Context, Result};
use quorate_apistore::store::Part;
use quorate_apistore::{ApiError, ObjectKey, ResourceKey};
use quorate_localkube::LocalKube;
use serde_json::{Value, json};

/// The name of the sample cluster.
pub(super) const NAME: &str = "demo";

/// Installs the custom resource definitions of this version.
pub(super) fn definitions(kube: &LocalKube) -> Result<()> {
    let resource = ResourceKey::new("apiextensions.k8s.io", "customresourcedefinitions");
    for definition in quorate_api::crds() {
        let mut definition: Value = serde_json::to_value(definition)?;
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey::new(resource.clone(), "", name);
        if kube.store().get(&key).is_none() {
            kube.store()
                .create(&resource, "", definition, false)
                .context("cannot install the custom resource definitions")?;
        } else {
            let spec = definition["spec"].take();
            let renewed = renew(kube, &key, "spec", spec);
            renewed.context("cannot install the custom resource definitions")?;
        }
    }
    Ok(())
}

fn renew(kube: &LocalKube, key: &ObjectKey, part: &str, value: Value) -> Result<Value, ApiError> {
    kube.store().modify(key, Part::Main, false, |old| {
        let mut new = old.clone();
        new[part] = value;
        Ok(new)
    })
}

/// Creates the sample cluster.
pub(super) fn apply(kube: &LocalKube, version: &str, size: u32) -> Result<()> {
    let cluster = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": NAME},
        "spec": {"size": size, "version": version, "storageSpec": {"volumeSizeRequest": "256Mi"}},
    });
    let resource = ResourceKey::new("operator.etcd.io", "etcdclusters");
    kube.store().create(&resource, "default", cluster, false).context("the sample cluster was refused")?;
    Ok(())
}
