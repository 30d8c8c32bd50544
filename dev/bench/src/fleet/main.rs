//! `cargo xtask bench fleet`: what a fleet of clusters costs one operator. The API server and the operator are real; one process, this one, is all members
//! and nodes.

// A program of its own, which is built optimised: the other benchmarks need half of the workspace.
mod backups;
mod clusters;
mod etcd;
mod hang;
mod latency;
#[path = "../metrics.rs"]
mod metrics;
mod nodes;
mod operator;
mod plane;
mod pod;
mod process;
mod rack;
mod relist;
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
use tokio::signal::unix::{SignalKind, signal};

use clusters::{Clusters, Effects, Layout};
use etcd::Etcds;
use latency::Stage;
use metrics::{ETCD_CALLS, label};
use nodes::Nodes;
use operator::Operator;
use plane::Plane;
use rack::Rack;
use table::Figures;
use wait::until;

/// How long a whole size may take until it is ready, for each cluster.
const PATIENCE: Duration = Duration::from_secs(4);

/// How long a fleet is left alone before it counts as idle: the first looks at everything are behind it. What has ended is looked at last.
const SETTLE: Duration = Duration::from_secs(75);
const SETTLE_OF_FEW: Duration = Duration::from_secs(40);
const ENDED_IN_A_SECOND: usize = 100;

/// Fewer clusters than that are to show that everything works. Each phase is short then.
const FEW: usize = 100;

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
    /// How many percent of the clusters share a namespace with others; 0 leaves them out
    #[arg(long, default_value_t = 20, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=90))]
    shared: u8,
    /// How many clusters one such namespace has
    #[arg(long, default_value_t = 40, value_name = "N")]
    in_one_namespace: usize,
    /// How many EtcdBackups that have ended each cluster has; 0 leaves them out
    #[arg(long, default_value_t = 25, value_name = "N")]
    backups: usize,
    /// For how many seconds the idle fleet is watched [default: 120; 20 below 100 clusters]
    #[arg(long, value_name = "S")]
    idle: Option<u64>,
    /// How many keys the clients of each cluster write in a second
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    writes: f64,
    /// How many events are made in clusters that are well; 0 leaves them out [default: 300; 40 below 100 clusters]
    #[arg(long, value_name = "N")]
    events: Option<usize>,
    /// For how many seconds a webhook hangs for one namespace; 0 leaves it out [default: 90; 15 below 100 clusters]
    #[arg(long, value_name = "S")]
    hang: Option<u64>,
    /// For how many seconds the API server waits for that webhook
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u8).range(1..=30))]
    webhook_timeout: u8,
    /// For how many seconds a tenth of the nodes is gone; 0 leaves it out [default: 120; 20 below 100 clusters]
    #[arg(long, value_name = "S")]
    rack: Option<u64>,
    /// Do not restart the API server
    #[arg(long)]
    no_restart: bool,
    /// After how many minutes it fails and cleans up, whatever is measured then
    #[arg(long, default_value_t = 120, value_name = "MINUTES")]
    at_most: u64,
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
            let mut terminated = signal(SignalKind::terminate())?;
            let limit = Duration::from_secs(60 * args.at_most);
            // Dropping what was under way stops its processes and removes what they wrote.
            tokio::select! {
                result = run(&args) => result,
                _ = tokio::signal::ctrl_c() => bail!("interrupted"),
                _ = terminated.recv() => bail!("terminated"),
                () = tokio::time::sleep(limit) => bail!("it took longer than --at-most {} minutes", args.at_most),
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
    eprintln!(
        "it takes some {} minutes, and at most {}",
        args.expected().as_secs().div_ceil(60),
        args.at_most
    );
    let mut plane = Plane::start(dir.path()).await?;
    let measured = Box::pin(measure(args, &mut plane, &dir)).await;
    plane.stop().await?;
    measured
}

async fn measure(args: &Fleet, plane: &mut Plane, dir: &TempDir) -> Result<()> {
    let (etcds, effects) = (Etcds::new(args.writes), Effects::default());
    let nodes = Nodes::new(plane.client(), etcds.clone(), effects.clone())?;
    rack::create_nodes(&plane.client()).await?;
    let clusters = Clusters::new(plane.client(), args.layout(), effects.clone());
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

impl Fleet {
    fn layout(&self) -> Layout {
        Layout { shared_percent: self.shared.into(), in_one_namespace: self.in_one_namespace }
    }

    /// For how long, or how often, of a fleet of this size.
    fn phases(&self, size: usize) -> Phases {
        let or = |asked: Option<u64>, many, few| asked.unwrap_or(if size < FEW { few } else { many });
        let ended = Duration::from_secs((size * self.backups / ENDED_IN_A_SECOND) as u64);
        Phases {
            settle: ended + if size < FEW { SETTLE_OF_FEW } else { SETTLE },
            pause: Duration::from_secs(if size < FEW { 5 } else { 20 }),
            idle: or(self.idle, 120, 20),
            events: self.events.unwrap_or(if size < FEW { 40 } else { 300 }),
            hang: or(self.hang, 90, 15),
            rack: or(self.rack, 120, 20),
        }
    }

    /// What all sizes take on two cores with nothing else on them.
    fn expected(&self) -> Duration {
        let of = |size: usize| {
            let phases = self.phases(size);
            // A cluster is ready after half a second, and a hundred EtcdBackups are written in one.
            let made = size as u64 / 2 + (size * self.backups / 100) as u64;
            let others = phases.idle + phases.events as u64 / 4 + phases.hang + phases.rack + 100;
            phases.settle + 4 * phases.pause + Duration::from_secs(made + others)
        };
        self.clusters.iter().map(|size| of(*size)).sum()
    }
}

/// How long each phase lasts.
struct Phases {
    settle: Duration,
    pause: Duration,
    idle: u64,
    events: usize,
    hang: u64,
    rack: u64,
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
        let phases = self.args.phases(size);
        // They are created by a replica of their own, so that its memory is not in the figures.
        let mut creator = self.replica(plane)?;
        creator.leads().await?;
        let begun = Instant::now();
        self.clusters.create(exist, size).await?;
        self.all_ready(plane, size, size - exist).await?;
        let created = begun.elapsed();
        eprintln!("{size} clusters: ready after {:.0} s, {} Pods", created.as_secs_f64(), self.nodes.ready());
        tokio::time::sleep(phases.pause).await;
        let creator_peak = creator.peak()?;
        creator.stop().await?;
        let fresh = (exist..size).map(|number| self.clusters.key(number));
        let begun = Instant::now();
        backups::create(&plane.client(), fresh, self.args.backups).await?;
        eprintln!("{} EtcdBackups after {:.0} s", size * self.args.backups, begun.elapsed().as_secs_f64());

        let mut leader = self.replica(plane)?;
        let start = self.observed(leader.started, &mut leader).await?;
        eprintln!("started: all observed after {:.1} s", start.as_secs_f64());
        let mut standby = self.replica(plane)?;
        standby.listed().await?;
        tokio::time::sleep(phases.settle).await;

        let idle = self.idle(plane, (&mut leader, &mut standby), phases.idle).await?;
        let mut figures = Figures {
            clusters: size,
            shared: (0..size).filter(|number| self.clusters.key(*number).0.starts_with("shared-")).count(),
            backups: size * self.args.backups,
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
            hang: None,
            rack: None,
            relist: None,
        };
        let killed = Instant::now();
        leader.kill().await?;
        figures.take_over = self.observed(killed, &mut standby).await?;
        eprintln!("taken over: all observed after {:.1} s", figures.take_over.as_secs_f64());
        let mut next = self.replica(plane)?;
        next.listed().await?;
        tokio::time::sleep(phases.pause).await;
        if phases.events > 0 {
            figures.latencies = self.stage.measure(size, phases.events).await?;
            self.all_ready(plane, size, size).await?;
        }
        figures.take_over_peak = standby.peak()?;
        let mut replicas = [standby, next];
        Box::pin(self.troubles(plane, &mut replicas, size, &mut figures)).await?;
        for replica in replicas {
            replica.stop().await?;
        }
        Ok(figures)
    }

    /// What happens to fleets. The first of the replicas leads.
    async fn troubles(
        &mut self,
        plane: &mut Plane,
        replicas: &mut [Operator; 2],
        size: usize,
        figures: &mut Figures,
    ) -> Result<()> {
        let phases = self.args.phases(size);
        if phases.hang > 0 {
            let namespace = self.args.layout().fullest(size).context("a fleet has clusters")?;
            eprintln!("a webhook hangs for the namespace {namespace}");
            let timeout = self.args.webhook_timeout;
            let hangs = hang::measure(&self.stage, &namespace, size, phases.hang, timeout);
            figures.hang = Some(Box::pin(hangs).await?);
            self.all_ready(plane, size, size).await?;
            tokio::time::sleep(phases.pause).await;
        }
        if phases.rack > 0 {
            eprintln!("a tenth of the nodes is gone");
            let rack = Rack::lose(plane.client(), &self.nodes).await?;
            let mut found = rack.watch(&mut replicas[0], &self.stage.effects, phases.rack).await?;
            rack.give_back(&self.nodes).await?;
            let back = Instant::now();
            self.all_ready(plane, size, size).await?;
            found.recovered = back.elapsed();
            figures.rack = Some(found);
            tokio::time::sleep(phases.pause).await;
        }
        if !self.args.no_restart {
            eprintln!("the API server is killed and started again");
            figures.relist = Some(Box::pin(self.relist(plane, replicas)).await?);
        }
        Ok(())
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
        (leader, standby): (&mut Operator, &mut Operator),
        seconds: u64,
    ) -> Result<table::Idle> {
        let writes = plane.writes().await?;
        let (before, standbys) = (leader.used().await?, standby.cpu_seconds()?);
        let (mut busiest, mut asked) = (0, self.etcds.asked());
        for _ in 0..seconds {
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
