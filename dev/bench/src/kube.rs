//! `bench create --kube`: apply to three Ready voters on a real Kubernetes, in turns with three Pods written by hand; then
//! what the operator itself needs.

mod by_hand;
mod cost;
mod disrupt;
mod life;
mod namespace;
mod operator;
mod rig;
mod series;

use std::time::Duration;

use anyhow::Result;
use quorate_etcd::testkit::etcd;

use super::Create;
use super::clusters::{Clusters, Desired, Took};
use super::turns::{self, Ratio};
use by_hand::Manner;
pub use disrupt::run as disrupt;
pub use life::{Life, run as life};
use namespace::Namespace;
use rig::Rig;

/// On a busy machine, creating many at once takes minutes.
const PATIENCE: Duration = Duration::from_mins(5);

/// Measures and prints.
pub async fn run(args: &Create) -> Result<()> {
    // The nodes have an image of this version.
    let version = xtask::etcd_version(&etcd(args.etcd))?;
    let rig = Rig::bring_up().await?;
    if args.idle > 0 {
        cost::has_room(&rig, args).await?;
    }
    println!("operator: {}", operator::image(&rig).await?);
    println!("create: three members, etcd {version}; seconds to three Ready voters, each in a new namespace");
    println!(
        "at once: by hand, all claims and Pods posted at once without a readiness probe, until three voters answer"
    );
    println!("by hand: posted one after the other, until three Pods are Ready by etcd's own probe");
    println!("both from the first request for Service, volumes and Pods, certificates made before");
    println!("operator, status: from apply to three Ready Pods, and until status reports them");
    let columns = ["at once", "by hand", "operator", "status"];
    let ratios = [Ratio { of: 2, to: 0, goal: 1.2 }, Ratio { of: 2, to: 1, goal: 1.2 }];
    turns::measure(args, columns, &ratios, async |tls, _| {
        let at_once = Box::pin(by_hand(&rig, &version, tls, Manner::AtOnce)).await?;
        let by_hand = Box::pin(by_hand(&rig, &version, tls, Manner::InTurn)).await?;
        let took = Box::pin(by_operator(&rig, &version, tls)).await?;
        Ok([at_once, by_hand, took.ready, took.reported])
    })
    .await?;
    if args.idle > 0 {
        cost::measure(&rig, args, &version).await?;
    }
    Ok(())
}

async fn by_hand(rig: &Rig, version: &str, tls: bool, manner: Manner) -> Result<Duration> {
    let namespace = Namespace::create(rig).await?;
    let took = by_hand::create(&namespace, version, tls, manner).await?;
    namespace.clear().await?;
    Ok(took)
}

async fn by_operator(rig: &Rig, version: &str, tls: bool) -> Result<Took> {
    let namespace = Namespace::create(rig).await?;
    let clusters = Clusters::new(namespace.client(), PATIENCE);
    let took = Box::pin(clusters.create("bench", Desired { size: 3, version, tls })).await?;
    namespace.clear().await?;
    Ok(took)
}
