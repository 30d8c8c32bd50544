//! A member's disk is emptied while it runs, and its Pod deleted: the guard of the next Pod refuses the volume, and another member takes
//! its place.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use quorate_scenarios::{Kubernetes, World, spec};
use serde_json::{Value, json};

use super::super::super::figures::Quartiles;
use super::super::super::wait::until;
use super::super::PATIENCE;
use super::super::rig::Rig;
use super::super::series::{CLUSTER, series};
use super::{cluster, verdict};

/// `spec.recovery.gracePeriod`.
const GRACE: Duration = Duration::from_secs(5);

/// From its end to three healthy voters, in seconds.
const GOAL: f64 = 15.0;

/// Measures and prints.
pub async fn run(rig: &Rig, runs: u32) -> Result<()> {
    let mut spec = spec(3);
    spec["storageSpec"]["volumeSizeRequest"] = json!("1Gi");
    spec["recovery"] = json!({"gracePeriod": format!("{}s", GRACE.as_secs())});
    let world = cluster(rig, 3, spec).await?;
    let mut took = Vec::new();
    let what = "a member's disk emptied";
    let outcome = series(&world, 3, what, runs, async |run| {
        took.push(lose(&world, run).await?);
        Ok(())
    })
    .await?;
    let all: Vec<String> = took.iter().map(|took| format!("{took:.1}")).collect();
    let longest = took.iter().copied().fold(0.0, f64::max);
    println!(
        "{what}: {:.1} s (median), {longest:.1} s (longest) from the end of a grace period of {} s to three healthy voters: {}",
        Quartiles::of(took).median,
        GRACE.as_secs(),
        all.join(" "),
    );
    let is_met = longest <= GOAL && outcome.failed == 0;
    println!(
        "{what}: goal, {GOAL:.0} s or less, none failed beside transfers, none lost: {}",
        verdict(is_met)
    );
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "status has the time of a clock, and it is the one of this machine"
)]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Seconds from the end of the grace period, by the time in status, until status reports three healthy voters without this one.
async fn lose(world: &Kubernetes, run: u32) -> Result<f64> {
    let mut pods: Vec<String> = world.pods_of(CLUSTER).await?.iter().map(ResourceExt::name_any).collect();
    pods.sort();
    let member = pods[usize::try_from(run)? % pods.len()].clone();
    world.wipe_volume(&member).await?;
    world.delete_pod(&member).await?;
    let mut since = None;
    until(&format!("{member} is replaced"), PATIENCE, async || {
        let status = world.status(CLUSTER).await?;
        since = since.or_else(|| suspected_since(&status, &member));
        let recovery = &status["recovery"];
        let is_replaced = recovery["lastRecoveredMember"] == *member && recovery["lastResult"] == "Succeeded";
        let healthy = healthy_voters(&status, &member);
        Ok((!is_replaced || healthy != 3).then(|| format!("{healthy} healthy voters, {recovery}")))
    })
    .await?;
    let now = now();
    let since = since.context("status never reported that the data may be lost")?;
    Ok(now.duration_since(since).as_secs_f64() - GRACE.as_secs_f64())
}

fn members(status: &Value) -> &[Value] {
    status["members"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn suspected_since(status: &Value, member: &str) -> Option<Timestamp> {
    let member = members(status).iter().find(|one| one["name"] == member)?;
    member["suspected"]["since"].as_str()?.parse().ok()
}

fn healthy_voters(status: &Value, but: &str) -> usize {
    let is_healthy = |one: &&Value| one["name"] != but && one["role"] == "voter" && one["healthy"] == true;
    members(status).iter().filter(is_healthy).count()
}
