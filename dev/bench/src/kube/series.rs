//! A series of disruptions of one cluster under the client of the scenarios: eight writers without rest over all members, and three
//! watches. One line for each series.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use quorate_scenarios::{Figures, Kubernetes, Writer};

use super::super::figures::Quartiles;
use super::super::wait::until;
use super::PATIENCE;

/// The cluster that is disrupted.
pub const CLUSTER: &str = "demo";

/// The longest pause that is good enough, in seconds.
const GOAL: f64 = 1.0;

/// What came of a series.
pub struct Outcome {
    what: String,
    /// The longest pause, in seconds.
    longest: f64,
    /// How many writes failed beside transfers of leadership.
    pub failed: usize,
}

impl Outcome {
    /// Prints whether the pauses are short enough and no write failed.
    pub fn judge(&self) {
        let verdict = if self.longest <= GOAL && self.failed == 0 { "met" } else { "MISSED" };
        println!("{}: goal, {GOAL:.2} or less and none failed: {verdict}", self.what);
    }
}

/// Disrupts as often, one after the other, each once the cluster has settled, and prints one line for all.
pub async fn series(
    world: &Kubernetes,
    size: usize,
    what: &str,
    runs: u32,
    mut disrupt: impl AsyncFnMut(u32) -> Result<()>,
) -> Result<Outcome> {
    let writer = Writer::start(world, CLUSTER).await?;
    let (mut pauses, mut took) = (Vec::new(), Vec::new());
    for run in 1..=runs {
        writer.lap();
        let start = Instant::now();
        disrupt(run).await.with_context(|| format!("{what}, run {run}"))?;
        world.settled(CLUSTER, size).await?;
        took.push(start.elapsed().as_secs_f64());
        pauses.push(writer.lap().length.as_secs_f64());
    }
    let acknowledged = writer.stop().await?;
    acknowledged.are_all_readable(world, CLUSTER).await?;
    Ok(print(what, &pauses, &took, acknowledged.figures()))
}

/// The Pod of the leader.
pub async fn leader(world: &Kubernetes) -> Result<Pod> {
    let mut leader = None;
    until("a member leads", PATIENCE, async || {
        for (name, member) in world.members(CLUSTER).await? {
            let status = member.status().await?;
            if status.leader == Some(status.member_id) {
                leader = Some(name);
            }
        }
        Ok(leader.is_none().then(|| "none does".to_owned()))
    })
    .await?;
    Ok(world.pods().get(&leader.context("it was found")?).await?)
}

/// The uids of the cluster's Pods.
pub async fn uids(world: &Kubernetes) -> Result<BTreeSet<String>> {
    Ok(world.pods_of(CLUSTER).await?.iter().filter_map(ResourceExt::uid).collect())
}

fn print(what: &str, pauses: &[f64], took: &[f64], figures: &Figures) -> Outcome {
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    let [pause, took] = [pauses, took].map(|all| Quartiles::of(all.to_vec()).median);
    let all: Vec<String> = pauses.iter().map(|pause| format!("{pause:.2}")).collect();
    println!(
        "\n{what}, {} times: pause {pause:.2} (median), {longest:.2} (longest); {} failed beside transfers, {} dropped in {} \
         transfers, 0 lost of {}; {took:.1} s each until it has settled",
        pauses.len(),
        figures.failed,
        figures.dropped,
        figures.leader_changes,
        figures.acknowledged,
    );
    println!("{what}: pauses {}", all.join(" "));
    for (message, count) in &figures.messages {
        println!("{what}: failed {count} times: {message}");
    }
    Outcome { what: what.to_owned(), longest, failed: figures.failed }
}
