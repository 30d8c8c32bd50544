//! `cargo xtask bench`: hands over to the program in `dev/bench`, which needs half of the workspace and is built only
//! then.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};

use crate::{cargo, children, image, repo, tools};

/// Builds what is measured, optimised as in the image, and runs the measurement. On Kubernetes the image itself is measured,
/// and the program builds it if it is missing. Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    let asks = |words: &[&str]| args.iter().any(|arg| words.contains(&arg.as_str()));
    let help = asks(&["--help", "-h", "help"]);
    // Its own program is measured against as well, since it is all members: it is optimised, too.
    let is_fleet = args.first().is_some_and(|command| command == "fleet");
    let mut quorate = repo::target().join("release/quorate");
    if !help {
        tools::build_missing()?;
        if is_fleet {
            tools::build(tools::Set::Kubernetes)?;
            quorate = image::release_program()?;
        } else if !asks(&["--kube", "disrupt", "life"]) {
            children::run(cargo::command().args(["build", "--release", "--package", "quorate"]))?;
        }
    }
    let mut bench = cargo::command();
    bench.args(["run", "--quiet", "--package", "bench"]);
    if is_fleet {
        bench.args(["--bin", "fleet", "--no-default-features", "--profile", "fleet", "--"]).args(&args[1..]);
    } else {
        bench.arg("--").args(args);
    }
    bench
        .env("QUORATE_XTASK", std::env::current_exe().context("xtask does not know its own path")?)
        .env("QUORATE_TARGET_DIR", repo::target())
        .env("QUORATE_BIN", quorate)
        .env("QUORATE_ETCD_BIN_DIR", repo::tools_bin());
    // It takes the place of this process, so that SIGINT reaches the measurement, which stops what it started.
    Err(bench.exec()).context("cannot run cargo")
}
