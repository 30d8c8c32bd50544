//! Volumes that grow, on storage classes that can and cannot, and another storage class for members that are new.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use quorate_scenarios::{Kubernetes, Writer, spec, until};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn volumes_grow_online_and_the_quota_follows_them_under_writes() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let claims = uids(&world.volumes_of("demo").await?);
    ensure!(quotas(&world).await? == ["--quota-backend-bytes=40265316"; 3], "{:?}", quotas(&world).await?);
    let writer = Writer::start(&world, "demo").await?;
    world.patch("demo", size("128Mi")).await?;
    until("every volume and every quota is larger", async || {
        let capacities = capacities(&world).await?;
        let quotas = quotas(&world).await?;
        let done = capacities == ["128Mi"; 3] && quotas == ["--quota-backend-bytes=80530635"; 3];
        Ok(if done { Ok(()) } else { Err(format!("{capacities:?} {quotas:?}")) })
    })
    .await?;
    world.settled("demo", 3).await?;
    ensure!(uids(&world.volumes_of("demo").await?) == claims, "a volume was replaced");
    let acknowledged = writer.stop().await?;
    acknowledged.are_all_readable(&world, "demo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_class_cannot_grow_volumes_the_quota_stays_until_members_have_moved_to_one_that_can()
-> Result<()> {
    let world = Kubernetes::start().await?;
    let mut small = spec(1);
    small["storageSpec"] = json!({"storageClassName": "disk", "volumeSizeRequest": "384Mi"});
    world.create("demo", small).await?;
    world.settled("demo", 1).await?;
    let before = quotas(&world).await?;
    world.patch("demo", size("512Mi")).await?;
    world.reports("demo", "operator.etcd.io/replace-member=").await?;
    // What waits is reported before the write is that the API server refuses.
    world.reports("demo", "must support resize").await?;
    let status = world.status("demo").await?.to_string();
    ensure!(status.contains("VolumeGrowing") && status.contains("must support resize"), "{status}");
    ensure!(quotas(&world).await? == before && capacities(&world).await? == ["384Mi"]);
    // As the message says.
    world.patch("demo", json!({"spec": {"storageSpec": {"storageClassName": "standard"}}})).await?;
    world.order_replacement("demo", "demo-0").await?;
    until("the member has moved to a larger volume with a larger quota", async || {
        let claim = world.volumes().get_opt("demo-1").await?;
        let class = claim.and_then(|claim| claim.spec?.storage_class_name).unwrap_or_default();
        let now = quotas(&world).await?;
        let done = class == "standard" && now.len() == 1 && now != before;
        Ok(if done { Ok(()) } else { Err(format!("{class} {now:?}")) })
    })
    .await?;
    world.settled("demo", 1).await
}

fn size(size: &str) -> Value {
    json!({"spec": {"storageSpec": {"volumeSizeRequest": size}}})
}

fn uids(claims: &[PersistentVolumeClaim]) -> BTreeSet<Option<String>> {
    claims.iter().map(ResourceExt::uid).collect()
}

/// The capacity of each volume, by the status of its claim.
async fn capacities(world: &Kubernetes) -> Result<Vec<String>> {
    let claims = world.volumes_of("demo").await?;
    let capacity = |claim: PersistentVolumeClaim| Some(claim.status?.capacity?.remove("storage")?.0);
    Ok(claims.into_iter().map(|claim| capacity(claim).unwrap_or_default()).collect())
}

/// The flag of the quota in each Pod.
async fn quotas(world: &Kubernetes) -> Result<Vec<String>> {
    let mut quotas = Vec::new();
    for pod in world.pods_of("demo").await? {
        let containers = pod.spec.context("a Pod has a spec")?.containers;
        let flags = containers.into_iter().flat_map(|container| container.args.unwrap_or_default());
        quotas.extend(flags.filter(|flag| flag.starts_with("--quota-backend-bytes=")));
    }
    Ok(quotas)
}
