//! The connection Secret as the operator keeps it: it comes back when it is deleted, and never takes the place of a Secret of somebody
//! else.

use std::time::Duration;

use crate::world::{World, plain, settled, until};
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::api::{Patch, PatchParams, PostParams};
use quorate_api::EtcdCluster;
use serde_json::json;

const NAME: &str = "demo-connection";

#[tokio::test(start_paused = true)]
async fn a_secret_that_was_deleted_is_created_again_and_at_rest_nothing_is_written() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let operator = world.operator();
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    let binding = world.status().await?.binding;
    ensure!(binding.as_ref().is_some_and(|binding| binding.name == NAME), "{binding:?}");
    let version = world.kube.store().version();
    tokio::time::sleep(Duration::from_mins(5)).await;
    ensure!(world.kube.store().version() == version, "nothing is written while nothing changes");
    world.delete::<Secret>(NAME).await?;
    is_there(&world).await?;
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_that_name_that_the_cluster_does_not_own_is_reported_and_left_alone() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let theirs: Secret = serde_json::from_value(json!({
        "metadata": { "name": NAME }, "data": { "password": ByteString(b"theirs".to_vec()) },
    }))?;
    let theirs = world.api::<Secret>().create(&PostParams::default(), &theirs).await?;
    let _operator = world.operator();
    world.create_cluster(plain(1)).await?;
    until("the status names it", async || {
        let found = world.condition("Progressing", "False").await?;
        let is_named = found.as_ref().is_some_and(|(reason, message)| {
            reason == "ForeignObjects" && message.contains("Secret default/demo-connection")
        });
        Ok(if is_named { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await?;
    ensure!(world.condition("Available", "True").await?.is_some(), "the cluster serves");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let seen = world.api::<Secret>().get(NAME).await?;
    ensure!(seen.metadata == theirs.metadata && seen.data == theirs.data, "{seen:?}");
    ensure!(world.status().await?.binding.is_none(), "status names the Secret of somebody else");

    world.delete::<Secret>(NAME).await?;
    is_there(&world).await?;
    ensure!(entry(&world, NAME, "uri").await? == b"http://demo-client.default.svc:2379");
    Ok(())
}

/// Without the label no watch shows it. The operator finds it when it creates another one, and puts the label back.
#[tokio::test(start_paused = true)]
async fn one_whose_label_somebody_took_off_is_not_taken_for_a_foreign_one() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "operator.etcd.io/cluster": null } } }));
    let before = world.api::<Secret>().patch(NAME, &PatchParams::default(), &patch).await?;
    until("it has its label again", async || {
        let seen = world.api::<Secret>().get(NAME).await?;
        ensure!(seen.metadata.uid == before.metadata.uid, "it was created anew");
        let labels = seen.metadata.labels.unwrap_or_default();
        Ok(if labels.contains_key("operator.etcd.io/cluster") { Ok(()) } else { Err(format!("{labels:?}")) })
    })
    .await?;
    settled(&world, 1).await
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_service_is_carried_out_in_place_and_taken_back() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    let before = world.api::<Service>().get("demo-client").await?;
    let given =
        json!({ "type": "LoadBalancer", "annotations": { "a": "b" }, "trafficDistribution": "PreferClose" });
    for (given, annotated) in [(given, true), (serde_json::Value::Null, false)] {
        let patch = Patch::Merge(json!({ "spec": { "service": given } }));
        world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &patch).await?;
        until("the Service follows", async || {
            let seen = world.api::<Service>().get("demo-client").await?;
            ensure!(seen.metadata.uid == before.metadata.uid, "it was created anew");
            let is = seen.metadata.annotations.clone().unwrap_or_default().contains_key("a");
            Ok(if is == annotated { Ok(()) } else { Err(format!("{seen:?}")) })
        })
        .await?;
        settled(&world, 1).await?;
    }
    let after = world.api::<Service>().get("demo-client").await?;
    ensure!(after.metadata.annotations.unwrap_or_default().is_empty(), "something is left");
    Ok(())
}

async fn is_there(world: &World) -> Result<()> {
    until("the Secret is there", async || {
        Ok(entry(world, NAME, "uri").await.map(drop).map_err(|error| format!("{error:#}")))
    })
    .await
}

async fn entry(world: &World, secret: &str, key: &str) -> Result<Vec<u8>> {
    let secret = world.api::<Secret>().get(secret).await?;
    let entry = secret.data.context("no data")?.remove(key);
    Ok(entry.with_context(|| format!("no {key}"))?.0)
}
