//! docs/protocols/rotate.md at real etcd: both certificate authorities are replaced under writes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use quorate_scenarios::{NamespaceClient, Playground, Writer, spec, until};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn both_authorities_are_replaced_under_writes_of_a_client_that_reads_its_own_once_and_none_fails()
-> Result<()> {
    let world = Playground::start().await?;
    let mut given = spec(3);
    given["tls"] = json!({ "rotation": { "clientGrace": "24h" } });
    world.create("demo", given).await?;
    world.settled("demo", 3).await?;
    let before = [certificate(&world, "demo-ca").await?, certificate(&world, "demo-peer-ca").await?];

    // That of peers: no client notices.
    let writer = Writer::start(&world, "demo").await?;
    let began = Instant::now();
    annotate(&world, "rotate-ca", "peers").await?;
    until("the authority of peers is another one, and the rotation has ended", async || {
        let rotation = rotation(&world).await?;
        let is_another = certificate(&world, "demo-peer-ca").await? != before[1];
        Ok(if is_another && rotation.is_null() { Ok(()) } else { Err(format!("{rotation}")) })
    })
    .await?;
    println!("rotation of the authority of peers: {:.1} s", began.elapsed().as_secs_f64());
    world.settled_again("demo", 3).await?;

    // That of clients: this writer has read ca.crt once, as an API server does. Another one begins once the Secret has both.
    annotate(&world, "rotate-ca", "clients").await?;
    let to = stage(&world, "Trust").await?;
    world.reports("demo", "operator.etcd.io/clients-trust=").await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    let writer = Writer::start(&world, "demo").await?;
    annotate(&world, "clients-trust", &to).await?;
    stage(&world, "Sign").await?;
    world.reports("demo", "operator.etcd.io/clients-present=").await?;
    annotate(&world, "clients-present", &to).await?;
    until("the rotation has ended", async || {
        let rotation = rotation(&world).await?;
        Ok(if rotation.is_null() { Ok(()) } else { Err(format!("{rotation}")) })
    })
    .await?;
    world.settled_again("demo", 3).await?;
    ensure!(certificate(&world, "demo-ca").await? != before[0], "another authority of clients");
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    let bundle = entry(&world, "demo-client-tls", "ca.crt").await?;
    ensure!(bundle == certificate(&world, "demo-ca").await?, "the earlier one is forgotten");
    Ok(())
}

/// Waits until the rotation is in this stage, and returns the fingerprint of the new authority.
pub(crate) async fn stage(world: &NamespaceClient, wanted: &str) -> Result<String> {
    until(&format!("the rotation is in stage {wanted}"), async || {
        let rotation = rotation(world).await?;
        Ok(if rotation["stage"] == wanted { Ok(()) } else { Err(format!("{rotation}")) })
    })
    .await?;
    Ok(rotation(world).await?["to"].as_str().context("no fingerprint")?.to_owned())
}

pub(crate) async fn rotation(world: &NamespaceClient) -> Result<Value> {
    Ok(world.status("demo").await?["certificates"]["rotation"].clone())
}

pub(crate) async fn annotate(world: &NamespaceClient, key: &str, value: &str) -> Result<()> {
    let annotations = json!({ format!("operator.etcd.io/{key}"): value });
    world.patch("demo", json!({ "metadata": { "annotations": annotations } })).await?;
    Ok(())
}

pub(crate) async fn certificate(world: &NamespaceClient, secret: &str) -> Result<Vec<u8>> {
    entry(world, secret, "tls.crt").await
}

pub(crate) async fn entry(world: &NamespaceClient, secret: &str, key: &str) -> Result<Vec<u8>> {
    let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
    let secret = secrets.get(secret).await?;
    Ok(secret.data.and_then(|mut data| data.remove(key)).with_context(|| format!("no {key}"))?.0)
}
