//! Databases that are full, on real etcd. Auto-compaction is etcd's own policy in one cluster, and not in the other.

use anyhow::{Context, Result, ensure};
use quorate_etcd::{CallError, MemberClient, Refusal};
use quorate_scenarios::{NamespaceClient, Playground, spec, until};
use serde_json::{Value, json};

/// The smallest quota that the CRD admits.
pub(crate) const QUOTA: &str = "16Mi";

/// Half a MiB.
const VALUE: usize = 512 << 10;

async fn leader(world: &NamespaceClient, cluster: &str) -> Result<MemberClient> {
    for (_, member) in world.members(cluster).await? {
        if member.status().await.is_ok_and(|status| status.is_leader()) {
            return Ok(member);
        }
    }
    anyhow::bail!("no leader")
}

/// Writes one key again and again until a write is refused for want of space.
pub(crate) async fn fill(world: &NamespaceClient, cluster: &str) -> Result<()> {
    let leader = leader(world, cluster).await?;
    for _ in 0..200 {
        match leader.put("filler", vec![7_u8; VALUE]).await {
            Err(CallError::Refused(Refusal::NoSpace, _)) => return Ok(()),
            Ok(_) | Err(CallError::Unknown(_)) => {}
            Err(error) => return Err(error).context("filling"),
        }
    }
    anyhow::bail!("it takes writes without end")
}

/// Waits until a write is acknowledged.
async fn writes_again(world: &Playground) -> Result<()> {
    until("a write is acknowledged", async || {
        let put = leader(world, "demo").await?.put("after", "again").await;
        Ok(put.map(drop).map_err(|error| error.to_string()))
    })
    .await
}

fn small(etcd: &Value) -> Value {
    with_quota(3, etcd)
}

/// A spec of this size with such settings of etcd, among them a small quota.
pub(crate) fn with_quota(size: usize, etcd: &Value) -> Value {
    let mut small = spec(size);
    // Room for etcd's log, and for the copy that a defragmentation makes.
    small["storageSpec"]["volumeSizeRequest"] = json!("1Gi");
    small["etcd"] = etcd.clone();
    small
}

#[tokio::test(flavor = "multi_thread")]
async fn l07_a_full_database_is_told_and_given_room_by_the_operator_where_etcd_compacts_by_itself()
-> Result<()> {
    let world = Playground::start().await?;
    let etcd = json!({ "quotaBackendBytes": QUOTA, "autoCompactionRetention": "1h" });
    world.create("demo", small(&etcd)).await?;
    world.settled("demo", 3).await?;
    let ids = world.member_ids("demo").await?;
    fill(&world, "demo").await?;
    // It may be over before a watcher sees the condition; the event stays.
    until("an event says that writes are refused", async || {
        let events = world.events("demo").await?;
        let is_told = events.contains("AlarmActive") && events.contains("NOSPACE");
        Ok(if is_told { Ok(()) } else { Err(events) })
    })
    .await?;
    writes_again(&world).await?;
    world.settled_again("demo", 3).await?;
    world.wait_for_condition("demo", "Available", "True").await?;
    let mut smallest = u64::MAX;
    for (name, member) in world.members("demo").await? {
        let status = member.status().await?;
        ensure!(status.alarms.is_empty(), "{name}: {:?}", status.alarms);
        // A follower that was below nine tenths of its quota when the alarm came needs no defragmentation.
        ensure!(
            status.db_size < (16 << 20) * 9 / 10,
            "{name} was not defragmented: {} bytes",
            status.db_size
        );
        smallest = smallest.min(status.db_size);
    }
    ensure!(smallest < 8 << 20, "nobody was defragmented: {smallest} bytes");
    ensure!(world.status("demo").await?["defragmenting"].is_null());
    ensure!(world.member_ids("demo").await? == ids, "no member was replaced");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn l07_where_clients_compact_a_full_database_is_cured_by_a_larger_quota() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", small(&json!({ "quotaBackendBytes": QUOTA }))).await?;
    world.settled("demo", 3).await?;
    let ids = world.member_ids("demo").await?;
    fill(&world, "demo").await?;
    let message = world.wait_for_condition("demo", "Available", "False").await?;
    ensure!(message.contains("NOSPACE") && message.contains("writes"), "{message}");
    world.reports("demo", "clients own the history").await?;
    let revision = leader(&world, "demo").await?.status().await?.revision;
    // The cure waits for no alarm to go.
    world.patch("demo", json!({ "spec": { "etcd": { "quotaBackendBytes": "64Mi" } } })).await?;
    writes_again(&world).await?;
    world.settled_again("demo", 3).await?;
    world.wait_for_condition("demo", "Available", "True").await?;
    ensure!(leader(&world, "demo").await?.status().await?.revision > revision);
    for (name, member) in world.members("demo").await? {
        ensure!(member.status().await?.alarms.is_empty(), "{name} has an alarm");
    }
    ensure!(world.member_ids("demo").await? == ids);
    Ok(())
}
