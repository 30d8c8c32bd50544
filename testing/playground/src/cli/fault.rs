//! `quorate playground fault`: causes faults, and undoes those that last.

mod auth;
mod disk;
mod node;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams};
use nix::sys::signal::Signal;

use super::print_line;
use super::status::client;
use crate::home::Home;
use crate::process::{Identity, Launcher};
use crate::supervisor::OPERATOR;

/// The faults.
#[derive(Clone, Debug, Subcommand)]
pub enum Fault {
    /// Delete a Pod.
    KillPod {
        /// The Pod: `demo-0`, or `namespace/demo-0`.
        pod: String,
    },
    /// Kill a member's etcd process (SIGKILL).
    KillEtcd {
        /// The member's Pod.
        pod: String,
    },
    /// Pause a member's etcd process (SIGSTOP).
    StopEtcd {
        /// The member's Pod.
        pod: String,
    },
    /// Resume a paused etcd process (SIGCONT).
    ContEtcd {
        /// The member's Pod.
        pod: String,
    },
    /// Kill the operator (SIGKILL). It restarts.
    KillOperator,
    /// Pause the operator (SIGSTOP).
    StopOperator,
    /// Resume a paused operator (SIGCONT). If its lease is over, it ends and restarts.
    ContOperator,
    /// Delete all data on a member's volume.
    #[command(visible_alias = "lose-disk")]
    WipeVolume {
        /// The member's Pod.
        pod: String,
    },
    /// Hang a member's disk: etcd and the agent wait when they sync.
    HangDisk {
        /// The member's Pod.
        pod: String,
        /// The disk goes on.
        #[arg(long)]
        undo: bool,
        /// Be the process that hangs it.
        #[arg(long, hide = true, conflicts_with = "undo")]
        hold: bool,
    },
    /// Cut a node off: members on it and those on other nodes do not reach each other.
    Partition {
        /// The node: `node-1`.
        node: String,
        /// The node reaches the others again.
        #[arg(long)]
        undo: bool,
    },
    /// Stop a node: its processes are killed, and its Pods are not started again.
    StopNode {
        /// The node: `node-1`.
        node: String,
        /// The node starts again.
        #[arg(long)]
        undo: bool,
    },
    /// Enable etcd's auth behind the operator's back, with the user root.
    EnableAuth {
        /// The cluster: `demo`, or `namespace/demo`.
        cluster: String,
        /// Disable it again.
        #[arg(long)]
        undo: bool,
    },
    /// Print how often each object was created and deleted.
    #[command(hide = true)]
    CountWrites,
}

pub(super) async fn cause(home: &Home, fault: &Fault) -> Result<()> {
    if home.tenant().is_none() {
        bail!("no playground runs on {}", home.dir().display());
    }
    match fault {
        Fault::KillPod { pod } => delete_pod(home, pod).await,
        Fault::KillEtcd { pod } => signal_etcd(home, pod, Signal::SIGKILL),
        Fault::StopEtcd { pod } => signal_etcd(home, pod, Signal::SIGSTOP),
        Fault::ContEtcd { pod } => signal_etcd(home, pod, Signal::SIGCONT),
        Fault::KillOperator => signal(home, OPERATOR, Signal::SIGKILL),
        Fault::StopOperator => signal(home, OPERATOR, Signal::SIGSTOP),
        Fault::ContOperator => signal(home, OPERATOR, Signal::SIGCONT),
        Fault::WipeVolume { pod } => wipe(home, pod).await,
        Fault::HangDisk { pod, hold: true, .. } => disk::hold(home, pod),
        Fault::HangDisk { pod, undo: true, .. } => disk::undo(home, pod),
        Fault::HangDisk { pod, .. } => disk::hang(home, pod),
        Fault::Partition { node, undo } => node::partition(home, node, *undo).await,
        Fault::StopNode { node, undo } => node::stop(home, node, *undo).await,
        Fault::EnableAuth { cluster, undo } => auth::enable(home, cluster, *undo).await,
        Fault::CountWrites => count_writes(home).await,
    }
}

fn split(pod: &str) -> (&str, &str) {
    pod.split_once('/').unwrap_or(("default", pod))
}

fn signal(home: &Home, wanted: &str, signal: Signal) -> Result<()> {
    let process = running(home, wanted)?;
    process.signal(signal);
    print_line(format_args!("sent {signal} to {wanted} (pid {})", process.pid));
    Ok(())
}

/// etcd is the child of the container's process, which is the agent.
fn signal_etcd(home: &Home, pod: &str, signal: Signal) -> Result<()> {
    let (namespace, pod) = split(pod);
    let wanted = format!("{namespace}/{pod}/etcd");
    let agent = running(home, &wanted)?;
    let Some(etcd) = agent.children().into_iter().find(|child| child.name() == "etcd") else {
        bail!("etcd does not run in {wanted}");
    };
    etcd.signal(signal);
    print_line(format_args!("sent {signal} to {wanted} (pid {})", etcd.pid));
    Ok(())
}

fn running(home: &Home, wanted: &str) -> Result<Identity> {
    let running = Launcher::running(home);
    let found = running.iter().find(|(name, _)| name == wanted);
    let Some((_, process)) = found else {
        let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
        bail!("{wanted} is not running. Running processes: {}", names.join(", "));
    };
    Ok(process.clone())
}

#[expect(clippy::disallowed_methods, reason = "the user asks for just this")]
async fn delete_pod(home: &Home, pod: &str) -> Result<()> {
    let (namespace, pod) = split(pod);
    let pods: Api<Pod> = Api::namespaced(client(home).await?, namespace);
    pods.delete(pod, &DeleteParams::default()).await?;
    print_line(format_args!("deleted Pod {namespace}/{pod}"));
    Ok(())
}

async fn wipe(home: &Home, pod: &str) -> Result<()> {
    let (namespace, pod) = split(pod);
    let client = client(home).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
    let claim = claims.get(pod).await?;
    let volume = claim.spec.and_then(|spec| spec.volume_name).context("the volume is not bound yet")?;
    let volumes: Api<PersistentVolume> = Api::all(client);
    let volume = volumes.get(&volume).await?;
    let directory = crate::node::directory(home, &volume).context("the volume has no directory here")?;
    for entry in std::fs::read_dir(&directory)? {
        let path = entry?.path();
        if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
    }
    print_line(format_args!("emptied {}", directory.display()));
    Ok(())
}

async fn count_writes(home: &Home) -> Result<()> {
    // The latest writes are saved by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let state: serde_json::Value = serde_json::from_slice(&std::fs::read(home.state())?)?;
    for (object, count) in state["writes"].as_object().into_iter().flatten() {
        print_line(format_args!("{object} {count}"));
    }
    Ok(())
}
