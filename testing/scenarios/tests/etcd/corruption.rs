//! Data of one member are changed on its disk, as by a defect of the disk or of etcd: etcd's own check raises the alarm, the operator
//! finds the member by the hashes, replaces it, and disarms the alarm. In each minor version: they raise the alarm in
//! different ways.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::api::ListParams;
use quorate_etcd::{MemberClient, Read};
use quorate_scenarios::{Playground, ProcessFault, World, Writer, spec, until};
use serde_json::json;

const KEY: &str = "/corruption/key";
const VALUE: &str = "the value that one member is going to have wrong, and that the others keep";

/// So many writes later, the page with the value is not the one that is written to.
const WRITES: i64 = 500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Leader,
    Follower,
}

/// Where a database has the value.
fn places(content: &[u8]) -> impl Iterator<Item = usize> {
    let starts = 0..content.len().saturating_sub(VALUE.len());
    starts.filter(|at| content[*at..].starts_with(VALUE.as_bytes()))
}

/// Changes the last byte of the value wherever the database has it. Returns how often that was.
fn corrupt(db: &Path) -> Result<usize> {
    let content = fs::read(db)?;
    let places: Vec<usize> = places(&content).collect();
    let file = OpenOptions::new().write(true).open(db)?;
    for place in &places {
        file.write_all_at(b"X", u64::try_from(place + VALUE.len() - 1)?)?;
    }
    file.sync_all()?;
    Ok(places.len())
}

async fn choose(world: &Playground, victim: Victim) -> Result<(String, MemberClient)> {
    for (name, member) in world.members("demo").await? {
        if member.status().await?.is_leader() == (victim == Victim::Leader) {
            return Ok((name, member));
        }
    }
    anyhow::bail!("no such member")
}

async fn is_replaced(world: &Playground, name: &str) -> Result<()> {
    until(&format!("{name} is replaced"), async || {
        let status = world.status("demo").await?;
        let recovery = &status["recovery"];
        let done = recovery["lastRecoveredMember"] == json!(name) && recovery["lastResult"] == "Succeeded";
        Ok(if done { Ok(()) } else { Err(status.to_string()) })
    })
    .await
}

/// All members have the right value, the same hash, and no alarm.
async fn all_are_right(world: &Playground) -> Result<()> {
    let mut hashes = Vec::new();
    for (name, member) in world.members("demo").await? {
        let status = member.status().await?;
        ensure!(status.alarms.is_empty() && status.errors.is_empty(), "{name}: {status:?}");
        let value = member.get(KEY, Read::Serializable).await?.context("the key is gone")?;
        ensure!(value.value == VALUE.as_bytes(), "{name} has the wrong value");
        let hash = member.hash_kv(None).await?;
        hashes.push((hash.hash, hash.revision, hash.compacted));
    }
    ensure!(hashes.len() == 3 && hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    Ok(())
}

/// A cluster of three with a member whose value is changed on its disk, while clients write.
struct Corrupted {
    world: Playground,
    version: &'static str,
    cluster_id: String,
    writer: Writer,
    /// The member whose data are wrong.
    name: String,
}

impl Corrupted {
    async fn start(version: &'static str, options: &[&str], victim: Victim) -> Result<Self> {
        let world = Playground::start().await?;
        let mut spec = spec(3);
        spec["version"] = json!(version);
        spec["recovery"] = json!({ "gracePeriod": "5s" });
        spec["etcdOptions"] = json!(options);
        world.create("demo", spec).await?;
        world.settled("demo", 3).await?;
        let cluster_id = world.one_cluster_id("demo").await?;
        let writer = Writer::start(&world, "demo").await?;
        let (name, member) = choose(&world, victim).await?;
        let written = member.put(KEY, VALUE).await?;
        until("more is written", async || {
            let revision = member.status().await?.revision;
            Ok(if revision.0 > written.0 + WRITES { Ok(()) } else { Err(format!("{revision:?}")) })
        })
        .await?;

        let db = world.volume_dir(&name).await?.join("data/member/snap/db");
        world.signal_etcd(&name, ProcessFault::Pause).await?;
        let places = corrupt(&db);
        world.signal_etcd(&name, ProcessFault::Resume).await?;
        ensure!(places? > 0, "the database of {name} does not have the value");
        Ok(Self { world, version, cluster_id, writer, name })
    }

    /// The member is replaced and nobody else, nothing is lost, and all have the right value.
    async fn end_with_a_replacement(self) -> Result<()> {
        let Self { world, version, cluster_id, writer, name } = self;
        world
            .reports("demo", &format!("{name} has no usable data: its data differ from those of a majority"))
            .await?;
        is_replaced(&world, &name).await?;
        world.settled("demo", 3).await?;
        world.wait_for_condition("demo", "Available", "True").await?;
        let acknowledged = writer.stop().await?;
        println!("etcd {version}: {name} was corrupt and is replaced: {}", acknowledged.figures());
        acknowledged.are_all_readable(&world, "demo").await?;

        all_are_right(&world).await?;
        ensure!(world.one_cluster_id("demo").await? == cluster_id, "the cluster id changed");
        let quarantined = ListParams::default().labels("operator.etcd.io/quarantined=true");
        let kept = world.volumes().list(&quarantined).await?;
        let kept: Vec<String> = kept.iter().map(kube::ResourceExt::name_any).collect();
        ensure!(kept == [name], "{kept:?} are quarantined");
        Ok(())
    }
}

async fn is_found_and_replaced(version: &'static str, check: &str, victim: Victim) -> Result<()> {
    let corrupted = Corrupted::start(version, &[check], victim).await?;
    corrupted.world.reports("demo", "CORRUPT").await?;
    corrupted.end_with_a_replacement().await
}

/// 3.5 raises the alarm without a member.
#[tokio::test(flavor = "multi_thread")]
async fn h37_a_follower_whose_data_differ_is_replaced_where_the_alarm_names_nobody() -> Result<()> {
    is_found_and_replaced("3.5.35", "--experimental-corrupt-check-time=1s", Victim::Follower).await
}

/// The check of 3.6 compares the others with the leader, and names one of them where the leader is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn h37_a_leader_whose_data_differ_is_replaced_where_the_alarm_names_a_follower() -> Result<()> {
    is_found_and_replaced("3.6.16", "--corrupt-check-time=1s", Victim::Leader).await
}

#[tokio::test(flavor = "multi_thread")]
async fn h37_a_follower_whose_data_differ_is_replaced_where_the_alarm_names_it() -> Result<()> {
    is_found_and_replaced("3.7.3", "--corrupt-check-time=1s", Victim::Follower).await
}

/// The member that ends at every start is a good one. Of the two that run, one is wrong, which is no majority.
#[tokio::test(flavor = "multi_thread")]
async fn h37_a_good_member_of_3_5_that_the_check_at_the_start_keeps_out_is_compared_once_the_check_is_off()
-> Result<()> {
    // Before its first snapshot a member of 3.5 knows no peers at its start, and compares nothing.
    let snapshots = "--snapshot-count=100";
    let corrupted = Corrupted::start("3.5.35", &[snapshots], Victim::Follower).await?;
    let world = &corrupted.world;
    let mut good = None;
    for (name, member) in world.members("demo").await? {
        if name != corrupted.name && !member.status().await?.is_leader() {
            good = Some(name);
        }
    }
    let good = good.context("no other follower")?;
    world.signal_etcd(&good, ProcessFault::Kill).await?;
    world.reports("demo", &format!("etcd's check at the start keeps out {good}")).await?;
    // The remedy of the runbook.
    let options = [snapshots, "--experimental-initial-corrupt-check=false"];
    let options = json!({ "spec": { "etcdOptions": options } });
    world.patch("demo", options).await?;
    corrupted.end_with_a_replacement().await
}
