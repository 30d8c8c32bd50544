//! A database is filled up to its quota, where etcd compacts its history by itself: the operator compacts, defragments every member, and
//! disarms the alarms.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use quorate_etcd::{CallError, MemberClient, Read, Refusal};
use quorate_scenarios::{Kubernetes, spec};
use serde_json::json;

use super::super::super::wait::until;
use super::super::rig::Rig;
use super::super::series::CLUSTER;
use super::cluster;

/// A defragmentation copies what is in use, of one member after the other.
const PATIENCE: Duration = Duration::from_mins(20);

/// One MiB; etcd's limit of a request is a half more.
const VALUE: usize = 1 << 20;

/// How many calls in a row may fail for other causes than space.
const FAULTS: u32 = 20;

const KEY: &str = "filler";

/// Measures and prints.
pub async fn run(rig: &Rig, mib: u64) -> Result<()> {
    let mut spec = spec(3);
    // Room for etcd's log, and for the copy that a defragmentation makes.
    spec["storageSpec"]["volumeSizeRequest"] = json!(format!("{}Mi", 3 * mib + 1024));
    spec["etcd"] = json!({"quotaBackendBytes": format!("{mib}Mi"), "autoCompactionRetention": "1h"});
    let world = cluster(rig, 3, spec).await?;
    let start = Instant::now();
    let written = fill(&world, mib).await?;
    println!("filled to {mib} MiB in {:.1} s, {written} writes", start.elapsed().as_secs_f64());
    sizes(&world, "full").await?;
    let full = Instant::now();
    until("a write is acknowledged again", PATIENCE, async || {
        let put = leader(&world).await?.put("after", "again").await;
        Ok(put.err().map(|error| error.to_string()))
    })
    .await?;
    let took = full.elapsed().as_secs_f64();
    world.settled(CLUSTER, 3).await?;
    sizes(&world, "after it").await?;
    for (name, member) in world.members(CLUSTER).await? {
        let stored = member.get(KEY, Read::Linearizable).await?.context("the key is gone")?;
        let number = stored.value.get(..8).context("the value is shorter")?;
        ensure!(number >= &written.to_be_bytes()[..], "{name} has lost an acknowledged write");
    }
    println!("NOSPACE at a quota of {mib} MiB: {took:.1} s until writes are accepted again, 0 lost");
    Ok(())
}

/// Writes one key again and again until a write is refused for want of space. The number of the last acknowledged write, with which its
/// value begins.
async fn fill(world: &Kubernetes, mib: u64) -> Result<u64> {
    let mut member = leader(world).await?;
    let (mut acknowledged, mut faults) = (0, 0);
    for number in 1..=4 * mib {
        let mut value = vec![7_u8; VALUE];
        value[..8].copy_from_slice(&number.to_be_bytes());
        match member.put(KEY, value).await {
            Ok(_) => (acknowledged, faults) = (number, 0),
            Err(CallError::Refused(Refusal::NoSpace, _)) => return Ok(acknowledged),
            Err(error) => {
                faults += 1;
                ensure!(faults < FAULTS, "filling: {error}");
                member = leader(world).await?;
            }
        }
    }
    bail!("{} MiB were written, and no write was refused", 4 * mib)
}

async fn leader(world: &Kubernetes) -> Result<MemberClient> {
    let mut found = None;
    until("a member leads", super::super::PATIENCE, async || {
        for (_, member) in world.members(CLUSTER).await? {
            if member.status().await.is_ok_and(|status| status.is_leader()) {
                found = Some(member);
                return Ok(None);
            }
        }
        Ok(Some("none does".to_owned()))
    })
    .await?;
    found.context("it was found")
}

async fn sizes(world: &Kubernetes, when: &str) -> Result<()> {
    for (name, member) in world.members(CLUSTER).await? {
        let status = member.status().await?;
        println!(
            "{when}: {name} has {} MiB, {} MiB in use",
            status.db_size >> 20,
            status.db_size_in_use >> 20
        );
    }
    Ok(())
}
