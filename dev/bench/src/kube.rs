//! `bench create --kube`: apply to three Ready voters on a real Kubernetes, in turns with three Pods written by hand; then
//! what the operator itself needs.

mod by_hand;
mod cost;
mod namespace;
mod operator;
mod rig;

use std::time::Duration;

use anyhow::Result;
use quorate_etcd::testkit::etcd;

use super::Create;
use super::clusters::{Clusters, Desired, Took};
use super::turns;
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
    println!("by hand: from the first request for Service, volumes and Pods, certificates made before");
    println!("operator, status: from apply to three Ready Pods, and until status reports them");
    turns::measure(args, ["by hand", "operator", "status"], async |tls, _| {
        let base = Box::pin(by_hand(&rig, &version, tls)).await?;
        let took = Box::pin(by_operator(&rig, &version, tls)).await?;
        Ok([base, took.ready, took.reported])
    })
    .await?;
    if args.idle > 0 {
        cost::measure(&rig, args, &version).await?;
    }
    Ok(())
}

async fn by_hand(rig: &Rig, version: &str, tls: bool) -> Result<Duration> {
    let namespace = Namespace::create(rig).await?;
    let took = by_hand::create(&namespace, version, tls).await?;
    namespace.clear().await?;
    Ok(took)
}

async fn by_operator(rig: &Rig, version: &str, tls: bool) -> Result<Took> {
    let namespace = Namespace::create(rig).await?;
    let clusters = Clusters::new(namespace.client(), PATIENCE);
    let took = clusters.create("bench", Desired { size: 3, version, tls }).await?;
    namespace.clear().await?;
    Ok(took)
}
