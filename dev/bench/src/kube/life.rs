//! `bench life`: what happens to clusters in the course of their life, on a real Kubernetes.

mod fleet;
mod lost;
mod roll;
mod space;

use anyhow::Result;
use clap::Subcommand;
use quorate_scenarios::Kubernetes;
use serde_json::Value;

use super::operator;
use super::rig::Rig;
use super::series::CLUSTER;

/// What is measured.
#[derive(Subcommand)]
pub enum Life {
    /// A member's disk is emptied: from the end of the grace period to three healthy voters
    Lost {
        /// How often
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
    /// Edits that restart every member: the pause of writes, and the time beside the same done with kubectl
    Roll {
        /// Of how many members the cluster is
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=9))]
        members: u8,
        /// How often each edit is made
        #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
    },
    /// A database is filled: from the alarm NOSPACE to the next acknowledged write
    Space {
        /// The quota, in MiB
        #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(16..=8192))]
        mib: u64,
    },
    /// Many clusters under a new operator with other defaults: how long it takes, and what fails
    Fleet {
        /// How many clusters of one member
        #[arg(long, default_value_t = 27)]
        ones: u32,
        /// How many clusters of three members
        #[arg(long, default_value_t = 3)]
        threes: u32,
    },
}

/// Measures and prints.
pub async fn run(life: &Life) -> Result<()> {
    let rig = Rig::bring_up().await?;
    println!("operator: {}", operator::image(&rig).await?);
    println!("pause: the longest time in which none of eight writers had a write acknowledged, in seconds");
    match *life {
        Life::Lost { runs } => lost::run(&rig, runs).await,
        Life::Roll { members, runs } => roll::run(&rig, members.into(), runs).await,
        Life::Space { mib } => space::run(&rig, mib).await,
        Life::Fleet { ones, threes } => fleet::run(&rig, ones, threes).await,
    }
}

/// A cluster in a namespace of its own, once it has settled.
async fn cluster(rig: &Rig, size: usize, spec: Value) -> Result<Kubernetes> {
    let world = Kubernetes::start_in(rig.kubeconfig()).await?;
    world.create(CLUSTER, spec).await?;
    world.settled(CLUSTER, size).await?;
    Ok(world)
}

/// `met`, or `MISSED`.
fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}
