//! The lint tier: what can be judged without running anything.

mod arrows;
mod binaries;
mod circles;
mod length;
pub(super) mod metadata;
mod sentences;
mod words;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Context;
use super::report::{Check, Verdict, checks};
use super::tiers::Tier;
use crate::tools::helpers;
use crate::{cargo, children};

/// The limit of one command.
const LIMIT: Duration = Duration::from_mins(30);

const FORMAT: Check = Check { name: "format", run: format };
const WORDS: Check = Check { name: "words", run: words::check };
const SENTENCES: Check = Check { name: "sentences", run: sentences::check };
const LENGTH: Check = Check { name: "length", run: length::check };
const ARROWS: Check = Check { name: "arrows", run: arrows::check };
const CIRCLES: Check = Check { name: "circles", run: circles::check };
const BINARIES: Check = Check { name: "test-binaries", run: binaries::check };
const DENY: Check = Check { name: "deny", run: deny };
const UNUSED: Check = Check { name: "unused-dependencies", run: unused };
const CLIPPY: Check = Check { name: "clippy", run: clippy };
const IMAGE: Check = Check { name: "image", run: arrows::image };

/// Those of the quick tier. Clippy checks again only what changed since it ran last.
pub const QUICK: [Check; 8] = [FORMAT, WORDS, SENTENCES, LENGTH, ARROWS, CIRCLES, BINARIES, CLIPPY];

/// Runs the checks.
pub fn run(context: &Context) -> Result<Verdict> {
    checks(
        Tier::Lint,
        context,
        &[FORMAT, WORDS, SENTENCES, LENGTH, ARROWS, CIRCLES, BINARIES, IMAGE, DENY, UNUSED, CLIPPY],
    )
}

fn format() -> Result<Vec<String>> {
    checked(&["fmt", "--all", "--check"])
}

fn clippy() -> Result<Vec<String>> {
    checked(&["clippy", "--quiet", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
}

/// Advisories change without a commit here, so they are checked separately: `cargo deny check advisories`.
fn deny() -> Result<Vec<String>> {
    let status = helpers::deny()?
        .args(["--workspace", "--all-features", "--locked", "--log-level", "error"])
        .args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
        .status()?;
    ensure!(status.success(), "refused, see above");
    Ok(Vec::new())
}

/// Dependencies in a Cargo.toml that no source file of its package names.
fn unused() -> Result<Vec<String>> {
    let mut machete = helpers::machete()?;
    let output = machete.args(["crates", "testing", "dev"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", text.trim());
    Ok(Vec::new())
}

/// A Cargo command that prints its faults itself; the first of them are in the closing lines too.
fn checked(args: &[&str]) -> Result<Vec<String>> {
    let end = children::watch(cargo::command().args(args), Instant::now() + LIMIT)?;
    if end.status.success() {
        return Ok(Vec::new());
    }
    let errors = children::errors(&end.stderr);
    Ok(if errors.is_empty() { vec![format!("cargo {} fails, see above", args[0])] } else { errors })
}
