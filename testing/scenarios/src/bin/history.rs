//! `cargo xtask history FILE`: the verdict on a history that a test kept, once more.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use quorate_scenarios::history::History;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let file = PathBuf::from(std::env::args_os().nth(1).context("usage: cargo xtask history FILE")?);
    let history = History::read(&file)?;
    let drawing = file.with_extension("html");
    let verdict = history.judge(Some(&drawing));
    if verdict.is_err() && drawing.exists() {
        println!("its calls are drawn in {}", drawing.display());
    }
    verdict?;
    let events: usize = history.watches.iter().map(|watch| watch.events.len()).sum();
    let (calls, watches) = (history.operations.len(), history.watches.len());
    println!("linearizable: {calls} calls; {events} events of {watches} watches");
    Ok(())
}
