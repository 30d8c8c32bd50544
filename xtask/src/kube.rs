//! `cargo xtask kube`: hands over to the program in `bin/kube/`, which talks to Kubernetes and is built only then.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{children, repo, tools};

/// Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    if args.first().is_some_and(|command| command == "up") {
        tools::build(tools::Set::Etcd)?;
        tools::build(tools::Set::Kubernetes)?;
    }
    let features = ["--package", "xtask", "--features", "kube", "--bin", "kube"];
    children::run(children::cargo().args(["build", "--quiet"]).args(features).current_dir(repo::root()))?;
    let program = repo::target().join("debug/kube");
    let mut kube = Command::new(&program);
    kube.args(args).env("QUORATE_TOOLS_BIN_DIR", repo::tools_bin()).env("QUORATE_TARGET_DIR", repo::target());
    Err(kube.exec()).with_context(|| format!("cannot run {}", program.display()))
}
