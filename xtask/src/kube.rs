//! `cargo xtask kube`: hands over to the program in `bin/kube/`, which talks to Kubernetes and is built only then.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{children, repo, tools};

/// Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    let mut kube = command(args.first().is_some_and(|command| command == "up"))?;
    Err(kube.args(args).exec()).with_context(|| format!("cannot run {kube:?}"))
}

/// Runs a command of it, and returns.
pub fn call(args: &[&str]) -> Result<()> {
    children::run(command(args.first() == Some(&"up"))?.args(args))
}

/// Of the cluster in the usual folder.
pub fn kubeconfig() -> PathBuf {
    repo::target().join("kube/kubeconfig")
}

/// The program, built, and for `up` all that it starts.
fn command(up: bool) -> Result<Command> {
    if up {
        tools::build(tools::Set::Etcd)?;
        tools::build(tools::Set::Kubernetes)?;
    }
    let features = ["--package", "xtask", "--features", "kube", "--bin", "kube"];
    children::run(children::cargo().args(["build", "--quiet"]).args(features).current_dir(repo::root()))?;
    let program = repo::target().join("debug/kube");
    let mut kube = Command::new(program);
    kube.env("QUORATE_TOOLS_BIN_DIR", repo::tools_bin()).env("QUORATE_TARGET_DIR", repo::target());
    Ok(kube)
}
