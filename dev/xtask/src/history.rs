//! `cargo xtask history FILE`: hands over to the program that judges a history of clients.

use std::os::unix::process::CommandExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{cargo, repo, tools};

/// Builds it with its judge and becomes it; does not return when that succeeds.
pub fn judge(file: &Path) -> Result<()> {
    tools::build_judge()?;
    let mut history = std::process::Command::new(cargo::program("quorate-scenarios", "history")?);
    history.arg(file).env("QUORATE_ETCD_BIN_DIR", repo::tools_bin());
    Err(history.exec()).with_context(|| format!("cannot run {history:?}"))
}
