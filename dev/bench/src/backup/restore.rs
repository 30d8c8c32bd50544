//! A snapshot in S3 to three healthy voters: by the operator in a playground, and by hand, where each of three members downloads it with the
//! AWS CLI and restores it with `etcdutl`, all three at the same time, and is started then.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use futures::future::try_join_all;
use quorate_etcd::testkit::{Cluster, Member};
use quorate_model::PeerUrl;
use quorate_scenarios::backups::restored;
use quorate_scenarios::{Playground, S3Server};
use serde_json::{Value, json};

use super::{QUOTA, Store, by_hand, fill, three_members};
use crate::figures::Quartiles;

#[derive(Args, Clone)]
pub struct Restore {
    /// Size of the database, in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=6144))]
    mib: u32,
    /// How often each is measured
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The AWS CLI
    #[arg(long, default_value = "aws", value_name = "PROGRAM")]
    aws: PathBuf,
}

pub async fn run(args: &Restore) -> Result<()> {
    let world = Playground::start_with_args(&["--s3"]).await?;
    let store = Store::of(&world, "etcd").await?;
    println!("backing up {} MiB", args.mib);
    let result = source(&world, &store, args.mib).await?;
    println!("{:>6} {:>12} {:>10}", "run", "operator s", "by hand s");
    let (mut operator, mut hand) = (Vec::new(), Vec::new());
    for run in 1..=args.runs {
        let (by_operator, by_hand) = if run % 2 == 1 {
            let by_operator = by_operator(&world, &store, &result).await?;
            (by_operator, restored_by_hand(args, &store, &result).await?)
        } else {
            let by_hand = restored_by_hand(args, &store, &result).await?;
            (by_operator(&world, &store, &result).await?, by_hand)
        };
        println!("{run:>6} {by_operator:>12.1} {by_hand:>10.1}");
        operator.push(by_operator);
        hand.push(by_hand);
    }
    let [operator, hand] = [operator, hand].map(|seconds| Quartiles::of(seconds).median);
    println!("operator / by hand: {:.2}; goal, 1.20 or less", operator / hand);
    Ok(())
}

/// Fills a cluster, backs it up without compression, and deletes it. Returns the result of the backup.
async fn source(world: &Playground, store: &Store, mib: u32) -> Result<Value> {
    let mut spec = quorate_scenarios::spec(1);
    spec["storageSpec"]["volumeSizeRequest"] = json!("16Gi");
    spec["etcd"] = json!({"quotaBackendBytes": QUOTA});
    world.create("source", spec).await?;
    world.settled("source", 1).await?;
    let (_, member) = world.members("source").await?.into_iter().next().context("no member")?;
    fill(&member, mib).await?;
    let spec =
        json!({"source": {"cluster": "source"}, "destination": store.destination, "compression": "None"});
    world.back_up_with("source", spec).await?;
    let result = world.is_backed_up("source").await?["result"].clone();
    world.wreck("source").await?;
    Ok(result)
}

/// Seconds from apply until status reports three healthy voters.
async fn by_operator(world: &Playground, store: &Store, result: &Value) -> Result<f64> {
    let source = json!({"source": {"destination": store.destination, "key": result["key"], "sha256": result["storedSha256"]}});
    let mut spec = restored(3, &source);
    spec["storageSpec"]["volumeSizeRequest"] = json!("16Gi");
    spec["etcd"] = json!({"quotaBackendBytes": QUOTA});
    let began = Instant::now();
    world.create("again", spec).await?;
    world.settled("again", 3).await?;
    let took = began.elapsed().as_secs_f64();
    world.wreck("again").await?;
    Ok(took)
}

/// Seconds from the first download until the three report that they are voters and know the leader.
async fn restored_by_hand(args: &Restore, store: &Store, result: &Value) -> Result<f64> {
    let mut cluster = Cluster::new(three_members());
    let all: Vec<(String, PeerUrl)> =
        cluster.members.iter().map(|member| (member.name.clone(), member.peer_url())).collect();
    let key = result["key"].as_str().with_context(|| format!("no key in {result}"))?;
    let began = Instant::now();
    try_join_all(cluster.members.iter().map(|member| restore_by_hand(args, store, key, member, &all)))
        .await?;
    for member in &mut cluster.members {
        member.set_initial(&all, false);
        member.start();
    }
    cluster.led().await;
    Ok(began.elapsed().as_secs_f64())
}

async fn restore_by_hand(
    args: &Restore,
    store: &Store,
    key: &str,
    member: &Member,
    all: &[(String, PeerUrl)],
) -> Result<()> {
    let file = member.data_dir().with_file_name("snapshot.db");
    let path = file.to_str().context("a path that is no text")?;
    let credentials = store.credentials.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let object = format!("s3://{}/{}/{key}", S3Server::BUCKET, store.prefix);
    let download = by_hand::copy(&args.aws, &store.endpoint, credentials, &object, path);
    let mut restore = by_hand::program("etcdutl");
    let initial: Vec<String> = all.iter().map(|(name, url)| format!("{name}={}", url.as_str())).collect();
    restore.args(["snapshot", "restore", path, "--data-dir"]).arg(member.data_dir());
    restore.args(["--name", &member.name, "--initial-cluster", &initial.join(",")]);
    restore.args(["--initial-advertise-peer-urls", member.peer_url().as_str()]);
    restore.args(["--bump-revision", "1000000000", "--mark-compacted"]);
    by_hand::run([download, restore]).await?;
    Ok(fs::remove_file(&file)?)
}
