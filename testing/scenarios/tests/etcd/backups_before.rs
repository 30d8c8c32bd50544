//! Backups before an upgrade and before the end of a cluster.

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use quorate_scenarios::backups::restored_from;
use quorate_scenarios::{Playground, Writer, spec, until};
use serde_json::json;

/// The default of these tests is the version that follows.
const BEFORE: &str = "3.5.35";

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_backed_up_before_its_upgrade_and_before_its_end_and_begins_again_from_that()
-> Result<()> {
    let world = Playground::start().await?;
    let store = world.claim_for_backups("backups").await?;
    let mut asked = spec(3);
    let after = asked["version"].clone();
    asked["version"] = json!(BEFORE);
    asked["upgrade"] = json!({"backupBefore": {"destination": &store}});
    asked["deletion"] = json!({"finalBackup": {"destination": &store}});
    asked["storageSpec"]["retention"] = json!({"whenDeleted": "Delete"});
    world.create("demo", asked).await?;
    world.settled("demo", 3).await?;
    let uid = world.clusters().get("demo").await?.metadata.uid.context("it has a uid")?;
    let [first, last] = [format!("before-3.6-{uid}"), format!("final-{uid}")];

    let writer = Writer::start(&world, "demo").await?;
    world.patch("demo", json!({"spec": {"version": after}})).await?;
    until("it is upgraded", async || {
        let status = world.status("demo").await?;
        Ok(if status["currentVersion"] == after { Ok(()) } else { Err(status.to_string()) })
    })
    .await?;
    world.settled("demo", 3).await?;
    let taken = world.is_backed_up(&first).await?;
    ensure!(taken["result"]["etcdVersion"] == BEFORE, "it was taken before the upgrade: {taken}");
    let acknowledged = writer.stop().await?;

    world.delete("demo").await?;
    world.is_backed_up(&last).await?;
    let left = world.volumes().list(&ListParams::default().labels("operator.etcd.io/cluster=demo")).await?;
    ensure!(left.items.is_empty(), "the retention policy lets the volumes go, since the backup is complete");
    world.create("demo", restored_from(1, &last)).await?;
    world.settled("demo", 1).await?;
    acknowledged.are_all_readable(&world, "demo").await
}
