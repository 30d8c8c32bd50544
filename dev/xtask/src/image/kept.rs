//! Programs of images for tests in the per-user cache, by what they were built from: the commit before is built only if no run of
//! this machine has built it, and a commit that was built is not built again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::{cache, children, repo};

/// What the program is built from, besides [`RECIPE`] and the compiler.
const SOURCES: [&str; 4] = ["crates", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// How it is built.
const RECIPE: &str = include_str!("program.rs");

/// How many are kept, of some 60 MiB each.
const KEPT: usize = 6;

/// The program of a commit, if a run of this machine has built it.
pub fn get(commit: &str) -> Result<Option<Vec<u8>>> {
    let file = file(commit)?;
    if !file.exists() {
        return Ok(None);
    }
    let program = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Some(program))
}

/// Keeps the program of a commit.
pub fn put(commit: &str, program: &[u8]) -> Result<()> {
    let file = file(commit)?;
    let folder = file.parent().expect("it lies in a folder");
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let fresh = file.with_extension(format!("{}.new", std::process::id()));
    fs::write(&fresh, program).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::rename(&fresh, &file).with_context(|| format!("cannot create {}", file.display()))?;
    remove_old(folder)
}

/// The commit of the work tree, if nothing that the program is built from differs from it.
pub fn clean_commit() -> Option<String> {
    let mut status = git();
    status.args(["status", "--porcelain", "--untracked-files=all", "--"]).args(SOURCES);
    let changes = children::output(&mut status).ok()?;
    changes.trim().is_empty().then(|| "HEAD".to_owned())
}

fn file(commit: &str) -> Result<PathBuf> {
    let mut text = RECIPE.to_owned();
    for place in SOURCES {
        let name = format!("{commit}:{place}");
        text += &children::output(git().args(["rev-parse", "--verify", "--quiet", &name]))?;
    }
    text += &children::output(Command::new("rustc").arg("-vV").current_dir(repo::root()))?;
    let digest: String = Sha256::digest(text).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    Ok(cache::root().join("images").join(digest))
}

fn remove_old(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).context("cannot read the cache of images")?.flatten();
    let mut files: Vec<(SystemTime, PathBuf)> =
        entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    files.sort();
    for (_, file) in files.iter().take(files.len().saturating_sub(KEPT)) {
        fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(())
}

fn git() -> Command {
    let mut git = Command::new("git");
    git.current_dir(repo::root());
    git
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_with_the_same_sources_share_a_program_and_others_do_not() {
        // Of a shallow clone only the newest commit is known.
        let file = file("HEAD").unwrap();
        assert_eq!(file, super::file("HEAD").unwrap());
        assert!(super::file("no-such-commit").is_err());
        assert!(file.parent().unwrap().ends_with("images"));
    }
}
