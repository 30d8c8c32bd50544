//! Writes beside a snapshot that is read with a limit: `quorate agent backup` with `rateLimit`, against `etcdctl snapshot save` through a relay
//! that lets as many bytes a second through. Both write to the same disk. Three members, eight clients that write meanwhile.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use quorate_api::destination::{Destination, Pvc};
use quorate_api::job::{BackupOrder, ORDER, Origin, SourceEndpoint};
use quorate_etcd::testkit::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::latency::{Latencies, Writers};
use super::{by_hand, fill, three_members};
use crate::figures::Quartiles;

/// Bytes that the relay takes at a time.
const CHUNK: usize = 32 << 10;
/// The relay sleeps when it is ahead by so much.
const AHEAD: Duration = Duration::from_millis(10);

#[derive(Args, Clone)]
pub struct Limit {
    /// Size of the database, in MiB
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=6144))]
    mib: u32,
    /// The limit, in MiB a second
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1024))]
    rate: u32,
    /// How often each is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
}

/// What is measured in each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Calm,
    Agent,
    Hand,
    /// The agent without a limit.
    Free,
}

const WAYS: [Way; 4] = [Way::Calm, Way::Agent, Way::Hand, Way::Free];

struct Bench {
    cluster: Cluster,
    scratch: tempfile::TempDir,
    args: Limit,
}

pub async fn run(args: &Limit) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("quorate-bench-").tempdir()?;
    let bench = Bench { cluster: Cluster::start(three_members()).await, scratch, args: args.clone() };
    println!("filling three members with {} MiB; the limit is {} MiB a second", args.mib, args.rate);
    fill(&bench.cluster.members[0].client(), args.mib).await?;
    let columns: String = WAYS.iter().map(|way| format!("{:>20}", format!("{way:?} s, p99 ms"))).collect();
    println!("{:>4}{columns}", "run");
    let mut p99 = WAYS.map(|_| Vec::new());
    for run in 1..=args.runs {
        let mut line = [String::new(), String::new(), String::new(), String::new()];
        // In turns, also who is first.
        for turn in 0..WAYS.len() {
            let which = (turn + run as usize) % WAYS.len();
            let (seconds, latencies) = bench.measure(WAYS[which], run).await?;
            p99[which].push(latencies.p99_ms());
            line[which] = format!("{:>20}", format!("{seconds:.1}, {:.1}", latencies.p99_ms()));
        }
        println!("{run:>4}{}", line.concat());
    }
    let [calm, agent, hand, free] = p99.map(|p99| Quartiles::of(p99).median);
    println!(
        "p99 of writes, medians: calm {calm:.1} ms, agent {agent:.1} ms, by hand {hand:.1} ms, without a limit {free:.1} ms"
    );
    println!(
        "agent / calm: {:.2}; goal, 1.50 or less. By hand / calm: {:.2}. Without a limit / calm: {:.2}",
        agent / calm,
        hand / calm,
        free / calm
    );
    Ok(())
}

impl Bench {
    async fn measure(&self, way: Way, run: u32) -> Result<(f64, Latencies)> {
        let writers = Writers::start(&self.cluster);
        let began = Instant::now();
        match way {
            Way::Calm => {
                tokio::time::sleep(Duration::from_secs((self.args.mib / self.args.rate).max(10).into()))
                    .await;
            }
            Way::Agent => self.by_agent(run, Some(u64::from(self.args.rate) << 20)).await?,
            Way::Hand => self.by_hand().await?,
            Way::Free => self.by_agent(run, None).await?,
        }
        let seconds = began.elapsed().as_secs_f64();
        let latencies = writers.stop().await?;
        // What was written to the disk is not to be written beside the next one.
        let synced = Command::new("sync").status().await?;
        ensure!(synced.success(), "sync: {synced}");
        Ok((seconds, latencies))
    }

    async fn by_agent(&self, run: u32, rate_limit: Option<u64>) -> Result<()> {
        let members = self.cluster.members.iter();
        let store = self.scratch.path().join("store");
        fs::create_dir_all(&store)?;
        let order = BackupOrder {
            destination: Destination {
                pvc: Some(Pvc { claim_name: "bench".to_owned(), prefix: None }),
                ..Destination::default()
            },
            key: "agent.db".to_owned(),
            endpoints: members
                .map(|member| SourceEndpoint { member: member.name.clone(), url: member.client_url() })
                .collect(),
            origin: Origin {
                backup: format!("run-{run}"),
                backup_uid: format!("{run}"),
                ..Origin::default()
            },
            rate_limit,
            ..BackupOrder::default()
        };
        let program = std::env::var_os("QUORATE_BIN").context("run this through `cargo xtask bench`")?;
        let answer = self.scratch.path().join("answer");
        let mut command = Command::new(program);
        command.args(["agent", "backup", "--termination-log"]).arg(&answer).arg("--store-pvc").arg(&store);
        command.env(ORDER, serde_json::to_string(&order)?);
        let status = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .status();
        let status = status.await.context("cannot run quorate")?;
        let said = || fs::read_to_string(&answer).unwrap_or_default();
        ensure!(status.success(), "agent backup: {status}: {}", said());
        fs::remove_dir_all(&store)?;
        Ok(())
    }

    async fn by_hand(&self) -> Result<()> {
        let leader = self.cluster.led().await;
        let follower = &self.cluster.members[(leader + 1) % self.cluster.members.len()];
        let relay = Relay::start(&follower.client_url(), self.args.rate).await?;
        let file = self.scratch.path().join("hand.db");
        let path: &Path = &file;
        let mut save = by_hand::program("etcdctl");
        save.args(["--endpoints", &relay.url, "snapshot", "save"]).arg(path);
        let output =
            save.stdin(Stdio::null()).kill_on_drop(true).output().await.context("cannot run etcdctl")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(fs::remove_file(&file)?)
    }
}

/// As `socat` and `pv -L` beside `etcdctl`, which has no limit of its own.
struct Relay {
    url: String,
    task: JoinHandle<()>,
}

impl Relay {
    async fn start(url: &str, mib_a_second: u32) -> Result<Self> {
        let to = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&to).await else { return };
                tokio::spawn(relay(client, server, mib_a_second));
            }
        });
        Ok(Self { url, task })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(client: TcpStream, server: TcpStream, mib_a_second: u32) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut chunk = vec![0; CHUNK];
    let mut paid = tokio::time::Instant::now();
    loop {
        let read = from_server.read(&mut chunk).await?;
        if read == 0 {
            return to_client.shutdown().await;
        }
        to_client.write_all(&chunk[..read]).await?;
        let now = tokio::time::Instant::now();
        let cost = Duration::from_nanos(read as u64 * 1_000_000_000 / (u64::from(mib_a_second) << 20));
        paid = paid.max(now.checked_sub(AHEAD).unwrap_or(now)) + cost;
        if paid > now + AHEAD {
            tokio::time::sleep_until(paid).await;
        }
    }
}
