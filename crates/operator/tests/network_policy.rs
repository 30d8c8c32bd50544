//! The NetworkPolicy as the operator keeps it: it comes and goes with the field, through lost replies, and never takes the place of a policy
//! of somebody else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::world::{RequestOutcome, World, plain, settled, until};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Patch, PatchParams, PostParams};
use quorate_api::EtcdCluster;
use serde_json::{Value, json};

async fn set(world: &World, policy: Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "networkPolicy": policy } }));
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &patch).await?;
    Ok(())
}

fn with(policy: Value) -> Value {
    let mut spec = plain(1);
    spec["networkPolicy"] = policy;
    spec
}

async fn has_rules(world: &World, rules: Option<usize>) -> Result<()> {
    until("the policy follows", async || {
        let seen = world.api::<NetworkPolicy>().get_opt("demo").await?;
        let ingress = seen.map(|seen| seen.spec.and_then(|spec| spec.ingress).map_or(0, |rules| rules.len()));
        Ok(if ingress == rules { Ok(()) } else { Err(format!("{ingress:?} rules")) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn it_comes_with_the_cluster_follows_edits_and_goes_with_the_field_and_no_member_is_touched()
-> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    // The first reply to every write of a policy is lost.
    let lost: Arc<[AtomicBool; 3]> = Arc::default();
    let seen = lost.clone();
    let client = world.client_through(move |sent| {
        let nth = ["POST", "PATCH", "DELETE"].iter().position(|method| sent.method == *method);
        let nth = nth.filter(|_| sent.kind() == "networkpolicies");
        let is_first = nth.is_some_and(|nth| !seen[nth].swap(true, Ordering::SeqCst));
        if is_first { RequestOutcome::ReplyLost } else { RequestOutcome::Open }
    });
    let operator = world.operator_over(client, |_| {});
    world.create_cluster(with(json!({ "enabled": true }))).await?;
    settled(&world, 1).await?;
    has_rules(&world, Some(4)).await?;
    let before = world.api::<Pod>().get("demo-0").await?.metadata;

    set(&world, json!({ "metricsFrom": [] })).await?;
    has_rules(&world, Some(3)).await?;
    set(&world, Value::Null).await?;
    has_rules(&world, None).await?;
    settled(&world, 1).await?;
    ensure!(lost.iter().all(|lost| lost.load(Ordering::SeqCst)), "no reply was lost");
    let of_policy: BTreeMap<String, u64> =
        world.writes().into_iter().filter(|(what, _)| what.contains("networkpolicies")).collect();
    ensure!(of_policy.len() == 2 && of_policy.values().all(|times| *times == 1), "{of_policy:?}");
    let after = world.api::<Pod>().get("demo-0").await?.metadata;
    ensure!(
        (after.uid, after.resource_version) == (before.uid, before.resource_version),
        "a member was touched"
    );

    // Status tells no more of the reply that was lost.
    tokio::time::sleep(Duration::from_mins(1)).await;
    let version = world.kube.store().version();
    tokio::time::sleep(Duration::from_mins(5)).await;
    ensure!(world.kube.store().version() == version, "nothing is written while nothing changes");
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn where_it_may_not_be_written_the_cluster_is_bootstrapped_all_the_same_and_status_says_so()
-> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let client = world.client_through(|sent| {
        let is_write = sent.kind() == "networkpolicies" && sent.method == "POST";
        if is_write { RequestOutcome::Refused(403, "Forbidden") } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(with(json!({ "enabled": true }))).await?;
    until("the cluster serves, and status names the policy", async || {
        let serves = world.condition("Available", "True").await?.is_some();
        let conditions = world.status().await?.conditions;
        let is_named = conditions.iter().any(|one| one.message.contains("create NetworkPolicy default/demo"));
        Ok(if serves && is_named { Ok(()) } else { Err(format!("{conditions:#?}")) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn one_of_somebody_else_is_reported_and_left_alone_until_it_is_gone() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let theirs: NetworkPolicy =
        serde_json::from_value(json!({ "metadata": { "name": "demo" }, "spec": { "podSelector": {} } }))?;
    let theirs = world.api::<NetworkPolicy>().create(&PostParams::default(), &theirs).await?;
    let _operator = world.operator();
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    set(&world, json!({ "enabled": true })).await?;
    until("the status names it", async || {
        let found = world.condition("Progressing", "False").await?;
        let is_named = found.as_ref().is_some_and(|(reason, message)| {
            reason == "ForeignObjects" && message.contains("NetworkPolicy default/demo")
        });
        Ok(if is_named { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await?;
    let seen = world.api::<NetworkPolicy>().get("demo").await?;
    ensure!(seen == theirs, "{seen:?}");
    world.delete::<NetworkPolicy>("demo").await?;
    has_rules(&world, Some(4)).await?;
    settled(&world, 1).await
}

/// Without the label no watch shows it.
#[tokio::test(start_paused = true)]
async fn one_whose_label_and_rules_somebody_took_off_is_put_right() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(with(json!({ "enabled": true }))).await?;
    settled(&world, 1).await?;
    let patch = Patch::Merge(
        json!({ "metadata": { "labels": { "operator.etcd.io/cluster": null } }, "spec": { "ingress": [] } }),
    );
    let before = world.api::<NetworkPolicy>().patch("demo", &PatchParams::default(), &patch).await?;
    has_rules(&world, Some(4)).await?;
    let after = world.api::<NetworkPolicy>().get("demo").await?;
    ensure!(after.metadata.uid == before.metadata.uid, "it was created anew");
    let labels = after.metadata.labels.unwrap_or_default();
    ensure!(labels.contains_key("operator.etcd.io/cluster"), "{labels:?}");
    settled(&world, 1).await
}
