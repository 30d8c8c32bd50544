//! `cargo xtask bench fleet`: what a fleet of clusters costs one operator. The API server and the operator are real; one process, this one, is all members
//! and nodes.

// A program of its own, which is built optimised: the other benchmarks need half of the workspace.
mod clusters;
mod etcd;
mod latency;
#[path = "../metrics.rs"]
mod metrics;
mod nodes;
mod operator;
mod plane;
mod process;
mod serve;
mod table;
#[path = "../process.rs"]
#[allow(dead_code, reason = "what is asked of Pods is for the other benchmarks")]
mod used;
#[path = "../wait.rs"]
mod wait;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;

use clusters::{Clusters, Effects};
use etcd::Etcds;
use latency::Stage;
use metrics::{ETCD_CALLS, label};
use nodes::Nodes;
use operator::Operator;
use plane::Plane;
use table::Figures;
use wait::until;

/// How long a whole size may take until it is ready, for each cluster.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long a fleet is left alone before it counts as idle: the first looks at everything are behind it.
const SETTLE: Duration = Duration::from_secs(75);

/// How long a start and a take-over may take.
const OBSERVED: Duration = Duration::from_secs(600);

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask bench fleet",
    about = "What a fleet costs one operator: a real API server, the operator, and one process that is all members"
)]
struct Fleet {
    /// How many clusters of three, comma-separated, the smallest first
    #[arg(long, value_delimiter = ',', default_value = "100,300,1000", value_name = "N")]
    clusters: Vec<usize>,
    /// For how many seconds the idle fleet is watched
    #[arg(long, default_value_t = 120, value_name = "S")]
    idle: u64,
    /// How many keys the clients of each cluster write in a second
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    writes: f64,
    /// How many events are made in clusters that are well; 0 for none
    #[arg(long, default_value_t = 300, value_name = "N")]
    events: usize,
    /// Keep the logs
    #[arg(long)]
    keep: bool,
}

fn main() -> ExitCode {
    let args = Fleet::parse();
    let run = || {
        let provider = rustls::crypto::ring::default_provider().install_default();
        provider.ok().context("no other TLS provider is installed")?;
        tokio::runtime::Runtime::new()?.block_on(async {
            tokio::select! {
                result = run(&args) => result,
                // Dropping what was under way stops its processes.
                _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            }
        })
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures and prints.
async fn run(args: &Fleet) -> Result<()> {
    let mut dir = tempfile::Builder::new().prefix("quorate-fleet-").tempdir()?;
    dir.disable_cleanup(args.keep);
    eprintln!("logs: {}", dir.path().display());
    let most = args.clusters.iter().max().context("a fleet has clusters")?;
    raise_open_files(*most)?;
    let mut plane = Plane::start(dir.path()).await?;
    let measured = Box::pin(measure(args, &mut plane, &dir)).await;
    plane.stop().await?;
    measured
}

async fn measure(args: &Fleet, plane: &mut Plane, dir: &TempDir) -> Result<()> {
    let (etcds, effects) = (Etcds::new(args.writes), Effects::default());
    let nodes = Nodes::new(plane.client(), etcds.clone(), effects.clone())?;
    let clusters = Clusters::new(plane.client(), effects.clone());
    let (_nodes_run, _clusters_run) = (nodes.run(), clusters.run());
    let stage = Stage { client: plane.client(), clusters: clusters.clone(), nodes: nodes.clone(), effects };
    let mut bench = Bench { args, etcds, nodes, clusters, stage, replicas: 0 };
    let mut figures: Vec<Figures> = Vec::new();
    let mut sizes = args.clusters.clone();
    sizes.sort_unstable();
    let mut exist = 0;
    for size in sizes {
        let measured = Box::pin(bench.size(plane, exist, size)).await;
        let one = measured.with_context(|| format!("{size} clusters; logs in {}", dir.path().display()))?;
        exist = size;
        figures.push(one);
        table::print(&figures);
    }
    Ok(())
}

struct Bench<'a> {
    args: &'a Fleet,
    etcds: Etcds,
    nodes: Nodes,
    clusters: Clusters,
    stage: Stage,
    /// How many replicas of the operator were started so far.
    replicas: usize,
}

impl Bench<'_> {
    async fn size(&mut self, plane: &mut Plane, exist: usize, size: usize) -> Result<Figures> {
        // They are created by a replica of their own, so that its memory is not in the figures.
        let mut creator = self.replica(plane)?;
        creator.leads().await?;
        let begun = Instant::now();
        self.clusters.create(exist, size).await?;
        self.all_ready(plane, size, size - exist).await?;
        let created = begun.elapsed();
        eprintln!("{size} clusters: ready after {:.0} s, {} Pods", created.as_secs_f64(), self.nodes.ready());
        tokio::time::sleep(Duration::from_secs(20)).await;
        let creator_peak = creator.peak()?;
        creator.stop().await?;

        let mut leader = self.replica(plane)?;
        let start = self.observed(leader.started, &mut leader).await?;
        eprintln!("started: all observed after {:.1} s", start.as_secs_f64());
        let mut standby = self.replica(plane)?;
        standby.listed().await?;
        tokio::time::sleep(SETTLE).await;

        let idle = self.idle(plane, &mut leader, &mut standby).await?;
        let mut figures = Figures {
            clusters: size,
            created,
            creator_peak,
            start,
            leader: leader.resident()?,
            leader_peak: leader.peak()?,
            standby: standby.resident()?,
            open_files: leader.open_files()?,
            file_limit: leader.file_limit()?,
            idle,
            take_over: Duration::ZERO,
            take_over_peak: 0.0,
            latencies: latency::Latencies::default(),
        };
        let killed = Instant::now();
        leader.kill().await?;
        figures.take_over = self.observed(killed, &mut standby).await?;
        eprintln!("taken over: all observed after {:.1} s", figures.take_over.as_secs_f64());
        let mut next = self.replica(plane)?;
        next.listed().await?;
        if self.args.events > 0 {
            tokio::time::sleep(Duration::from_secs(30)).await;
            figures.latencies = self.stage.measure(size, self.args.events).await?;
            self.all_ready(plane, size, size).await?;
        }
        figures.take_over_peak = standby.peak()?;
        next.stop().await?;
        standby.stop().await?;
        Ok(figures)
    }

    fn replica(&mut self, plane: &Plane) -> Result<Operator> {
        self.replicas += 1;
        Operator::start(plane, self.replicas)
    }

    async fn all_ready(&self, plane: &mut Plane, size: usize, fresh: usize) -> Result<()> {
        let patience = PATIENCE * u32::try_from(fresh)? + Duration::from_secs(120);
        let mut shown = Instant::now();
        until(&format!("{size} clusters are ready"), patience, async || {
            plane.check()?;
            let ready = self.clusters.ready();
            if shown.elapsed() > Duration::from_secs(15) {
                shown = Instant::now();
                eprintln!("{ready} of {size} are ready; {:?}", self.clusters.unready());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            Ok((ready < size).then(|| format!("{ready} are; {:?}", self.clusters.unready())))
        })
        .await
    }

    /// How long it takes from `since` until every member was asked for its Status.
    async fn observed(&self, since: Instant, operator: &mut Operator) -> Result<Duration> {
        loop {
            if self.etcds.unobserved(since) == 0 {
                return Ok(since.elapsed());
            }
            if since.elapsed() > OBSERVED {
                bail!("{} clusters were not observed after {OBSERVED:?}", self.etcds.unobserved(since));
            }
            operator.resident()?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn idle(
        &self,
        plane: &Plane,
        leader: &mut Operator,
        standby: &mut Operator,
    ) -> Result<table::Idle> {
        let writes = plane.writes().await?;
        let (before, standbys) = (leader.used().await?, standby.cpu_seconds()?);
        let (mut busiest, mut asked) = (0, self.etcds.asked());
        for _ in 0..self.args.idle {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.etcds.asked();
            busiest = busiest.max(now - asked);
            asked = now;
        }
        let (after, standby_after) = (leader.used().await?, standby.cpu_seconds()?);
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let mut calls = std::collections::BTreeMap::new();
        for (series, more) in after.counts.since(&before.counts, ETCD_CALLS) {
            *calls.entry(label(series, "method").unwrap_or("other").to_owned()).or_insert(0.0) += more;
        }
        Ok(table::Idle {
            seconds,
            leader: (after.cpu_seconds - before.cpu_seconds) / seconds * 100.0,
            standby: (standby_after - standbys) / seconds * 100.0,
            writes: plane.writes().await? - writes,
            busiest,
            calls,
        })
    }
}

/// Every member has two ports and a connection here.
fn raise_open_files(clusters: usize) -> Result<()> {
    let needed = clusters as u64 * 3 * 3 + 2000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft >= needed {
        return Ok(());
    }
    // Who is root may raise both.
    setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed)).with_context(|| {
        format!(
            "{clusters} clusters need {needed} open files, and the hard limit is {hard}: ulimit -Hn {needed}"
        )
    })
}
