//! The lint tier: what can be judged without running anything.

mod arrows;
mod length;
mod words;

use anyhow::{Result, ensure};

use super::{Check, Verdict, checks};
use crate::tools::helpers;
use crate::{cargo, children};

/// Runs every check.
pub fn run() -> Verdict {
    checks(&[
        Check { name: "format", run: format },
        Check { name: "words", run: words::check },
        Check { name: "length of files", run: length::check },
        Check { name: "arrows between crates", run: arrows::check },
        Check { name: "dependencies (cargo deny)", run: deny },
        Check { name: "clippy", run: clippy },
        Check { name: "quorate without the playground", run: arrows::image },
    ])
}

fn format() -> Result<Vec<String>> {
    checked(&["fmt", "--all", "--check"])
}

fn clippy() -> Result<Vec<String>> {
    checked(&["clippy", "--quiet", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
}

/// Advisories come and go without a change of ours, so they are no part of this: `cargo deny check advisories`.
fn deny() -> Result<Vec<String>> {
    let status = helpers::deny()?
        .args(["--workspace", "--all-features", "--locked", "--log-level", "error"])
        .args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
        .status()?;
    ensure!(status.success(), "refused, see above");
    Ok(Vec::new())
}

/// A cargo command that shows its faults itself.
fn checked(args: &[&str]) -> Result<Vec<String>> {
    children::run(cargo::command().args(args))?;
    Ok(Vec::new())
}
