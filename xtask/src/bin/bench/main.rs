//! The benchmarks: each figure beside its baseline, measured in turns in one run. Started by `cargo xtask bench`, which
//! builds what is measured.

mod by_hand;
mod create;
mod idle;
mod playground;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use quorate_model::Minor;

#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", about = "Measure, each figure beside its baseline")]
enum Bench {
    /// From apply to three Ready voters, against three etcd processes started by hand; then what idle clusters cost
    Create(Create),
}

#[derive(clap::Args)]
struct Create {
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
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tls {
    On,
    Off,
    Both,
}

fn main() -> ExitCode {
    match run(Bench::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Bench::Create(args): Bench) -> Result<()> {
    let provider = rustls::crypto::ring::default_provider().install_default();
    provider.ok().context("no other TLS provider is installed")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        tokio::select! {
            result = create::run(&args) => result,
            // Dropping what was under way stops its processes.
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
        }
    })
}

fn minor(text: &str) -> Result<Minor, String> {
    let minor =
        text.split_once('.').and_then(|(major, minor)| Some(Minor(major.parse().ok()?, minor.parse().ok()?)));
    minor.ok_or_else(|| format!("{text:?} is no minor version such as 3.6"))
}
