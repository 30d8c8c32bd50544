//! The benchmarks: each figure and its baseline, measured in turns in one run. Started by `cargo xtask bench`, which
//! builds what is measured.

mod backup;
mod by_hand;
mod clusters;
mod create;
mod figures;
mod idle;
mod kube;
mod metrics;
mod playground;
mod pods;
mod process;
mod turns;
mod wait;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use quorate_etcd::testkit::MINORS;
use quorate_model::Minor;

#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", about = "Measure, each figure beside its baseline")]
enum Bench {
    /// From apply to three Ready voters, against three etcd started by hand; then what idle clusters cost
    Create(Create),
    /// Backups and restores of real etcd, with a real S3 server
    #[command(subcommand)]
    Backup(backup::Backup),
    /// What a fleet costs one operator: a real API server, the operator, and one process that is all members
    Fleet,
    /// How long writes pause while leaders are drained, deleted, rolled and upgraded, and how soon a member is back, on the real
    /// Kubernetes of `cargo xtask kube`
    Disrupt(Disrupt),
    /// The life of clusters on the real Kubernetes of `cargo xtask kube`: a lost disk, rollouts, a full database, a fleet under an upgrade
    /// of the operator
    #[command(subcommand)]
    Life(kube::Life),
}

#[derive(clap::Args)]
struct Disrupt {
    /// How often each disruption but a drain is measured
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How often the node of the leader is drained
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    drains: u32,
    /// How often a cluster is upgraded from etcd 3.6 to 3.7
    #[arg(long, default_value_t = 3)]
    upgrades: u32,
    /// Only replace the operator: install this release by its manifests, then the present one, then this one again. Its image is in
    /// the nodes, under another name than the present one
    #[arg(long, value_name = "MANIFESTS")]
    operator_from: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Create {
    /// On the real Kubernetes of `cargo xtask kube`, against three Pods written by hand. What is missing is brought up:
    /// Kubernetes, the image, the operator
    #[arg(long)]
    kube: bool,
    /// How often each is measured; one turn before that does not count
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// With which TLS
    #[arg(long, value_enum, default_value = "both")]
    tls: Tls,
    /// Which etcd: 3.5, 3.6 or 3.7
    #[arg(long, default_value = "3.6", value_parser = minor)]
    etcd: Minor,
    /// How long idle clusters are watched, in seconds; 0 for not at all
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// With --kube: with how many clusters the operator's cost is measured, after one
    #[arg(long, default_value_t = 30, requires = "kube", value_parser = clap::value_parser!(u32).range(1..=1000))]
    clusters: u32,
    /// With --kube: of how many members these are
    #[arg(long, default_value_t = 1, requires = "kube", value_parser = clap::value_parser!(u8).range(1..=9))]
    members: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tls {
    On,
    Off,
    Both,
}

impl Tls {
    /// In this order.
    fn modes(self) -> &'static [bool] {
        match self {
            Self::Both => &[false, true],
            Self::Off => &[false],
            Self::On => &[true],
        }
    }
}

fn main() -> ExitCode {
    match run(&Bench::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(bench: &Bench) -> Result<()> {
    let provider = rustls::crypto::ring::default_provider().install_default();
    provider.ok().context("no other TLS provider is installed")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let measured = async {
            match bench {
                Bench::Backup(what) => backup::run(what).await,
                Bench::Create(args) if args.kube => kube::run(args).await,
                Bench::Create(args) => Box::pin(create::run(args)).await,
                Bench::Disrupt(args) => kube::disrupt(args).await,
                Bench::Fleet => anyhow::bail!("`cargo xtask bench fleet` runs a program of its own"),
                Bench::Life(args) => kube::life(args).await,
            }
        };
        tokio::select! {
            result = measured => result,
            // Dropping what was under way stops its processes.
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        }
    })
}

fn minor(text: &str) -> Result<Minor, String> {
    let known = MINORS.map(|minor| minor.to_string());
    let minor = MINORS.into_iter().find(|minor| minor.to_string() == text);
    minor.ok_or_else(|| format!("{text:?} is none of {}", known.join(", ")))
}
