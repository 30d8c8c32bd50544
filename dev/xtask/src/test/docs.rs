//! The docs tier: the pages agree with the code.

mod alerts;
mod behaviours;
mod commands;
mod hazards;
mod links;
mod markdown;
mod permissions;
mod promql;
mod rounds;
mod rules;
mod steps;

use anyhow::Result;

use super::Context;
use super::report::{Check, Verdict, checks};
use super::tiers::Tier;
use crate::{cargo, children, crds};

/// Runs the checks.
pub fn run(context: &Context) -> Result<Verdict> {
    checks(
        Tier::Docs,
        context,
        &[
            Check { name: "links", run: links::check },
            Check { name: "hazards", run: hazards::check },
            Check { name: "steps", run: steps::check },
            Check { name: "crds", run: crds::drift },
            Check { name: "alerts", run: alerts::check },
            Check { name: "rules", run: rules::check },
            Check { name: "permissions", run: permissions::check },
            Check { name: "commands", run: commands::check },
            Check { name: "behaviours", run: behaviours::check },
            Check { name: "rounds", run: rounds::check },
            Check { name: "rustdoc", run: rustdoc },
        ],
    )
}

/// Those that take no second, and that a change of a test's name or of a page breaks.
pub const QUICK: [Check; 6] = [
    Check { name: "links", run: links::check },
    Check { name: "hazards", run: hazards::check },
    Check { name: "steps", run: steps::check },
    Check { name: "permissions", run: permissions::check },
    Check { name: "behaviours", run: behaviours::check },
    Check { name: "rounds", run: rounds::check },
];

/// Writes the parts that are generated.
pub fn write() -> Result<()> {
    behaviours::write()?;
    rounds::write()
}

fn rustdoc() -> Result<Vec<String>> {
    let mut doc = cargo::command();
    // With all features, as clippy: so dependencies that clippy checked are not checked again.
    doc.args(["doc", "--quiet", "--workspace", "--all-features", "--no-deps", "--document-private-items"]);
    children::run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Vec::new())
}
