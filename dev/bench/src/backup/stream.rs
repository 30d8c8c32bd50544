//! A snapshot into a store: `quorate agent backup` against what a person does, `etcdctl snapshot save` and an upload by the AWS CLI. Three
//! members with data that do not compress, eight clients that write meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use quorate_api::destination::{Destination, S3, SecretName};
use quorate_api::job::{BackupOrder, ORDER, Origin, SourceEndpoint};
use quorate_etcd::testkit::Cluster;
use quorate_scenarios::S3Server;
use tokio::process::{Child, Command};

use super::latency::{Latencies, Writers};
use super::{by_hand, fill, three_members};
use crate::figures::Quartiles;
use crate::process;

/// Of the S3 server.
const CREDENTIALS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", S3Server::ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", S3Server::SECRET_KEY)];

/// How often the memory of the agent is looked at.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Args, Clone)]
pub struct Stream {
    /// Size of the database, in MiB
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=6144))]
    mib: u32,
    /// How often each is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// The AWS CLI
    #[arg(long, default_value = "aws", value_name = "PROGRAM")]
    aws: PathBuf,
    /// Where the S3 server keeps its objects: in memory (/dev/shm), it does not write to the disk of etcd
    #[arg(long, value_name = "DIRECTORY")]
    store: Option<PathBuf>,
}

/// What one backup took.
struct Taken {
    seconds: f64,
    /// Of the writes meanwhile.
    latencies: Latencies,
    /// The most that the agent had resident.
    memory_mib: f64,
}

struct Bench {
    cluster: Cluster,
    s3: S3Server,
    aws: PathBuf,
    scratch: tempfile::TempDir,
}

pub async fn run(args: &Stream) -> Result<()> {
    let bench = Bench {
        cluster: Cluster::start(three_members()).await,
        s3: args.store.as_deref().map_or_else(S3Server::start, S3Server::start_in)?,
        aws: args.aws.clone(),
        scratch: tempfile::Builder::new().prefix("quorate-bench-").tempdir()?,
    };
    println!("filling three members with {} MiB", args.mib);
    fill(&bench.cluster.members[0].client(), args.mib).await?;
    println!(
        "{:>6} {:>10} {:>10} {:>12} {:>12} {:>12} {:>10}",
        "run", "agent s", "hand s", "p99 calm", "p99 agent", "p99 hand", "agent MiB"
    );
    let (mut agent, mut hand, mut memory) = (Vec::new(), Vec::new(), 0.0_f64);
    let mut p99 = [Vec::new(), Vec::new(), Vec::new()];
    for run in 1..=args.runs {
        let calm = bench.calm().await?;
        // In turns, also who is first.
        let (by_agent, by_hand) = if run % 2 == 1 {
            let by_agent = bench.by_agent(run).await?;
            (by_agent, bench.by_hand(run).await?)
        } else {
            let by_hand = bench.by_hand(run).await?;
            (bench.by_agent(run).await?, by_hand)
        };
        println!(
            "{run:>6} {:>10.1} {:>10.1} {:>9.1} ms {:>9.1} ms {:>9.1} ms {:>10.1}",
            by_agent.seconds,
            by_hand.seconds,
            calm.p99_ms(),
            by_agent.latencies.p99_ms(),
            by_hand.latencies.p99_ms(),
            by_agent.memory_mib
        );
        for (column, latencies) in p99.iter_mut().zip([&calm, &by_agent.latencies, &by_hand.latencies]) {
            column.push(latencies.p99_ms());
        }
        agent.push(by_agent.seconds);
        hand.push(by_hand.seconds);
        memory = memory.max(by_agent.memory_mib);
    }
    let [agent, hand] = [agent, hand].map(|seconds| Quartiles::of(seconds).median);
    let [calm, with_agent, with_hand] = p99.map(|p99| Quartiles::of(p99).median);
    println!("throughput, agent / by hand: {:.2}; goal, 0.90 or more", hand / agent);
    println!("memory of the agent: {memory:.1} MiB; goal, 64 or less");
    println!(
        "p99 of writes, agent / calm: {:.2}; goal, 1.20 or less. By hand / calm: {:.2}",
        with_agent / calm,
        with_hand / calm
    );
    Ok(())
}

impl Bench {
    /// Writes with nothing beside them.
    async fn calm(&self) -> Result<Latencies> {
        let writers = Writers::start(&self.cluster);
        tokio::time::sleep(Duration::from_secs(10)).await;
        writers.stop().await
    }

    async fn by_agent(&self, run: u32) -> Result<Taken> {
        let order = BackupOrder {
            destination: Destination { s3: Some(self.bucket()), ..Destination::default() },
            key: format!("agent-{run}.db"),
            endpoints: self.endpoints(),
            tls: false,
            ordered: None,
            origin: Origin {
                namespace: "bench".into(),
                backup: format!("run-{run}"),
                backup_uid: format!("{run}"),
                ..Origin::default()
            },
            min_revision: None,
            without_quorum: false,
            compress: false,
            recipients: Vec::new(),
            spool: false,
            quota_bytes: None,
            rate_limit: None,
            seconds: None,
        };
        let credentials = self.scratch.path().join("credentials");
        fs::create_dir_all(&credentials)?;
        for (key, value) in CREDENTIALS {
            fs::write(credentials.join(key), value)?;
        }
        let program = std::env::var_os("QUORATE_BIN").context("run this through `cargo xtask bench`")?;
        let answer = self.scratch.path().join("answer");
        let mut command = Command::new(program);
        command
            .args(["agent", "backup", "--termination-log"])
            .arg(&answer)
            .arg("--store-credentials")
            .arg(&credentials);
        command
            .env(ORDER, serde_json::to_string(&order)?)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let writers = Writers::start(&self.cluster);
        let began = Instant::now();
        let mut child = command.kill_on_drop(true).spawn().context("cannot run quorate")?;
        let memory_mib = watch_memory(&mut child).await;
        let status = child.wait().await?;
        let seconds = began.elapsed().as_secs_f64();
        let latencies = writers.stop().await?;
        ensure!(
            status.success(),
            "agent backup: {status}: {}",
            fs::read_to_string(&answer).unwrap_or_default()
        );
        self.remove(&order.key)?;
        Ok(Taken { seconds, latencies, memory_mib })
    }

    async fn by_hand(&self, run: u32) -> Result<Taken> {
        let file = self.scratch.path().join("snapshot.db");
        let path = file.to_str().context("a path that is no text")?;
        let key = format!("hand-{run}.db");
        let leader = self.cluster.led().await;
        let follower = &self.cluster.members[(leader + 1) % self.cluster.members.len()];
        let mut save = by_hand::program("etcdctl");
        save.args(["--endpoints", &follower.client_url(), "snapshot", "save", path]);
        let object = format!("s3://{}/{key}", S3Server::BUCKET);
        let upload = by_hand::copy(&self.aws, &self.s3.endpoint(), CREDENTIALS, path, &object);
        let writers = Writers::start(&self.cluster);
        let began = Instant::now();
        by_hand::run([save, upload]).await?;
        let seconds = began.elapsed().as_secs_f64();
        let latencies = writers.stop().await?;
        fs::remove_file(&file)?;
        self.remove(&key)?;
        Ok(Taken { seconds, latencies, memory_mib: 0.0 })
    }

    fn endpoints(&self) -> Vec<SourceEndpoint> {
        let members = self.cluster.members.iter();
        members
            .map(|member| SourceEndpoint { member: member.name.clone(), url: member.client_url() })
            .collect()
    }

    fn bucket(&self) -> S3 {
        S3 {
            bucket: S3Server::BUCKET.to_owned(),
            endpoint: Some(self.s3.endpoint()),
            // The agent reads its directory, and refuses an endpoint without TLS and without a Secret.
            credentials_secret: Some(SecretName { name: "s3".to_owned() }),
            ..S3::default()
        }
    }

    /// So that the disk does not fill up.
    fn remove(&self, key: &str) -> Result<()> {
        let object: &Path = &self.s3.bucket_dir().join(key);
        if !object.exists() {
            bail!("{} was not uploaded", object.display());
        }
        Ok(fs::remove_file(object)?)
    }
}

/// The most memory that the process had resident.
async fn watch_memory(child: &mut Child) -> f64 {
    let mut most = 0.0_f64;
    while let Some(pid) = child.id() {
        most = most.max(process::resident_mib(pid).unwrap_or(0.0));
        if tokio::time::timeout(LOOK, child.wait()).await.is_ok() {
            break;
        }
    }
    most
}
