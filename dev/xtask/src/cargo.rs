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

/// What runs Cargo, in the repository, without what `cargo run` told us of our own package. Build scripts watch such variables (ring's does), and
/// all that builds on them is built anew when a Cargo that has them and one that has not come in turns.
pub fn outside(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let told = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_")
                || name.starts_with("CARGO_MANIFEST_")
                || name == "CARGO_CRATE_NAME"
        });
        if told {
            command.env_remove(name);
        }
    }
    command.current_dir(repo::root());
    command
}

/// Builds a program of a package of the workspace, silently. Cargo gives a dependency the features that all named packages
/// ask for: with these it has those that the tests want, and is built once for all.
pub fn build(package: &str, program: &str) -> Result<()> {
    let mut build = command();
    build.args(["build", "--quiet", "--package", package, "--package", "quorate", "--package", "rig"]);
    build.args(["--bin", program]);
    children::run(&mut build)
}
