//! Versions on real etcd: minor upgrades with data, leases and users, one that is taken back half way, etcd's downgrade, and one that is
//! cancelled. A writer runs all the time, and every write that etcd acknowledged must be readable at the end.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use quorate_etcd::MemberStatus;
use serde_json::{Value, json};

use crate::{NamespaceClient, World, Writer, spec, until};

const VERSIONS: [&str; 3] = ["3.5.35", "3.6.16", "3.7.3"];
const ALLOW: &str = "operator.etcd.io/allow-downgrade";

pub async fn minor_upgrades_keep_data_leases_and_users(world: &impl World) -> Result<()> {
    let [first, second, third] = VERSIONS;
    // 3.7 panics on entries of 3.5 in its log. They are behind it once 3.6 has taken a snapshot, by default after 10,000 entries.
    create_with(world, first, json!({"snapshotCount": 200})).await?;
    etcdctl(world, &["user", "add", "reader", "--no-password"]).await?;
    let lease = etcdctl(world, &["lease", "grant", "3600"]).await?;
    let lease = lease.split_whitespace().nth(1).context("the lease has an id")?.to_owned();
    etcdctl(world, &["put", "leased", "value", &format!("--lease={lease}")]).await?;
    let writer = Writer::start(world, "demo").await?;
    for version in [second, third] {
        set_version(world, version).await?;
        all_run(world, version).await?;
        world.settled("demo", 3).await?;
    }
    writer.stop().await?.are_all_readable(world, "demo").await?;
    let users = etcdctl(world, &["user", "list"]).await?;
    ensure!(users.trim() == "reader", "{users}");
    let left = etcdctl(world, &["lease", "timetolive", &lease, "--keys"]).await?;
    ensure!(left.contains("granted with TTL(3600s)") && left.contains("leased"), "{left}");
    // The leader raises it within seconds.
    until("the cluster version rises", async || {
        let versions = cluster_versions(world).await?;
        let risen = versions.iter().all(|version| version == "3.7");
        Ok(if risen { Ok(()) } else { Err(format!("{versions:?}")) })
    })
    .await?;
    Ok(())
}

pub async fn h36_a_minor_upgrade_that_is_half_done_is_taken_back(world: &impl World) -> Result<()> {
    let [_, old, new] = VERSIONS;
    create(world, old).await?;
    let writer = Writer::start(world, "demo").await?;
    set_version(world, new).await?;
    some_run(world, new).await?;
    set_version(world, old).await?;
    until("the edit is committed", async || {
        let target = world.status("demo").await?["targetVersion"].clone();
        Ok(if target == old { Ok(()) } else { Err(target.to_string()) })
    })
    .await?;
    all_run(world, old).await?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(world, "demo").await?;
    // What was taken back can be done again.
    set_version(world, new).await?;
    all_run(world, new).await?;
    world.settled("demo", 3).await
}

pub async fn a_finished_minor_upgrade_is_refused_without_the_order_cancelled_half_way_and_then_taken_back(
    world: &impl World,
) -> Result<()> {
    let [_, old, new] = VERSIONS;
    create(world, new).await?;
    let writer = Writer::start(world, "demo").await?;
    set_version(world, old).await?;
    let message = world.wait_for_condition("demo", "VersionUpgradeBlocked", "True").await?;
    ensure!(message.contains(ALLOW), "{message}");
    ensure!(versions(world).await?.iter().all(|version| version == new), "nothing was touched");

    order(world, old).await?;
    some_run(world, old).await?;
    let withdrawn = json!({"metadata": {"annotations": {ALLOW: null}}, "spec": {"version": new}});
    world.patch("demo", withdrawn).await?;
    all_run(world, new).await?;
    no_downgrade_is_left(world, "3.7").await?;
    world.settled("demo", 3).await?;

    order(world, old).await?;
    all_run(world, old).await?;
    no_downgrade_is_left(world, "3.6").await?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(world, "demo").await
}

pub async fn while_paused_lost_pods_come_back_and_no_edit_is_carried_out(world: &impl World) -> Result<()> {
    let [_, old, new] = VERSIONS;
    create(world, old).await?;
    world.patch("demo", json!({"spec": {"paused": true, "version": new, "size": 5}})).await?;
    world.reports("demo", "spec.paused").await?;
    let uid = async || {
        let pods = world.pods_of("demo").await?;
        let pod = pods.into_iter().find(|pod| pod.metadata.name.as_deref() == Some("demo-1"));
        Ok::<_, anyhow::Error>(pod.filter(crate::is_ready).and_then(|pod| pod.metadata.uid))
    };
    let before = uid().await?.context("demo-1 runs")?;
    world.delete_pod("demo-1").await?;
    until("demo-1 is back", async || {
        let now = uid().await?;
        Ok(if now.as_ref().is_some_and(|now| *now != before) { Ok(()) } else { Err(format!("{now:?}")) })
    })
    .await?;
    ensure!(versions(world).await? == vec![old; 3], "the edit waits");
    Ok(())
}

async fn create(world: &impl World, version: &str) -> Result<()> {
    create_with(world, version, json!({})).await
}

async fn create_with(world: &impl World, version: &str, etcd: Value) -> Result<()> {
    let mut spec = spec(3);
    spec["etcd"] = etcd;
    spec["version"] = json!(version);
    spec["tls"] = json!({"provider": "disabled"});
    world.create("demo", spec).await?;
    world.settled("demo", 3).await
}

async fn set_version(world: &impl World, version: &str) -> Result<()> {
    world.patch("demo", json!({"spec": {"version": version}})).await.map(drop)
}

async fn order(world: &impl World, version: &str) -> Result<()> {
    let order: Value = json!({"metadata": {"annotations": {ALLOW: version}}, "spec": {"version": version}});
    world.patch("demo", order).await.map(drop)
}

async fn statuses(world: &NamespaceClient) -> Result<Vec<MemberStatus>> {
    let mut statuses = Vec::new();
    for (_, member) in world.members("demo").await? {
        statuses.push(member.status().await?);
    }
    Ok(statuses)
}

async fn versions(world: &NamespaceClient) -> Result<Vec<String>> {
    Ok(statuses(world).await?.iter().map(|status| status.version.to_string()).collect())
}

/// As the versions of the data have it.
async fn cluster_versions(world: &NamespaceClient) -> Result<Vec<String>> {
    let storage =
        |status: &MemberStatus| status.storage_version.map_or(String::new(), |line| line.to_string());
    Ok(statuses(world).await?.iter().map(storage).collect())
}

async fn all_run(world: &NamespaceClient, version: &str) -> Result<()> {
    until(&format!("all run {version}"), async || {
        let versions = versions(world).await?;
        let all = versions.len() == 3 && versions.iter().all(|runs| runs == version);
        Ok(if all { Ok(()) } else { Err(format!("{versions:?}")) })
    })
    .await
}

async fn some_run(world: &NamespaceClient, version: &str) -> Result<()> {
    until(&format!("one runs {version}"), async || {
        let versions = versions(world).await?;
        Ok(if versions.iter().any(|runs| runs == version) { Ok(()) } else { Err(format!("{versions:?}")) })
    })
    .await
}

async fn no_downgrade_is_left(world: &NamespaceClient, cluster_version: &str) -> Result<()> {
    until("no downgrade is left", async || {
        let statuses = statuses(world).await?;
        let left = statuses.iter().filter(|status| status.downgrade.is_some()).count();
        let versions = cluster_versions(world).await?;
        let all = versions.iter().all(|version| version == cluster_version);
        Ok(if left == 0 && all { Ok(()) } else { Err(format!("{left} left, {versions:?}")) })
    })
    .await
}

/// `etcdctl` of this repository's tools, at every ready member.
async fn etcdctl(world: &NamespaceClient, args: &[&str]) -> Result<String> {
    let tools = std::env::var_os("QUORATE_ETCD_BIN_DIR").map(PathBuf::from);
    let program = tools.context("run this through `cargo xtask test`")?.join("etcdctl-3.6");
    let pods = world.pods_of("demo").await?;
    let ips = pods.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let endpoints: Vec<String> = ips.map(|ip| format!("http://{ip}:2379")).collect();
    let mut command = tokio::process::Command::new(program);
    command.arg(format!("--endpoints={}", endpoints.join(","))).args(args).kill_on_drop(true);
    let output = command.output().await?;
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "etcdctl {args:?}: {out}{error}");
    Ok(out.into_owned())
}
