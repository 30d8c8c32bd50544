//! Faults of the machine that hosts a real Kubernetes: its programs are killed, its nodes are disconnected. `cargo xtask
//! kube` does the work.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A fault that lasts until this is repaired or dropped.
#[must_use = "the fault ends when this is dropped"]
pub struct Outage(());

impl Outage {
    /// Kills programs of the cluster, by the names that `cargo xtask kube status` shows.
    pub fn kill(programs: &[&str]) -> Result<Self> {
        Self::by("kill", programs)
    }

    /// Disconnects nodes from the network. Their processes go on.
    pub fn cut(nodes: &[&str]) -> Result<Self> {
        Self::by("cut", nodes)
    }

    /// Starts what was killed, reconnects nodes, and waits until everything is ready.
    pub fn repair(self) -> Result<()> {
        std::mem::forget(self);
        call("up", &[])
    }

    fn by(command: &str, names: &[&str]) -> Result<Self> {
        // A call that fails half way must be repaired too.
        let outage = Self(());
        call(command, names)?;
        Ok(outage)
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if let Err(error) = call("up", &[]) {
            eprintln!("the cluster stays broken: {error:#}; cargo xtask kube up");
        }
    }
}

/// The folder with the cluster's files.
pub fn folder() -> Result<PathBuf> {
    let target =
        std::env::var_os("QUORATE_TARGET_DIR").context("run this through `cargo xtask test kube`")?;
    Ok(PathBuf::from(target).join("kube"))
}

fn call(command: &str, names: &[&str]) -> Result<()> {
    let program =
        std::env::var_os("QUORATE_TEST_KUBE").context("run this through `cargo xtask test kube`")?;
    let output =
        Command::new(program).arg(command).args(names).output().context("cannot run the program kube")?;
    let (printed, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "kube {command} failed: {printed}{error}");
    Ok(())
}
