//! `cargo xtask kube`: hands over to the program in `dev/rig`, which talks to Kubernetes and is built only then.
//!
//! What reads or breaks a cluster that runs needs no build, so it does not wait for Cargo's lock, which a test run may hold for
//! minutes: it uses the program that `up` built.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cache, cargo, children, repo, tools};

/// Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    let mut kube = command(args.first().is_some_and(|command| command == "up"))?;
    Err(kube.args(args).exec()).with_context(|| format!("cannot run {kube:?}"))
}

/// Runs a command of it, and returns.
pub fn call(args: &[&str]) -> Result<()> {
    children::run(command(args.first() == Some(&"up"))?.args(args))
}

/// Why this machine cannot hold a cluster, if it cannot.
pub fn obstacle() -> Result<Option<String>> {
    let output = command(false)?.arg("check").output().context("cannot run the program kube")?;
    let reason = String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ").to_owned();
    Ok((!output.status.success()).then_some(reason))
}

/// The kubeconfig of the cluster in the default folder.
pub fn kubeconfig() -> PathBuf {
    repo::target().join("kube/kubeconfig")
}

/// Its log of the operator's requests.
pub fn audit_log() -> PathBuf {
    repo::target().join("kube/logs/audit.log")
}

/// The program's path, for tests that break the cluster.
pub fn program() -> Result<PathBuf> {
    cargo::program("rig", "rig")
}

/// The program, built; for `up` also everything that it starts.
fn command(up: bool) -> Result<Command> {
    if up {
        tools::build(tools::Set::Etcd)?;
        tools::build(tools::Set::Kubernetes)?;
    }
    // Not in the cluster's folder, which `down --wipe` removes once it is empty.
    let built = repo::tools().join("rig");
    if up || !built.exists() {
        fs::create_dir_all(repo::tools()).context("cannot create the folder of the tools")?;
        cache::place(&program()?, &built)?;
    }
    let mut kube = Command::new(built);
    kube.env("QUORATE_TOOLS_BIN_DIR", repo::tools_bin()).env("QUORATE_TARGET_DIR", repo::target());
    Ok(kube)
}
