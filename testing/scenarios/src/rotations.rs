//! How a user orders and follows a rotation of an authority of the EtcdCluster `demo`, and what its Secrets have.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::{Value, json};

use crate::{NamespaceClient, until};

/// Sets an annotation `operator.etcd.io/KEY`.
pub async fn annotate(world: &NamespaceClient, key: &str, value: &str) -> Result<()> {
    let annotations = json!({ format!("operator.etcd.io/{key}"): value });
    world.patch("demo", json!({ "metadata": { "annotations": annotations } })).await?;
    Ok(())
}

/// The rotation in status; null if none is under way.
pub async fn rotation(world: &NamespaceClient) -> Result<Value> {
    Ok(world.status("demo").await?["certificates"]["rotation"].clone())
}

/// Waits until the rotation is in this stage, and returns the fingerprint of the new authority.
pub async fn stage(world: &NamespaceClient, wanted: &str) -> Result<String> {
    until(&format!("the rotation is in stage {wanted}"), async || {
        let rotation = rotation(world).await?;
        Ok(if rotation["stage"] == wanted { Ok(()) } else { Err(rotation.to_string()) })
    })
    .await?;
    Ok(rotation(world).await?["to"].as_str().context("no fingerprint")?.to_owned())
}

/// An entry of a Secret, such as `tls.crt`.
pub async fn entry(world: &NamespaceClient, secret: &str, key: &str) -> Result<Vec<u8>> {
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    let data = secrets.get(secret).await?.data;
    Ok(data.and_then(|mut data| data.remove(key)).with_context(|| format!("{secret} has no {key}"))?.0)
}
