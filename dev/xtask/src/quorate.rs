//! The `quorate` of the playground, as the dev profile has it: tests have one of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime};

use anyhow::Result;

use crate::progress::{self, Step};
use crate::{cargo, children, crates, repo};

/// The program, and whether it is up to date.
pub struct Quorate {
    program: PathBuf,
    step: Step,
    is_stale: bool,
}

impl Quorate {
    /// Compares it with its sources, as Cargo does.
    pub fn find() -> Self {
        let program = repo::target().join("debug/quorate");
        // After a change much less is compiled than the first time.
        let key = if program.exists() { "quorate again" } else { "quorate" };
        let is_stale = is_stale(&program);
        Self { program, step: Step::new("quorate", key, "a few minutes on two cores"), is_stale }
    }

    /// What will be built, if something will.
    pub fn step(&self) -> Option<&Step> {
        self.is_stale.then_some(&self.step)
    }

    /// Builds it. Its path.
    pub fn build(&self) -> Result<PathBuf> {
        let mut build = cargo::command();
        build.args(["build", "--package", "quorate", "--bin", "quorate"]);
        // Nobody debugs it, and most users build it once.
        build.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
        if self.is_stale {
            // With the progress of Cargo.
            self.timed(&mut build, children::run)?;
        } else {
            // Cargo may know better, such as after a change of the toolchain.
            let announce = || progress::announce([&self.step]);
            self.timed(&mut build, |build| cargo::run_silently(build, announce))?;
        }
        Ok(self.program.clone())
    }

    /// Remembers how long it took if a program was built.
    fn timed(&self, build: &mut Command, run: impl FnOnce(&mut Command) -> Result<()>) -> Result<()> {
        let (start, before) = (Instant::now(), modified(&self.program));
        run(build)?;
        if modified(&self.program) != before {
            self.step.took(start.elapsed());
            crates::keep();
        }
        Ok(())
    }
}

/// Whether a source in the list that Cargo writes beside the program is newer, or gone.
fn is_stale(program: &Path) -> bool {
    let Some(built) = modified(program) else { return true };
    let Ok(list) = fs::read_to_string(program.with_extension("d")) else { return true };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources);
    let is_newer = |changed: Option<SystemTime>| changed.is_none_or(|changed| changed > built);
    is_newer(modified(&repo::root().join("Cargo.lock")))
        || sources.split_whitespace().any(|source| is_newer(modified(Path::new(source))))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_its_sources_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let (program, source) = (folder.path().join("quorate"), folder.path().join("a.rs"));
        assert!(is_stale(&program));
        fs::write(&source, "").unwrap();
        fs::write(program.with_extension("d"), format!("{}: {}\n", program.display(), source.display()))
            .unwrap();
        fs::write(&program, "").unwrap();
        assert!(!is_stale(&program));
        fs::remove_file(source).unwrap();
        assert!(is_stale(&program));
    }
}
