//! A real Kubernetes on this machine: one control plane, and nodes in network namespaces. Started by `cargo xtask kube`, which
//! builds its programs.
//!
//! Everything is in one folder, and every step of `up` can be repeated: after a crash, a half-done `up` or a program that
//! was killed, `up` starts what does not run. `down` leaves no process, mount, link, namespace or cgroup.

mod addresses;
mod cgroups;
mod cluster;
mod control;
mod disks;
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
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

use addresses::Families;
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
        /// The number of nodes; existing nodes stay
        #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=i64::from(addresses::NODES)))]
        nodes: u8,
        /// The families of all addresses; a cluster keeps them [default: ipv4]
        #[arg(long, value_enum)]
        ip_family: Option<Families>,
    },
    /// Stop everything; only the folder stays
    Down {
        /// Remove the folder's content too
        #[arg(long)]
        wipe: bool,
    },
    /// Show nodes, programs, and what to export
    Status,
    /// Run a program of the host that resolves the cluster's names, with KUBECONFIG set
    Exec {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "COMMAND")]
        words: Vec<OsString>,
    },
    /// Check whether this machine can run a cluster; fails with what is missing and cannot be installed
    Check,
    /// End programs at once, by the names that `status` shows; `up` starts them again
    Kill {
        #[arg(required = true, value_name = "PROGRAM")]
        programs: Vec<String>,
    },
    /// Cut nodes off from all others; `up` connects them again
    Cut {
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
    },
    /// Import OCI archives into every node
    Load {
        #[arg(required = true, value_name = "FILE.tar")]
        archives: Vec<PathBuf>,
    },
    /// Give an image of the nodes another name, too
    Tag { image: String, name: String },
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
        Task::Up { nodes, ip_family } => runtime.block_on(up::run(&dir, nodes, ip_family)),
        Task::Down { wipe } => down::run(&dir, wipe),
        Task::Status => runtime.block_on(status::run(&dir)),
        Task::Exec { words } => exec::run(&dir, &words),
        Task::Check => host::check_machine(),
        Task::Kill { programs } => kill(&dir, &programs),
        Task::Cut { nodes } => cut(&dir, &nodes),
        Task::Load { archives } => load(&dir, &archives),
        Task::Tag { image, name } => tag(&dir, &image, &name),
        Task::Provisioner => runtime.block_on(provisioner::run(&open(&dir)?)),
    }
}

/// Without the lock: what breaks a cluster does not wait for a command that repairs or fills it.
fn kill(dir: &Path, names: &[String]) -> Result<()> {
    let rig = open(dir)?;
    let known = programs::all(&rig)?;
    for name in names {
        let known: Vec<&str> = known.keys().map(String::as_str).collect();
        ensure!(known.contains(&name.as_str()), "there is no program {name}; there are {}", known.join(", "));
    }
    programs::kill(&rig, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Without the lock, as [`kill`].
fn cut(dir: &Path, names: &[String]) -> Result<()> {
    let rig = open(dir)?;
    for name in names {
        let number = rig.nodes().find(|number| Node::new(&rig, *number).name() == *name);
        network::cut(&rig, number.with_context(|| format!("there is no node {name}"))?)?;
    }
    Ok(())
}

fn load(dir: &Path, archives: &[PathBuf]) -> Result<()> {
    tools::check()?;
    let rig = open(dir)?;
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

fn tag(dir: &Path, image: &str, name: &str) -> Result<()> {
    let rig = open(dir)?;
    let _lock = rig.lock()?;
    rig.nodes().try_for_each(|number| images::tag(&Node::new(&rig, number), image, name))
}

fn open(dir: &Path) -> Result<Rig> {
    Rig::open(dir)?.context("there is no cluster; `cargo xtask kube up` makes one")
}
