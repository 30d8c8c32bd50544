//! The repository: where things are, which files it has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::children;

/// The workspace's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("xtask lies in dev/ of the workspace")
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// What xtask builds or installs for itself.
pub fn tools() -> PathBuf {
    target().join("tools")
}

/// The binaries: `etcd-3.6`, `etcdctl-3.6`, ..., `kubectl`, ...
pub fn tools_bin() -> PathBuf {
    tools().join("bin")
}

/// A path as it is seen from the root.
pub fn relative(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap_or(path)
}

/// Git, in the repository.
pub fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(root());
    git
}

/// The files that are or will be committed, as paths from the root.
pub fn files() -> Result<Vec<PathBuf>> {
    let mut git = git();
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = children::output(&mut git).context("the files of the repository are known by git")?;
    let mut files: Vec<PathBuf> = list.split_terminator('\0').map(PathBuf::from).collect();
    // A file that was deleted and not yet committed as such is still listed.
    files.retain(|file| root().join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

/// Those of [`files`] with this extension.
pub fn files_with(extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = files()?;
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    Ok(files)
}

/// The text of a file, by its path from the root.
pub fn read(file: &Path) -> Result<String> {
    fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {}", file.display()))
}
