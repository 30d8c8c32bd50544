//! `bench backup`: backups and restores in the playground, with real etcd and a real S3 server.
//!
//! - `rounds`: back up, wreck, restore, again and again

mod rounds;

use anyhow::Result;
use clap::Subcommand;

/// What is measured.
#[derive(Clone, Subcommand)]
pub enum Backup {
    /// Back up under writes, wreck, restore, and compare with what was acknowledged: on every version of etcd, with every kind of wreck
    Rounds(rounds::Rounds),
}

/// Measures it.
pub async fn run(backup: &Backup) -> Result<()> {
    match backup {
        Backup::Rounds(args) => rounds::run(args).await,
    }
}
