//! Calls of short programs, and the paths of the programs that `cargo xtask tools` builds.

use std::env;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// A program that `cargo xtask tools` builds.
pub fn binary(name: &str) -> PathBuf {
    env::var_os("QUORATE_TOOLS_BIN_DIR").map(PathBuf::from).unwrap_or_default().join(name)
}

/// Fails unless this was started by `cargo xtask kube`, which sets the path of the tools.
pub fn check() -> Result<()> {
    ensure!(env::var_os("QUORATE_TOOLS_BIN_DIR").is_some(), "run this through `cargo xtask kube`");
    Ok(())
}

/// Runs a command and returns its output; an error has its stderr.
pub fn call(words: &[&str]) -> Result<String> {
    feed(words, "")
}

/// As [`call`], with this on its stdin.
pub fn feed(words: &[&str], input: &str) -> Result<String> {
    let (program, args) = words.split_first().context("a command has a first word")?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {program}: is it installed?"))?;
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    // A program that does not read all of it reports that by its status.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().with_context(|| format!("cannot run {program}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{}` failed: {}", words.join(" "), stderr.trim_end());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
