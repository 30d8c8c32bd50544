//! What xtask, rig and bench share.

mod lock;
pub mod oci;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

pub use lock::{lock, lock_open};

/// The version that an etcd binary reports, without a `v`.
pub fn etcd_version(etcd: &Path) -> Result<String> {
    let output = Command::new(etcd).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {}", etcd.display()))?;
    ensure!(output.status.success(), "{} --version: {}", etcd.display(), output.status);
    let text = String::from_utf8(output.stdout).context("etcd writes no text")?;
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    Ok(version.context("etcd does not print its version")?.to_owned())
}
