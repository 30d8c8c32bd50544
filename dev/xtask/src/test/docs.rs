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
mod section;
mod steps;

use anyhow::Result;

use super::Context;
use super::report::{Check, Verdict, checks};
use super::tiers::Tier;
use crate::{cargo, children, crds};

const LINKS: Check = Check { name: "links", run: links::check };
const HAZARDS: Check = Check { name: "hazards", run: hazards::check };
const STEPS: Check = Check { name: "steps", run: steps::check };
const CRDS: Check = Check { name: "crds", run: crds::drift };
const ALERTS: Check = Check { name: "alerts", run: alerts::check };
const RULES: Check = Check { name: "rules", run: rules::check };
const PERMISSIONS: Check = Check { name: "permissions", run: permissions::check };
const COMMANDS: Check = Check { name: "commands", run: commands::check };
const BEHAVIOURS: Check = Check { name: "behaviours", run: || behaviours::SECTION.check() };
const ROUNDS: Check = Check { name: "rounds", run: || rounds::SECTION.check() };
const RUSTDOC: Check = Check { name: "rustdoc", run: rustdoc };

/// Those that take no second, and that a change of a test's name or of a page breaks.
pub const QUICK: [Check; 6] = [LINKS, HAZARDS, STEPS, PERMISSIONS, BEHAVIOURS, ROUNDS];

/// Runs the checks.
pub fn run(context: &Context) -> Result<Verdict> {
    let all =
        [LINKS, HAZARDS, STEPS, CRDS, ALERTS, RULES, PERMISSIONS, COMMANDS, BEHAVIOURS, ROUNDS, RUSTDOC];
    checks(Tier::Docs, context, &all)
}

/// Writes the parts that are generated.
pub fn write() -> Result<()> {
    behaviours::SECTION.write()?;
    rounds::SECTION.write()
}

fn rustdoc() -> Result<Vec<String>> {
    let mut doc = cargo::command();
    // With all features, as clippy: so dependencies that clippy checked are not checked again.
    doc.args(["doc", "--quiet", "--workspace", "--all-features", "--no-deps", "--document-private-items"]);
    children::run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Vec::new())
}
