//! `quorate playground`: the foreground, the detached, and what one can ask of it.

mod fault;
mod revisions;
mod run;
mod sample;
mod status;
mod table;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::home::Home;

pub use fault::Fault;

/// Flags and subcommands of `quorate playground`.
#[derive(Args, Clone, Debug)]
pub struct PlaygroundArgs {
    /// Where everything is kept: objects, volumes, logs, the kubeconfig.
    #[arg(long, global = true, default_value = ".playground", value_name = "DIR")]
    pub dir: PathBuf,

    /// Apply no sample cluster.
    #[arg(long)]
    pub empty: bool,

    /// Delete what an earlier playground left in the directory.
    #[arg(long)]
    pub fresh: bool,

    /// Return when the cluster is available, and go on in the background.
    #[arg(long)]
    pub detach: bool,

    /// How many nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub nodes: u8,

    /// Where the etcd programs are; else PATH, else what `cargo xtask tools` built.
    #[arg(long, value_name = "DIR")]
    pub etcd_bin_dir: Option<PathBuf>,

    /// The etcd version of the sample cluster; the newest there is unless given.
    #[arg(long = "etcd-version", value_name = "VERSION")]
    pub etcd_version: Option<String>,

    /// The size of the sample cluster.
    #[arg(long, default_value_t = 3)]
    pub size: u32,

    /// For tests: environment of the operator's first start, `KEY=VALUE`.
    #[arg(long, hide = true, value_name = "KEY=VALUE")]
    pub operator_env: Vec<String>,

    /// For tests: the first wait before a container that failed is started again.
    #[arg(long, hide = true, default_value = "10s", value_parser = seconds)]
    pub crash_back_off: std::time::Duration,

    /// What to do instead of starting one.
    #[command(subcommand)]
    pub command: Option<PlaygroundCommand>,
}

/// What one can ask of a playground that runs.
#[derive(Clone, Debug, Subcommand)]
pub enum PlaygroundCommand {
    /// Show its clusters, members and processes.
    Status,
    /// Stop it. Its data stay and come back with the next start on the same directory.
    Down,
    /// Break something, and watch it heal.
    #[command(subcommand)]
    Fault(Fault),
}

/// Runs a command to its end. To be called before any thread is started.
pub fn main(args: &PlaygroundArgs) -> Result<ExitCode> {
    let home = Home::at(&args.dir)?;
    match &args.command {
        None if args.detach => run::detached(args, &home),
        None => run::foreground(args, &home),
        Some(PlaygroundCommand::Status) => block_on(status::show(&home)),
        Some(PlaygroundCommand::Down) => Ok(status::down(&home)),
        Some(PlaygroundCommand::Fault(fault)) => block_on(fault::cause(&home, fault)),
    }
}

fn block_on(work: impl Future<Output = Result<()>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line. Whoever has stopped reading (`| head`) is no reason to fail.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse();
    number.map(std::time::Duration::from_secs_f64).map_err(|_| format!("{text:?} is no time such as 10s"))
}
