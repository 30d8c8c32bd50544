//! `quorate playground`: starts one in the foreground or detached, and its subcommands.

mod fault;
mod revisions;
mod run;
mod sample;
mod status;
mod table;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::builds::Buildable;
use crate::home::Home;

pub use fault::Fault;

/// Flags and subcommands of `quorate playground`.
#[derive(Args, Clone, Debug)]
pub struct PlaygroundArgs {
    /// The directory of the playground: objects, volumes, logs, kubeconfig.
    #[arg(long, global = true, default_value = ".playground", value_name = "DIR")]
    pub dir: PathBuf,

    /// Do not create the sample cluster.
    #[arg(long)]
    pub empty: bool,

    /// Delete the data of an earlier playground in the directory.
    #[arg(long)]
    pub fresh: bool,

    /// Run in the background; return when the sample cluster is ready.
    #[arg(long)]
    pub detach: bool,

    /// The number of nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub nodes: u8,

    /// The directory of the etcd programs. Default: PATH, then the programs that `cargo xtask tools` built. `cargo xtask
    /// playground` builds etcd 3.7, and etcd 3.6 and 3.5 when a cluster asks for them.
    #[arg(long, value_name = "DIR")]
    pub etcd_bin_dir: Option<PathBuf>,

    /// What builds other versions of etcd: called with `tools etcd MINOR`, it adds them to the directory of the etcd programs.
    #[arg(long, hide = true, value_name = "PROGRAM", requires = "etcd_on_demand")]
    pub etcd_builder: Option<PathBuf>,

    /// A version that the builder builds when a Pod asks for it, and how long that takes, as a message words it.
    #[arg(long, hide = true, value_name = "VERSION[=DURATION]", requires = "etcd_builder")]
    pub etcd_on_demand: Vec<Buildable>,

    /// The etcd version of the sample cluster. Default: the newest version found.
    #[arg(long = "etcd-version", value_name = "VERSION")]
    pub etcd_version: Option<String>,

    /// Start an S3 server beside the playground, with a bucket `backups` and a Secret `s3-credentials`. Needs versitygw:
    /// `cargo xtask tools s3` builds it.
    #[arg(long)]
    pub s3: bool,

    /// The size of the sample cluster.
    #[arg(long, default_value_t = 3)]
    pub size: u32,

    /// The address of the operator's metrics. Default: a free port of 127.0.0.1 at each start, which its log names.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", hide_default_value = true)]
    pub operator_metrics: SocketAddr,

    /// For tests: environment variables of the operator's first start, `KEY=VALUE`.
    #[arg(long, hide = true, value_name = "KEY=VALUE")]
    pub operator_env: Vec<String>,

    /// For tests: the first delay before a failed container restarts.
    #[arg(long, hide = true, default_value = "10s", value_parser = seconds)]
    pub crash_back_off: std::time::Duration,

    /// A command for a running playground.
    #[command(subcommand)]
    pub command: Option<PlaygroundCommand>,
}

/// Commands for a running playground.
#[derive(Clone, Debug, Subcommand)]
pub enum PlaygroundCommand {
    /// Show clusters, members and processes.
    Status,
    /// Stop the playground. Its data are kept; the next start with the same directory restores them.
    Down,
    /// Cause a fault.
    #[command(subcommand)]
    Fault(Fault),
}

/// Runs a command. Must be called before any thread is started.
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

/// Prints a line. A closed pipe (`| head`) is no error.
fn print_line(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn seconds(text: &str) -> Result<std::time::Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text).parse();
    number.map(std::time::Duration::from_secs_f64).map_err(|_| format!("{text:?} is no time such as 10s"))
}
