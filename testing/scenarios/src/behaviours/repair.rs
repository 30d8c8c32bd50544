//! The life of members: a disk is emptied, a claim is deleted, a person orders a replacement.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::{World, Writer, spec, until};

/// How long data must be lost in these tests.
const GRACE: Duration = Duration::from_secs(5);

pub async fn h21_a_member_whose_disk_is_lost_is_replaced_and_one_is_moved_on_order_under_writes(
    world: &impl World,
) -> Result<()> {
    world.create("demo", soon(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(world, "demo").await?;

    let emptied = Instant::now();
    world.wipe_volume("demo-1").await?;
    world.delete_pod("demo-1").await?;
    is_replaced(world, "demo-1", emptied).await?;
    world.settled("demo", 3).await?;

    let deleted = Instant::now();
    world.delete_volume("demo-2").await?;
    world.delete_pod("demo-2").await?;
    is_replaced(world, "demo-2", deleted).await?;
    world.settled("demo", 3).await?;

    let ordered = Instant::now();
    world.order_replacement("demo", "demo-0").await?;
    is_replaced(world, "demo-0", ordered).await?;
    world.settled("demo", 3).await?;

    let acknowledged = writer.stop().await?;
    println!("replaced a lost disk, a lost claim and a healthy member: {}", acknowledged.figures());
    acknowledged.are_all_readable(world, "demo").await?;
    // What was on its way to an etcd whose disk was emptied under it has no known outcome, so failed writes are shown and not counted.
    ensure!(world.one_cluster_id("demo").await? == id, "the cluster id changed");
    let quarantined = ListParams::default().labels("operator.etcd.io/quarantined=true");
    let mut kept: Vec<String> =
        world.volumes().list(&quarantined).await?.iter().map(kube::ResourceExt::name_any).collect();
    kept.sort();
    ensure!(kept == ["demo-0", "demo-1"], "{kept:?} are quarantined");
    Ok(())
}

pub async fn a_cluster_of_one_is_moved_to_another_volume_on_order(world: &impl World) -> Result<()> {
    world.create("one", soon(1)).await?;
    world.settled("one", 1).await?;
    let writer = Writer::start(world, "one").await?;
    let ordered = Instant::now();
    world.order_replacement("one", "one-0").await?;
    is_replaced(world, "one-0", ordered).await?;
    world.settled("one", 1).await?;
    writer.stop().await?.are_all_readable(world, "one").await
}

pub async fn m01_size_zero_and_a_rollout_keep_the_data_of_members_whose_claims_were_deleted(
    world: &impl World,
) -> Result<()> {
    world.create("one", spec(1)).await?;
    world.create("demo", spec(3)).await?;
    world.settled("one", 1).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let (one, demo) = (Writer::start(world, "one").await?, Writer::start(world, "demo").await?);
    for claim in ["one-0", "demo-0", "demo-1", "demo-2"] {
        world.delete_volume(claim).await?;
    }
    let rolls = json!({"spec": {"podTemplate": {"metadata": {"labels": {"rolled": "yes"}}}}});
    world.patch("one", rolls).await?;
    world.reports("demo", "ClaimTerminating").await?;
    world.scale("demo", 0).await?;
    world.settled("one", 1).await?;
    let one = one.stop().await?;
    one.are_all_readable(world, "one").await?;
    ensure!(world.member_ids("one").await?.contains_key("one-1"), "the member has moved");

    world.settled("demo", 0).await?;
    ensure!(world.volumes_of("demo").await?.len() == 3, "every member has a claim");
    world.scale("demo", 3).await?;
    world.settled("demo", 3).await?;
    demo.stop().await?.are_all_readable(world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id, "the cluster id changed");
    Ok(())
}

/// A spec with a short grace period.
fn soon(size: usize) -> Value {
    let mut spec = spec(size);
    spec["recovery"] = json!({"gracePeriod": format!("{}s", GRACE.as_secs())});
    spec
}

/// Waits until another voter has taken the place of the member, and prints how long it took.
async fn is_replaced(world: &impl World, member: &str, since: Instant) -> Result<()> {
    let (cluster, _) = member.rsplit_once('-').unwrap_or((member, ""));
    until(&format!("{member} is replaced"), async || {
        let status = world.status(cluster).await?;
        let recovery = &status["recovery"];
        let done = recovery["lastRecoveredMember"] == member && recovery["lastResult"] == "Succeeded";
        Ok(if done { Ok(()) } else { Err(format!("{recovery} {}", status["members"])) })
    })
    .await?;
    println!(
        "{member} is replaced after {:.1} s, with a grace period of {} s",
        since.elapsed().as_secs_f64(),
        GRACE.as_secs()
    );
    Ok(())
}
