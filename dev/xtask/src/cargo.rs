//! How Cargo is called: in one environment and with one set of features, so that nothing is built twice.

use std::ffi::OsStr;
use std::process::Command;

use anyhow::Result;

use crate::{children, repo};

/// Cargo itself, in the repository.
pub fn command() -> Command {
    let cargo = std::env::var_os("CARGO");
    outside(Command::new(cargo.as_deref().unwrap_or_else(|| OsStr::new("cargo"))))
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

/// Builds a program of a package of the workspace, silently. Cargo builds a dependency with the features that all named packages
/// ask for. With these packages the features are those of the tests, so nothing is built twice.
pub fn build(package: &str, program: &str) -> Result<()> {
    children::run(build_command(package, program).arg("--quiet"))
}

/// The same, with cargo's progress on stderr: the first build takes minutes.
pub fn build_with_progress(package: &str, program: &str) -> Result<()> {
    children::run(&mut build_command(package, program))
}

fn build_command(package: &str, program: &str) -> Command {
    let mut build = command();
    build.args(["build", "--package", package, "--package", "quorate", "--package", "rig", "--bin", program]);
    build
}
