//! Cargo's helpers that a fresh machine does not have, installed by cargo into the target folder.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::{cargo, children, repo};

/// A program to install, at a version.
struct Program {
    name: &'static str,
    version: &'static str,
    features: &'static [&'static str],
}

/// Runs tests: a process each, a time limit each.
const NEXTEST: Program = Program {
    name: "cargo-nextest",
    version: "0.9.151",
    // Without its own updates and its probes for tracers, which are a good part of the build.
    features: &["--no-default-features"],
};

/// Judges dependencies: licences, sources, bans.
const DENY: Program = Program { name: "cargo-deny", version: "0.20.2", features: &[] };

/// `cargo nextest`, ready for its arguments.
pub fn nextest() -> Result<Command> {
    let mut command = cargo::outside(Command::new(NEXTEST.installed()?));
    command.arg("nextest");
    Ok(command)
}

/// `cargo deny`, ready for its arguments.
pub fn deny() -> Result<Command> {
    Ok(cargo::outside(Command::new(DENY.installed()?)))
}

impl Program {
    fn installed(&self) -> Result<PathBuf> {
        let root = repo::tools().join(format!("{}-{}", self.name, self.version));
        let program = root.join("bin").join(self.name);
        if program.is_file() {
            return Ok(program);
        }
        let start = Instant::now();
        eprintln!("installing {} {}, a few minutes, once", self.name, self.version);
        let build = root.join("build");
        let mut install = cargo::command();
        install
            .args(["install", "--quiet", "--locked", self.name, "--version", self.version])
            .args(self.features);
        install.arg("--root").arg(&root).arg("--target-dir").arg(&build);
        // Unoptimised: it runs for seconds and would be optimised for minutes.
        install.arg("--debug").env("CARGO_PROFILE_DEV_DEBUG", "0");
        // With the toolchain of the repository, where it is called, also when that is not the default one.
        children::run(&mut install)?;
        // It is built once; the leftovers are large.
        std::fs::remove_dir_all(&build)?;
        eprintln!("installed {} in {} s", self.name, start.elapsed().as_secs());
        Ok(program)
    }
}
