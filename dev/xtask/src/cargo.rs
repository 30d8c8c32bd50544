//! How Cargo is called: in one environment and with one set of features, so that nothing is built twice.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::Result;

use crate::{children, repo};

/// Set by [`use_programs_of_tests`].
static OF_TESTS: OnceLock<PathBuf> = OnceLock::new();

/// Cargo itself, in the repository.
pub fn command() -> Command {
    let cargo = std::env::var_os("CARGO");
    outside(Command::new(cargo.as_deref().unwrap_or_else(|| OsStr::new("cargo"))))
}

/// The compiler, in its own words: version, commit, platform.
pub fn compiler() -> Result<String> {
    children::output(Command::new("rustc").arg("-vV").current_dir(repo::root()))
}

/// A command in the repository, without the variables that `cargo run` sets for xtask's own package. Build scripts watch such
/// variables (ring's does): if one Cargo has them and the next does not, everything that depends on ring is built again.
pub fn outside(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let own = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "CARGO_CRATE_NAME"
        });
        if own {
            command.env_remove(name);
        }
    }
    command.current_dir(repo::root());
    command
}

/// From now on, [`program`] returns the programs in this folder, which were built with the tests, and does not call Cargo: it
/// would wait for its lock, or build them once more with other features.
pub fn use_programs_of_tests(folder: PathBuf) {
    let _ = OF_TESTS.set(folder);
}

/// Runs a build and shows what matters: warnings, errors, and that it waits for the lock of another Cargo. Calls `compiles` before the
/// first crate is compiled.
pub fn run_silently(command: &mut Command, compiles: impl FnOnce()) -> Result<()> {
    let mut compiles = Some(compiles);
    children::run_with_stderr(command, |line| {
        let status = line.split_whitespace().next().filter(|_| line.starts_with(' '));
        match status {
            Some("Compiling") => {
                if let Some(compiles) = compiles.take() {
                    compiles();
                }
            }
            Some("Finished" | "Downloading" | "Downloaded" | "Updating" | "Locking" | "Adding") => {}
            _ => eprintln!("{line}"),
        }
    })
}

/// The path of a program of the workspace. It is built, silently, unless the tests' build has made it.
pub fn program(package: &str, name: &str) -> Result<PathBuf> {
    if let Some(program) = OF_TESTS.get().map(|folder| folder.join(name)).filter(|program| program.exists()) {
        return Ok(program);
    }
    let mut build = command();
    build.args(["build", "--profile", "test", "--package", package, "--bin", name]);
    run_silently(&mut build, || {})?;
    Ok(repo::target().join("debug").join(name))
}
