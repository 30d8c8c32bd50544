//! Compiled crates of the registry, in the per-user cache: a second clone on the machine does not compile them again.
//!
//! Cargo itself decides what it can use: its fingerprint of a crate has the compiler, the profile, the features and everything below
//! the crate. The cache only brings files to the places where Cargo looks for them. What is compiled of this workspace stays out,
//! since Cargo names it the same in every clone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{cache, cargo, repo};

/// What the cache has for other versions of the dependencies is removed, but for the newest two.
const KEPT: usize = 2;

/// The packages of this workspace begin with these words, in names of packages and of their files.
const OURS: [&str; 4] = ["quorate", "xtask", "rig", "bench"];

/// Brings compiled crates into the target folder, once for each version of the dependencies. Best effort: without it everything
/// is compiled.
pub fn fetch() {
    if let Err(error) = fetch_into(&repo::target()) {
        eprintln!("warning: the cache of compiled crates is not used: {error:#}");
    }
}

/// Keeps what was compiled since. Best effort.
pub fn keep() {
    if let Err(error) = keep_from(&repo::target()) {
        eprintln!("warning: the cache of compiled crates is not filled: {error:#}");
    }
}

fn fetch_into(target: &Path) -> Result<()> {
    let cached = folder()?;
    let stamp = target.join("crates-fetched");
    let name = cached.display().to_string();
    if !cached.exists() || fs::read_to_string(&stamp).is_ok_and(|fetched| fetched == name) {
        return Ok(());
    }
    for profile in profiles(&cached) {
        transfer(&cached.join(&profile), &target.join(&profile))?;
    }
    fs::write(stamp, name).context("cannot record what was fetched")
}

fn keep_from(target: &Path) -> Result<()> {
    let cached = folder()?;
    for profile in profiles(target) {
        transfer(&target.join(&profile), &cached.join(&profile))?;
    }
    // This clone has all of it.
    fs::write(target.join("crates-fetched"), cached.display().to_string())?;
    cache::remove_old(&cached, "", KEPT)
}

/// The folder for this compiler and these dependencies.
fn folder() -> Result<PathBuf> {
    let made_of = format!("{}\n{}", cargo::compiler()?, repo::read(Path::new("Cargo.lock"))?);
    Ok(cache::root().join("crates").join(cache::digest(&made_of)))
}

/// The folders of Cargo's profiles below a target folder, also of other platforms.
fn profiles(target: &Path) -> Vec<PathBuf> {
    let folders = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let all = folders(target).into_iter().flat_map(|one| [folders(&one), vec![one]].concat());
    // What this program itself is made of is compiled before it can fetch anything.
    let ones = all.filter(|path| path.join(".fingerprint").is_dir() && !path.ends_with("xtask"));
    ones.filter_map(|path| path.strip_prefix(target).ok().map(Path::to_owned)).collect()
}

/// Transfers the crates that `to` does not have.
fn transfer(from: &Path, to: &Path) -> Result<()> {
    let mut new = BTreeSet::new();
    for kind in ["deps", "build", ".fingerprint"] {
        fs::create_dir_all(to.join(kind)).with_context(|| format!("cannot create {}", to.display()))?;
    }
    // A fingerprint comes last: without one, Cargo does not look at the rest.
    let fingerprints = names(&from.join(".fingerprint"));
    new.extend(
        fingerprints
            .into_iter()
            .filter(|name| !is_ours(name) && !to.join(".fingerprint").join(name).exists()),
    );
    if new.is_empty() {
        return Ok(());
    }
    for file in names(&from.join("deps")) {
        let library = file.strip_prefix("lib").filter(|name| !is_ours(name));
        let place = to.join("deps").join(&file);
        if library.is_some() && !place.exists() {
            // The compiler replaces such a file by another, and never writes into it.
            let source = from.join("deps").join(&file);
            if fs::hard_link(&source, &place).is_err() {
                copy(&source, &place)?;
            }
        }
    }
    for kind in ["build", ".fingerprint"] {
        for name in new.iter().filter(|name| from.join(kind).join(name).is_dir()) {
            let place = to.join(kind).join(name);
            if !place.exists() {
                copy(&from.join(kind).join(name), &place)?;
            }
        }
    }
    Ok(())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn is_ours(name: &str) -> bool {
    let rest = OURS.iter().find_map(|ours| name.strip_prefix(ours));
    rest.is_some_and(|rest| rest.starts_with(['-', '_', '.']))
}

/// Copies a file or a folder, with the times, by which Cargo sees what is newer.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let metadata = from.metadata().with_context(|| format!("cannot read {}", from.display()))?;
    if metadata.is_dir() {
        fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
        for name in names(from) {
            copy(&from.join(&name), &to.join(&name))?;
        }
    } else {
        fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
        let copied = fs::File::open(to).context("cannot open what was just copied")?;
        copied.set_modified(metadata.modified()?).context("cannot set the time of a file")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &Path) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "x").unwrap();
    }

    #[test]
    fn crates_of_the_registry_are_transferred_with_their_times_and_those_of_the_workspace_are_not() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let debug = from.path().join("debug");
        for file in [
            ".fingerprint/serde-12/lib-serde",
            ".fingerprint/quorate-api-34/lib-quorate_api",
            "build/serde-12/out/x",
            "deps/libserde-56.rlib",
            "deps/libquorate_api-78.rlib",
            "deps/main-90",
        ] {
            write(&debug.join(file));
        }
        assert_eq!(profiles(from.path()), [Path::new("debug")]);
        transfer(&debug, &to.path().join("debug")).unwrap();
        let there = |file: &str| to.path().join("debug").join(file).exists();
        assert!(there(".fingerprint/serde-12/lib-serde") && there("build/serde-12/out/x"));
        assert!(there("deps/libserde-56.rlib"));
        assert!(!there(".fingerprint/quorate-api-34") && !there("deps/libquorate_api-78.rlib"));
        assert!(!there("deps/main-90"));
        let time = |folder: &Path| {
            folder.join(".fingerprint/serde-12/lib-serde").metadata().unwrap().modified().unwrap()
        };
        assert_eq!(time(&debug), time(&to.path().join("debug")));
    }

    #[test]
    fn packages_of_the_workspace_are_known_by_their_names() {
        for name in ["quorate-1a", "quorate-api-1a", "quorate_api-1a.rlib", "xtask-1a", "rig-1a"] {
            assert!(is_ours(name), "{name}");
        }
        for name in ["rigid-1a", "serde-1a", "benchmarks-1a"] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
