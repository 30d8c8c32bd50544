//! `quorate playground fault`: causes faults.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams};
use nix::sys::signal::Signal;

use super::print_line;
use super::status::client;
use crate::home::Home;
use crate::process::Launcher;
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
    /// Delete all data on a member's volume.
    WipeVolume {
        /// The member's Pod.
        pod: String,
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
        Fault::KillEtcd { pod } => signal(home, &etcd_of(pod), Signal::SIGKILL),
        Fault::StopEtcd { pod } => signal(home, &etcd_of(pod), Signal::SIGSTOP),
        Fault::ContEtcd { pod } => signal(home, &etcd_of(pod), Signal::SIGCONT),
        Fault::KillOperator => signal(home, OPERATOR, Signal::SIGKILL),
        Fault::WipeVolume { pod } => wipe(home, pod).await,
        Fault::CountWrites => count_writes(home).await,
    }
}

/// The name of a member's etcd process in `run/`.
fn etcd_of(pod: &str) -> String {
    let (namespace, pod) = split(pod);
    format!("{namespace}/{pod}/etcd")
}

fn split(pod: &str) -> (&str, &str) {
    pod.split_once('/').unwrap_or(("default", pod))
}

fn signal(home: &Home, wanted: &str, signal: Signal) -> Result<()> {
    let running = Launcher::running(home);
    let found = running.iter().find(|(name, _)| name == wanted);
    let Some((name, process)) = found else {
        let names: Vec<&str> = running.iter().map(|(name, _)| name.as_str()).collect();
        bail!("{wanted} is not running. Running processes: {}", names.join(", "));
    };
    process.signal(signal);
    print_line(format_args!("sent {signal} to {name} (pid {})", process.pid));
    Ok(())
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
