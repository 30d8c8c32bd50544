//! A quorum is lost for good, and a person orders to go on with what one member has.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::{World, Writer, spec, until};

const ANNOTATION: &str = "operator.etcd.io/recover-quorum-from";

/// How long the test waits for a write that no quorum stores.
const NEVER: Duration = Duration::from_secs(2);

async fn order(world: &impl World, from: Option<&str>) -> Result<()> {
    world.patch("demo", json!({"metadata": {"annotations": {ANNOTATION: from}}})).await.map(drop)
}

/// A cluster of three under writes loses two disks. Returns its id and what was acknowledged.
async fn lose_two_disks(world: &impl World) -> Result<(String, crate::Acknowledged)> {
    let mut spec = spec(3);
    // Nothing else repairs them meanwhile, and status soon names the order.
    spec["recovery"] = json!({"gracePeriod": "5s"});
    spec["storageSpec"]["volumeSizeRequest"] = json!("512Mi");
    world.create("demo", spec).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(world, "demo").await?;
    let acknowledged = writer.stop().await?;
    for lost in ["demo-1", "demo-2"] {
        world.wipe_volume(lost).await?;
        world.delete_pod(lost).await?;
    }
    world.wait_for_condition("demo", "QuorumAvailable", "False").await?;
    Ok((id, acknowledged))
}

pub async fn h27_a_lost_quorum_is_recovered_on_order_with_all_that_the_last_member_has_and_under_a_new_id(
    world: &impl World,
) -> Result<()> {
    let (id, acknowledged) = lose_two_disks(world).await?;
    let running = world.members_that_run("demo").await?;
    let (_, survivor) = running.iter().find(|(name, _)| name == "demo-0").context("demo-0 runs")?;
    let late = tokio::time::timeout(NEVER, survivor.put("late", "never")).await;
    ensure!(!matches!(late, Ok(Ok(_))), "no quorum stores it");

    // It never happens by itself.
    world.reports("demo", &format!("{ANNOTATION}=auto")).await?;
    ensure!(world.cluster_id("demo").await? == id);
    order(world, Some("auto")).await?;
    world.reports("demo", "committed up to entry").await?;
    until("the cluster has another id", async || {
        let status = world.status("demo").await?;
        let other = status["clusterID"].as_str().is_some_and(|other| other != id);
        Ok(if other { Ok(()) } else { Err(status.to_string()) })
    })
    .await?;
    world.settled("demo", 3).await?;
    acknowledged.are_all_readable(world, "demo").await?;
    println!("recovered from one member of three: {}", acknowledged.figures());
    ensure!(world.one_cluster_id("demo").await? != id, "a new cluster id");
    let names: BTreeSet<String> = world.member_ids("demo").await?.into_keys().collect();
    ensure!(names.iter().all(|name| !["demo-0", "demo-1", "demo-2"].contains(&name.as_str())), "{names:?}");
    let quarantined = ListParams::default().labels("operator.etcd.io/quarantined=true");
    let kept: BTreeSet<String> =
        world.volumes().list(&quarantined).await?.iter().map(ResourceExt::name_any).collect();
    ensure!(["demo-0", "demo-1", "demo-2"].iter().all(|old| kept.contains(*old)), "{kept:?} are quarantined");
    order(world, None).await?;
    world.settled("demo", 3).await
}

pub async fn an_order_to_recover_a_quorum_has_no_effect_while_one_answers_and_is_withdrawn_without_a_trace(
    world: &impl World,
) -> Result<()> {
    let mut spec = spec(3);
    spec["recovery"] = json!({"enabled": false});
    world.create("demo", spec).await?;
    world.settled("demo", 3).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    order(world, Some("auto")).await?;
    world.reports("demo", "has no effect while a quorum answers").await?;
    order(world, None).await?;
    world.settled("demo", 3).await?;

    let writer = Writer::start(world, "demo").await?;
    let acknowledged = writer.stop().await?;
    // Two disks cannot be used for a while.
    let mut hidden = Vec::new();
    for member in ["demo-1", "demo-2"] {
        let data = world.volume_dir(member).await?.join("data");
        let aside = data.with_file_name("aside");
        std::fs::rename(&data, &aside)?;
        hidden.push((data, aside));
        world.delete_pod(member).await?;
    }
    world.wait_for_condition("demo", "QuorumAvailable", "False").await?;
    order(world, Some("demo-1")).await?;
    world.reports("demo", "demo-1 has no data of this cluster").await?;
    for (data, aside) in hidden {
        std::fs::rename(&aside, &data)?;
    }
    order(world, None).await?;
    world.settled("demo", 3).await?;
    ensure!(world.one_cluster_id("demo").await? == id);
    ensure!(world.member_ids("demo").await? == members);
    acknowledged.are_all_readable(world, "demo").await
}
