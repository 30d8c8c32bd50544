//! `bench backup`: backups and restores in the playground, with real etcd and a real S3 server.
//!
//! - `rounds`: back up, wreck, restore, again and again
//! - `stream`: one backup of a large database, beside etcdctl and a known client

mod rounds;
mod stream;

use anyhow::Result;
use clap::Subcommand;

/// What is measured.
#[derive(Clone, Subcommand)]
pub enum Backup {
    /// Back up under writes, wreck, restore, and compare with what was acknowledged: on every version of etcd, with every kind of wreck
    Rounds(rounds::Rounds),
    /// A backup of a large database, in turns with `etcdctl snapshot save` and an upload by a known client
    Stream(stream::Stream),
}

/// Measures it.
pub async fn run(backup: &Backup) -> Result<()> {
    match backup {
        Backup::Rounds(args) => rounds::run(args).await,
        Backup::Stream(args) => stream::run(args).await,
    }
}
