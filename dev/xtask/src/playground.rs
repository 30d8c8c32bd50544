//! `cargo xtask playground`: sets up what is missing and becomes `quorate playground`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, repo, tools};

/// Does not return when it succeeds.
pub fn run(args: &[String]) -> Result<()> {
    tools::build_missing()?;
    if args.iter().any(|arg| arg == "--s3") {
        tools::build(tools::Set::S3)?;
    }
    cargo::build_with_progress("quorate", "quorate")?;
    let mut playground = Command::new(repo::quorate());
    playground.arg("playground").args(args);
    // A call such as `status` or `down` starts no etcd.
    if args.first().is_none_or(|first| first.starts_with('-')) {
        playground.arg("--etcd-bin-dir").arg(repo::tools_bin());
    }
    Err(playground.exec()).with_context(|| format!("cannot run {}", repo::quorate().display()))
}
