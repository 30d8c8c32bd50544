//! How long a write waits until it is in a store, with the shortest schedule. A person observes it so: from the acknowledgement of the write
//! until an EtcdBackup with its revision is Complete.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use kube::api::{ListParams, PostParams};
use quorate_model::Revision;
use quorate_scenarios::{NamespaceClient, Playground, spec};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Store;
use crate::figures::Quartiles;

/// How often something is written and backups are looked at: as exact are the figures.
const STEP: Duration = Duration::from_millis(250);

/// The shortest that a schedule may have.
const SHORTEST: &str = "*/5 * * * *";

#[derive(Args, Clone)]
pub struct Delay {
    /// How many backups are measured, after the first
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    backups: u32,
}

pub async fn run(args: &Delay) -> Result<()> {
    let world = Playground::start_with_args(&["--s3"]).await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let schedule = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": {"name": "often"},
        "spec": {"schedule": SHORTEST, "backupTemplate": {"spec": {
            "source": {"cluster": "demo"}, "destination": Store::of(&world, "etcd").await?.destination,
        }}},
    });
    world.schedules().create(&PostParams::default(), &serde_json::from_value(schedule)?).await?;
    let (_, member) = world.members("demo").await?.into_iter().next().context("no member")?;

    println!("schedule {SHORTEST:?}: seconds from a write to its safety in S3");
    println!("{:>6} {:>8} {:>9} {:>9} {:>9}", "backup", "writes", "shortest", "median", "longest");
    let (mut waiting, mut seen, mut all) = (VecDeque::new(), 0, Vec::new());
    while seen <= args.backups {
        let revision = member.put("/delay", "value").await?;
        waiting.push_back((revision, Instant::now()));
        if let Some(safe) = newest(&world, seen).await? {
            let mut delays = Vec::new();
            while let Some((_, written)) = waiting.pop_front_if(|(revision, _)| *revision <= safe) {
                delays.push(written.elapsed().as_secs_f64());
            }
            // The first has had no whole period before it.
            if seen > 0 {
                let shortest = delays.iter().copied().fold(f64::INFINITY, f64::min);
                let longest = delays.iter().copied().fold(0.0, f64::max);
                let median = Quartiles::of(delays.clone()).median;
                println!("{seen:>6} {:>8} {shortest:>9.1} {median:>9.1} {longest:>9.1}", delays.len());
                all.extend(delays);
            }
            seen += 1;
        }
        sleep(STEP).await;
    }
    let longest = all.iter().copied().fold(0.0, f64::max);
    println!("of all: median {:.1} s, longest {longest:.1} s", Quartiles::of(all).median);
    Ok(())
}

/// The revision of the newest backup, once more than these are complete.
async fn newest(user: &NamespaceClient, seen: u32) -> Result<Option<Revision>> {
    let backups = user.backups().list(&ListParams::default()).await?;
    let complete: Vec<&Value> = backups
        .iter()
        .map(|backup| &backup.data["status"])
        .filter(|status| status["phase"] == "Complete")
        .collect();
    if complete.len() <= usize::try_from(seen)? {
        return Ok(None);
    }
    let revisions = complete.iter().filter_map(|status| status["result"]["revision"].as_i64());
    Ok(revisions.max().map(Revision))
}
