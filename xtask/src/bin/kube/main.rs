//! A real Kubernetes on this machine: one control plane, nodes in network namespaces. Started by `cargo xtask kube`, which
//! builds its programs.
//!
//! Everything is in one folder, and every step of `up` can be repeated: after a crash, a half-done `up` or a program that
//! was killed, `up` starts what does not run. `down` leaves no process, mount, link, namespace or cgroup.

mod addresses;
mod cgroups;
mod cluster;
mod control;
mod down;
mod exec;
mod files;
mod host;
mod identity;
mod images;
mod network;
mod node;
mod objects;
mod pki;
mod programs;
mod provisioner;
mod rig;
mod status;
mod tools;
mod up;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use node::Node;
use rig::Rig;

#[derive(Parser)]
#[command(
    bin_name = "cargo xtask kube",
    about = "A real Kubernetes on this machine, its nodes in network namespaces",
    disable_help_subcommand = true
)]
struct Kube {
    /// The folder that holds all of it [default: target/kube]
    #[arg(long, global = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Start what does not run
    Up {
        /// How many nodes; one that is there stays
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(addresses::NODES)))]
        nodes: u8,
    },
    /// Stop all of it and leave nothing on the machine but the folder
    Down {
        /// The folder's content too
        #[arg(long)]
        wipe: bool,
    },
    /// Nodes, programs, and what to export
    Status,
    /// Run a program of the host that resolves the cluster's names, with KUBECONFIG set
    Exec {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
        words: Vec<OsString>,
    },
    /// Import OCI archives into every node
    Load {
        #[arg(required = true, value_name = "FILE.tar")]
        archives: Vec<PathBuf>,
    },
    #[command(hide = true)]
    Provisioner,
}

fn main() -> ExitCode {
    match run(Kube::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Kube { dir, command }: Kube) -> Result<()> {
    let target = std::env::var_os("QUORATE_TARGET_DIR").map(PathBuf::from);
    let dir = dir.or_else(|| Some(target?.join("kube"))).context("run this through `cargo xtask kube`")?;
    let provider = rustls::crypto::ring::default_provider().install_default();
    provider.ok().context("no other TLS provider is installed")?;
    let runtime = tokio::runtime::Runtime::new()?;
    match command {
        Task::Up { nodes } => runtime.block_on(up::run(&dir, nodes)),
        Task::Down { wipe } => down::run(&dir, wipe),
        Task::Status => runtime.block_on(status::run(&dir)),
        Task::Exec { words } => exec::run(&dir, &words),
        Task::Load { archives } => load(&dir, &archives),
        Task::Provisioner => {
            let rig = Rig::open(&dir)?.context("there is no cluster in this folder")?;
            runtime.block_on(provisioner::run(&rig))
        }
    }
}

fn load(dir: &std::path::Path, archives: &[PathBuf]) -> Result<()> {
    tools::check()?;
    let rig = Rig::open(dir)?.context("there is no cluster; `cargo xtask kube up` makes one")?;
    let _lock = rig.lock()?;
    for archive in archives {
        images::keep(&rig, archive)?;
    }
    let nodes = rig.nodes().map(|number| Node::new(&rig, number));
    let (there, down): (Vec<Node>, Vec<Node>) = nodes.partition(|node| cluster::listens_at(&node.socket()));
    for (node, count) in there.iter().zip(images::import_all(&rig, &there)?) {
        println!("{}: {count} imported", node.name());
    }
    for node in down {
        println!("{} is down and imports with the next `up`", node.name());
    }
    Ok(())
}
