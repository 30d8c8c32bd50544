//! `cargo xtask playground`: sets up what is missing and becomes `quorate playground`.
//!
//! It builds only what the playground starts with: one minor version of etcd, and `quorate`, both at once. Other versions of etcd are
//! built by `cargo xtask tools etcd MINOR`.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use crate::{cargo, children, crates, repo, tools};

/// Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    // A call such as `status` or `down` starts no etcd.
    let starts = args.first().is_none_or(|first| first.starts_with('-'));
    crates::fetch();
    let quorate = thread::scope(|scope| {
        let etcd = scope.spawn(|| if starts { build_tools(args) } else { Ok(()) });
        let quorate = build_quorate();
        etcd.join().expect("building etcd does not panic")?;
        quorate
    })?;
    let mut playground = Command::new(&quorate);
    playground.arg("playground").args(args);
    if starts {
        playground.arg("--etcd-bin-dir").arg(repo::tools_bin());
    }
    Err(playground.exec()).with_context(|| format!("cannot run {}", quorate.display()))
}

fn build_tools(args: &[String]) -> Result<()> {
    tools::build_etcd(tools::minor_of(args))?;
    if args.iter().any(|arg| arg == "--s3") {
        tools::build(tools::Set::S3)?;
    }
    Ok(())
}

/// As the dev profile has it: tests have a `quorate` of their own.
fn build_quorate() -> Result<PathBuf> {
    let mut build = cargo::command();
    build.args(["build", "--package", "quorate", "--bin", "quorate"]);
    // Nothing is built a second time here, and nobody debugs.
    build.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    children::run(&mut build)?;
    crates::keep();
    Ok(repo::target().join("debug/quorate"))
}
