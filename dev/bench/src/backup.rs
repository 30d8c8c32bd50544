//! `bench backup`: backups and restores of real etcd, with a real S3 server.
//!
//! - `rounds`: back up, wreck, restore, again and again
//! - `stream`: a snapshot into a store, against `etcdctl` and the AWS CLI
//! - `limit`: writes beside a snapshot that is read with a limit, against `etcdctl` with the same one
//! - `restore`: a snapshot to three voters, against a download and `etcdutl` by hand
//! - `delay`: how long a write waits until it is in a store
//! - `by_hand`: the programs of a person; `latency`: the writers beside a measurement

mod by_hand;
mod delay;
mod latency;
mod limit;
mod restore;
mod rounds;
mod stream;

use anyhow::{Context, Result};
use clap::Subcommand;
use futures::{StreamExt, TryStreamExt, stream as streams};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use quorate_etcd::MemberClient;
use quorate_etcd::testkit::Setup;
use quorate_model::Minor;
use quorate_scenarios::{Playground, S3Server};
use serde_json::{Value, json};

/// Bytes of a value: less than etcd's largest request (1.5 MiB).
const VALUE: usize = 1 << 20;

/// Bytes of etcd's quota: more than any database here.
const QUOTA: u64 = 8 << 30;

/// The etcd that is measured.
const MINOR: Minor = Minor(3, 6);

/// What is measured.
#[derive(Clone, Subcommand)]
pub enum Backup {
    /// Back up under writes, wreck, restore, and compare with what was acknowledged: on every version of etcd, with every kind of wreck
    Rounds(rounds::Rounds),
    /// A snapshot into S3, by the agent and by etcdctl and the AWS CLI, in turns and under writes
    Stream(stream::Stream),
    /// A snapshot with a limit, by the agent and by etcdctl, in turns and under writes
    Limit(limit::Limit),
    /// A snapshot in S3 to three healthy voters, by the operator and by hand, in turns
    Restore(restore::Restore),
    /// With the shortest schedule: how long after a write it is in S3
    Delay(delay::Delay),
}

/// Measures it.
pub async fn run(backup: &Backup) -> Result<()> {
    match backup {
        Backup::Rounds(args) => rounds::run(args).await,
        Backup::Stream(args) => stream::run(args).await,
        Backup::Limit(args) => limit::run(args).await,
        Backup::Restore(args) => restore::run(args).await,
        Backup::Delay(args) => delay::run(args).await,
    }
}

/// Three members that have room for the data, and write to the disk as in production.
fn three_members() -> Setup {
    Setup {
        args: vec![format!("--quota-backend-bytes={QUOTA}"), "--unsafe-no-fsync=false".to_owned()],
        ..Setup::new(MINOR, 3)
    }
}

/// Writes this many MiB that do not compress.
async fn fill(client: &MemberClient, mib: u32) -> Result<()> {
    let puts = (0..mib).map(|number| async move {
        let put = client.put(&format!("/fill/{number:05}"), noise(u64::from(number))).await;
        put.map(drop).with_context(|| format!("cannot write MiB {number}"))
    });
    streams::iter(puts).buffer_unordered(2).try_collect().await
}

/// The S3 server of a playground.
struct Store {
    /// As the destination of a backup.
    destination: Value,
    endpoint: String,
    prefix: String,
    /// As the AWS CLI wants it.
    credentials: Vec<(String, String)>,
}

impl Store {
    async fn of(world: &Playground, prefix: &str) -> Result<Self> {
        const SECRET: &str = "s3-credentials";
        let secrets: Api<Secret> = Api::default_namespaced(world.client.clone());
        let Secret { metadata, data, .. } = secrets.get(SECRET).await?;
        let mut annotations = metadata.annotations.context("no annotations")?;
        let endpoint =
            annotations.remove("playground.operator.etcd.io/s3-endpoint").context("no endpoint")?;
        let destination = json!({"s3": {
            "bucket": S3Server::BUCKET, "prefix": prefix, "endpoint": endpoint, "credentialsSecret": {"name": SECRET},
        }});
        let pairs = data.context("no credentials")?.into_iter();
        let credentials: Result<_> =
            pairs.map(|(key, value)| Ok((key, String::from_utf8(value.0)?))).collect();
        Ok(Self { destination, endpoint, prefix: prefix.to_owned(), credentials: credentials? })
    }
}

/// Bytes that look random, the same for the same seed (splitmix64).
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    (0..VALUE / 8).flat_map(|_| word()).collect()
}
