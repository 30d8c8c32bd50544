//! Cargo's helpers that a fresh machine does not have, built by Cargo into the per-user cache.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::cache::Entry;
use crate::{cargo, children};

/// A program to install, at a version.
struct Program {
    name: &'static str,
    version: &'static str,
    features: &'static [&'static str],
}

/// Runs tests: each in a process of its own, with a time limit.
const NEXTEST: Program = Program {
    name: "cargo-nextest",
    version: "0.9.151",
    // Without self-updates and probes for tracers, which are a good part of the build.
    features: &["--no-default-features"],
};

/// Checks dependencies: licences, sources, bans.
const DENY: Program = Program { name: "cargo-deny", version: "0.20.2", features: &[] };

/// Finds unused dependencies.
const MACHETE: Program = Program { name: "cargo-machete", version: "0.9.2", features: &[] };

/// Builds those that the cache does not have. Their number.
pub fn build() -> Result<usize> {
    let missing: Vec<&Program> =
        [&NEXTEST, &DENY, &MACHETE].into_iter().filter(|one| !one.entry().exists()).collect();
    for program in &missing {
        program.installed()?;
    }
    Ok(missing.len())
}

/// `cargo nextest`, ready for its arguments.
pub fn nextest() -> Result<Command> {
    let mut command = cargo::outside(Command::new(NEXTEST.installed()?));
    command.arg("nextest");
    Ok(command)
}

/// `cargo machete`, ready for its arguments.
pub fn machete() -> Result<Command> {
    Ok(cargo::outside(Command::new(MACHETE.installed()?)))
}

/// `cargo deny`, ready for its arguments.
pub fn deny() -> Result<Command> {
    Ok(cargo::outside(Command::new(DENY.installed()?)))
}

impl Program {
    fn entry(&self) -> Entry {
        Entry::of(self.name, self.version, &self.features.join(" "))
    }

    fn installed(&self) -> Result<PathBuf> {
        let Self { name, version, features } = *self;
        self.entry().get(|scratch| {
            let start = Instant::now();
            eprintln!("building {name} {version}, a few minutes, once for all clones on this machine");
            let mut install = cargo::command();
            install.args(["install", "--quiet", "--locked", name, "--version", version]).args(features);
            install.arg("--root").arg(scratch).arg("--target-dir").arg(scratch.join("target"));
            // Unoptimised: it runs for seconds, and optimising it takes minutes.
            install.arg("--debug").env("CARGO_PROFILE_DEV_DEBUG", "0");
            // It runs in the repository, so it uses the repository's toolchain.
            children::run(&mut install)?;
            eprintln!("built {name} in {} s", start.elapsed().as_secs());
            Ok(scratch.join("bin").join(name))
        })
    }
}
