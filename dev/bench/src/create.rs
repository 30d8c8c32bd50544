//! `bench create`: apply to three Ready voters, in turns with three etcd processes started by hand.

use std::time::Duration;

use anyhow::Result;
use quorate_etcd::testkit::etcd;

use super::clusters::{Clusters, Desired};
use super::playground::Playground;
use super::turns::{self, Ratio, word};
use super::{Create, by_hand, idle};

/// How many clusters are watched while idle.
const IDLE_CLUSTERS: u32 = 3;

const PATIENCE: Duration = Duration::from_mins(1);

/// Measures and prints.
pub async fn run(args: &Create) -> Result<()> {
    // The one that the playground can start.
    let version = xtask::etcd_version(&etcd(args.etcd))?;
    let playground = Playground::start().await?;
    let clusters = Clusters::new(playground.client(), PATIENCE);
    let desired = |tls| Desired { size: 3, version: &version, tls };
    println!("create: three members, etcd {version}; seconds from start to three Ready voters");
    turns::measure(
        args,
        ["by hand", "playground"],
        &[Ratio { of: 1, to: 0, goal: 1.5 }],
        async |tls, run| {
            let base = by_hand::create(args.etcd, tls).await?;
            let name = format!("bench-{}-{run}", word(tls));
            let took = Box::pin(clusters.create(&name, desired(tls))).await?;
            clusters.delete(&name).await?;
            Ok([base, took.ready])
        },
    )
    .await?;
    if args.idle == 0 {
        return Ok(());
    }
    let tls = args.tls.modes().contains(&true);
    for n in 0..IDLE_CLUSTERS {
        Box::pin(clusters.create(&format!("idle-{n}"), desired(tls))).await?;
    }
    println!("\nidle: {IDLE_CLUSTERS} clusters of three members, TLS {}, {} s", word(tls), args.idle);
    idle::measure(&playground, IDLE_CLUSTERS, Duration::from_secs(args.idle)).await
}
