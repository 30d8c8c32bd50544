//! The docs tier: what is written is what is there.

mod commands;
mod hazards;
mod links;
mod markdown;
mod steps;

use anyhow::Result;

use super::{Check, Verdict, checks};
use crate::{cargo, children, crds};

/// Runs every check.
pub fn run() -> Verdict {
    checks(&[
        Check { name: "links and anchors", run: links::check },
        Check { name: "hazards and their tests", run: hazards::check },
        Check { name: "steps of the protocols", run: steps::check },
        Check { name: "CRDs", run: crds::drift },
        Check { name: "commands in the README", run: commands::check },
        Check { name: "rustdoc", run: rustdoc },
    ])
}

fn rustdoc() -> Result<Vec<String>> {
    let mut doc = cargo::command();
    // All features, as clippy has: what it checked of the dependencies serves here as well.
    doc.args(["doc", "--quiet", "--workspace", "--all-features", "--no-deps", "--document-private-items"]);
    children::run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Vec::new())
}
