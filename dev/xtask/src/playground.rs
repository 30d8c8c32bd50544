//! `cargo xtask playground`: sets up what is missing and becomes `quorate playground`.
//!
//! It builds only what the playground starts with: one minor version of etcd, and `quorate`, both at once. The playground calls
//! `cargo xtask tools etcd MINOR` when a cluster asks for another one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use crate::crates;
use crate::progress;
use crate::quorate::Quorate;
use crate::repo;
use crate::tools::{self, Build};

/// The flag by which a caller names programs of its own.
const DIRECTORY: &str = "--etcd-bin-dir";

/// Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    // A call such as `status` or `down` starts no etcd.
    let starts = args.first().is_none_or(|first| first.starts_with('-'));
    let has_own = args.iter().any(|arg| arg.split('=').next() == Some(DIRECTORY));
    let builds = if starts { builds(args, has_own)? } else { Vec::new() };
    crates::fetch();
    let quorate = Quorate::find();
    let steps = builds.iter().filter(|build| build.compiles()).map(Build::step);
    progress::announce(steps.chain(quorate.step()));
    let program = thread::scope(|scope| {
        let tools = scope.spawn(|| builds.iter().try_for_each(|build| build.run().map(drop)));
        let program = quorate.build();
        tools.join().expect("building tools does not panic")?;
        program
    })?;
    let mut playground = Command::new(&program);
    playground.arg("playground").args(args);
    if starts && !has_own {
        playground.arg(DIRECTORY).arg(repo::tools_bin()).args(on_demand()?);
    }
    Err(playground.exec()).with_context(|| format!("cannot run {}", program.display()))
}

fn builds(args: &[String], has_own: bool) -> Result<Vec<Build>> {
    let mut builds = Vec::new();
    if !has_own {
        builds.push(Build::etcd(tools::minor_of(args))?);
    }
    if args.iter().any(|arg| arg == "--s3") {
        builds.push(Build::s3()?);
    }
    Ok(builds)
}

/// How the playground gets further versions of etcd: what builds them, which ones, and how long that takes.
fn on_demand() -> Result<Vec<OsString>> {
    let own = std::env::current_exe().context("xtask does not know its own path")?;
    let mut flags = vec!["--etcd-builder".into(), own.into_os_string()];
    for minor in tools::MINORS {
        let build = Build::etcd(minor)?;
        let flag = format!("--etcd-on-demand={}={}", build.etcd_version()?, build.step().duration());
        flags.push(flag.into());
    }
    Ok(flags)
}
