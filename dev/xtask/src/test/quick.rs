//! The quick tier: what one runs while working. It shows most mistakes within minutes; CI runs more of everything.

use anyhow::Result;

use super::Context;
use super::docs;
use super::full::WHOLE_CI;
use super::lint;
use super::nextest::Results;
use super::report::{State, Verdict, checks};
use super::tiers::Tier;
use crate::tools;

/// Runs the cheap checks of lint and of the pages, then one run of tests: unit tests, a small exploration, one life of a cluster.
pub fn run(context: &Context) -> Result<Verdict> {
    // Arguments are for nextest alone.
    if context.only.is_empty() {
        for (tier, quick) in [(Tier::Lint, &lint::QUICK[..]), (Tier::Docs, &docs::QUICK[..])] {
            let verdict = checks(tier, context, quick)?;
            if verdict.state == State::Failed {
                return Ok(verdict);
            }
        }
    }
    tools::build_missing()?;
    let mut results = Results::default();
    results.run(context, "quick", Some(context.etcd.as_deref().unwrap_or(WHOLE_CI[0])), &[])?;
    Ok(results.verdict(Tier::Quick, context))
}
