//! Programs of images for tests in the per-user cache, by what they were built from: the commit before is built only if no run of
//! this machine has built it, and a commit that was built is not built again.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cache::{self, Entry};
use crate::{cargo, children, repo};

/// What the program is built from, besides [`RECIPE`] and the compiler.
const SOURCES: [&str; 4] = ["crates", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"];

/// How it is built.
const RECIPE: &str = include_str!("program.rs");

/// How many are kept, of some 60 MiB each.
const KEPT: usize = 6;

/// The label of these programs in the cache.
const LABEL: &str = "image-test";

/// The program of a commit; `build` makes it unless a run of this machine has.
pub fn program(commit: &str, build: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let entry = Entry::of("quorate", LABEL, &recipe(commit)?);
    let file = entry.get(|scratch| -> Result<PathBuf> {
        let file = scratch.join("quorate");
        fs::write(&file, build()?).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    })?;
    let program = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    cache::remove_old(file.parent().context("it lies in a folder")?, &format!("quorate-{LABEL}-"), KEPT)?;
    Ok(program)
}

/// The commit of the work tree, if nothing that the program is built from differs from it.
pub fn clean_commit() -> Option<&'static str> {
    let mut status = repo::git();
    status.args(["status", "--porcelain", "--untracked-files=all", "--"]).args(SOURCES);
    let changes = children::output(&mut status).ok()?;
    changes.trim().is_empty().then_some("HEAD")
}

/// Everything that shapes the program of a commit.
fn recipe(commit: &str) -> Result<String> {
    let mut recipe = RECIPE.to_owned() + &cargo::compiler()?;
    for place in SOURCES {
        let name = format!("{commit}:{place}");
        recipe += &children::output(repo::git().args(["rev-parse", "--verify", "--quiet", &name]))?;
    }
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_of_a_program_has_the_tree_of_its_sources() {
        // Of a shallow clone only the newest commit is known.
        let tree = children::output(repo::git().args(["rev-parse", "HEAD:crates"])).unwrap();
        assert!(recipe("HEAD").unwrap().contains(&tree));
        assert!(recipe("no-such-commit").is_err());
    }
}
