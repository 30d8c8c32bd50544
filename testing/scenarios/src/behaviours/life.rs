//! The life of a cluster on real etcd: bootstrap, scaling, hibernation, deletion, adoption. Where writes matter a writer runs,
//! and every write that etcd acknowledged must be readable at the end.

use anyhow::{Result, bail, ensure};
use serde_json::json;

use crate::{World, Writer, spec, until, version};

pub async fn a_cluster_goes_through_every_size_and_loses_no_acknowledged_write(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(world, "demo").await?;
    for size in [5, 1, 0, 3, 5] {
        world.scale("demo", size).await?;
        world.settled("demo", size).await?;
    }
    let acknowledged = writer.stop().await?;
    acknowledged.are_all_readable(world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id, "the cluster id changed");
    ensure!(world.volumes_of("demo").await?.len() == 5, "volumes of removed members are deleted");
    Ok(())
}

pub async fn a_cluster_without_tls_is_bootstrapped_and_scaled(world: &impl World) -> Result<()> {
    let mut plain = spec(1);
    plain["tls"] = json!({"provider": "disabled"});
    // Where the network enforces policies, peers, the operator and the writer go through this one.
    plain["networkPolicy"] = json!({"enabled": true});
    world.create("plain", plain).await?;
    world.settled("plain", 1).await?;
    let writer = Writer::start(world, "plain").await?;
    world.patch("plain", json!({"spec": {"networkPolicy": {"metricsFrom": []}}})).await?;
    world.scale("plain", 3).await?;
    world.settled("plain", 3).await?;
    world.patch("plain", json!({"spec": {"networkPolicy": null}})).await?;
    world.settled("plain", 3).await?;
    writer.stop().await?.are_all_readable(world, "plain").await
}

pub async fn retained_volumes_wait_for_a_person_and_are_served_after_the_adopt_annotation(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(world, "demo").await?;
    let acknowledged = writer.stop().await?;
    world.delete("demo").await?;
    ensure!(world.volumes_of("demo").await?.len() == 3, "volumes are retained");

    world.create("demo", spec(3)).await?;
    let message = world.wait_for_condition("demo", "ExistingData", "True").await?;
    ensure!(message.contains(&format!("operator.etcd.io/adopt={id}")), "{message}");
    ensure!(world.pods_of("demo").await?.is_empty(), "nothing is started");

    let annotation = json!({"metadata": {"annotations": {"operator.etcd.io/adopt": id}}});
    world.patch("demo", annotation).await?;
    world.settled("demo", 3).await?;
    ensure!(world.one_cluster_id("demo").await? == id, "the adopted cluster keeps its id");
    acknowledged.are_all_readable(world, "demo").await
}

pub async fn h05_after_retained_volumes_are_deleted_a_new_cluster_has_new_names_and_another_id(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let (id, token) = (world.cluster_id("demo").await?, world.status("demo").await?["clusterToken"].clone());
    world.delete("demo").await?;
    world.create("demo", spec(1)).await?;
    world.wait_for_condition("demo", "ExistingData", "True").await?;
    world.delete_volume("demo-0").await?;
    world.wait_for_condition("demo", "ExistingData", "False").await?;
    // Whoever may create Secrets could have put these there.
    world.reports("demo", "a certificate authority of no volume of this cluster").await?;
    world.delete_authorities("demo").await?;
    world.settled("demo", 1).await?;
    ensure!(world.one_cluster_id("demo").await? != id, "another cluster has another id");
    ensure!(world.status("demo").await?["clusterToken"] != token, "and another token");
    ensure!(world.member_ids("demo").await?.contains_key("demo-1"), "and another name");
    Ok(())
}

pub async fn volumes_are_deleted_with_the_cluster_when_retention_is_delete(world: &impl World) -> Result<()> {
    let mut gone = spec(3);
    gone["storageSpec"]["retention"] = json!({"whenDeleted": "Delete"});
    world.create("gone", gone).await?;
    world.settled("gone", 3).await?;
    world.delete("gone").await?;
    until("the volumes are gone", async || {
        let left = world.volumes_of("gone").await?.len();
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} left")) })
    })
    .await
}

pub async fn quick_edits_during_bootstrap_end_in_one_cluster_of_the_last_size(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(3)).await?;
    for size in [5, 3, 4] {
        world.scale("demo", size).await?;
    }
    world.settled("demo", 4).await?;
    world.one_cluster_id("demo").await?;
    Ok(())
}

pub async fn a_version_that_does_not_exist_is_reported_and_a_right_one_fixes_it(
    world: &impl World,
) -> Result<()> {
    let mut wrong = spec(3);
    wrong["version"] = json!("3.6.999");
    world.create("demo", wrong).await?;
    world.reports("demo", "ImagePull").await?;
    world.patch("demo", json!({"spec": {"version": version()}})).await?;
    world.settled("demo", 3).await?;
    world.one_cluster_id("demo").await?;
    Ok(())
}

pub async fn a_cluster_deleted_during_bootstrap_and_created_again_at_once_is_one_cluster(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(3)).await?;
    until("volumes are being made", async || {
        let volumes = world.volumes_of("demo").await?.len();
        Ok(if volumes > 0 { Ok(()) } else { Err("none".into()) })
    })
    .await?;
    world.delete("demo").await?;
    world.create("demo", spec(3)).await?;
    // If the first cluster had already formed, its volumes wait for a person. Both outcomes are right, a mixture is not.
    let settled = world.settled("demo", 3);
    let asked = world.wait_for_condition("demo", "ExistingData", "True");
    tokio::select! {
        settled = settled => settled?,
        asked = asked => drop(asked?),
    }
    if !world.pods_of("demo").await?.is_empty() {
        world.one_cluster_id("demo").await?;
    }
    Ok(())
}

pub async fn a_settled_cluster_writes_nothing_to_the_api(world: &impl World) -> Result<()> {
    world.create("idle", spec(1)).await?;
    world.settled("idle", 1).await?;
    // As text, so that a failure shows what was written.
    let text = async || {
        let (cluster, pods) = (world.clusters().get("idle").await?, world.pods_of("idle").await?);
        Ok::<_, anyhow::Error>(serde_json::to_string_pretty(&json!({"cluster": cluster, "pods": pods}))?)
    };
    // The operator looks at etcd at least once in each span (every 30 s, or every 10 s if not all is well). On a busy machine a member may answer too late once, and status
    // reports that. A write without a cause appears in every span.
    let mut changed = Vec::new();
    for _ in 0..3 {
        let before = Box::pin(text()).await?;
        tokio::time::sleep(std::time::Duration::from_secs(33)).await;
        let after = Box::pin(text()).await?;
        if before == after {
            return Ok(());
        }
        let lines = before.lines().zip(after.lines()).filter(|(before, after)| before != after);
        changed.push(lines.map(|(before, after)| format!("{before} -> {after}")).collect::<Vec<_>>());
    }
    bail!("a settled cluster was written: {changed:#?}")
}
