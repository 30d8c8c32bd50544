//! `cargo xtask replay` and `cargo xtask soak`: hand over to the program of the simulation.

use std::os::unix::process::CommandExt;

use anyhow::{Context, Result};

use crate::cargo;

/// Builds it and becomes it; does not return when that succeeds.
pub fn call(command: &str, args: &[String]) -> Result<()> {
    let mut sim = std::process::Command::new(cargo::program("quorate-sim", "sim")?);
    Err(sim.arg(command).args(args).exec()).with_context(|| format!("cannot run {sim:?}"))
}
