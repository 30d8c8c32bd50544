//! `cargo xtask bench`: hands over to the program in `dev/bench`, which needs half of the workspace and is built only
//! then.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};

use crate::{cargo, children, repo, tools};

/// Builds what is measured, optimised as in the image, and runs the measurement. On Kubernetes the image itself is measured,
/// and the program builds it if it is missing. Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    let help = args.iter().any(|arg| ["--help", "-h", "help"].contains(&arg.as_str()));
    if !help {
        tools::build_missing()?;
    }
    let on_kubernetes = args.iter().any(|arg| ["--kube", "disrupt", "life"].contains(&arg.as_str()));
    if !help && !on_kubernetes {
        children::run(cargo::command().args(["build", "--release", "--package", "quorate"]))?;
    }
    let mut bench = cargo::command();
    bench.args(["run", "--quiet", "--package", "bench", "--"]).args(args);
    bench
        .env("QUORATE_XTASK", std::env::current_exe().context("xtask does not know its own path")?)
        .env("QUORATE_TARGET_DIR", repo::target())
        .env("QUORATE_BIN", repo::target().join("release/quorate"))
        .env("QUORATE_ETCD_BIN_DIR", repo::tools_bin());
    // It takes the place of this process, so that SIGINT reaches the measurement, which stops what it started.
    Err(bench.exec()).context("cannot run cargo")
}
