//! docs/protocols/rotate.md at real etcd: both certificate authorities are replaced under writes.

use std::time::Instant;

use anyhow::{Result, ensure};
use quorate_scenarios::rotations::{annotate, entry, rotation, stage};
use quorate_scenarios::{NamespaceClient, Playground, Writer, spec, until};
use serde_json::json;

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

pub(crate) async fn certificate(world: &NamespaceClient, secret: &str) -> Result<Vec<u8>> {
    entry(world, secret, "tls.crt").await
}
