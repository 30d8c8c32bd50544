//! The tiers that run tests without Kubernetes. `.config/nextest.toml` assigns each test to a tier: a profile each.

use anyhow::Result;

use super::Context;
use super::full::{HISTORIES_CI, HISTORIES_FULL, LIFE_CI, LIFE_FULL, WHOLE_CI, WHOLE_FULL};
use super::nextest::Results;
use super::report::{Skipped, Verdict};
use super::tiers::Tier;
use crate::tools;

/// Tests that start no process.
pub fn unit(context: &Context) -> Result<Verdict> {
    let mut results = Results::default();
    results.run(context, "unit", None, &[])?;
    Ok(results.verdict(Tier::Unit, context))
}

/// Whole lives of clusters under the operator in process.
pub fn crash(context: &Context) -> Result<Verdict> {
    let mut results = Results::default();
    results.run(context, "crash", None, &[])?;
    Ok(results.verdict(Tier::Crash, context))
}

/// The simulation: every history of small scopes.
pub fn explore(context: &Context) -> Result<Verdict> {
    let mut results = Results::default();
    results.run(context, if context.full { "explore-full" } else { "explore" }, None, &[])?;
    Ok(results.verdict(Tier::Explore, context))
}

/// The simulation: random histories, and each safety check taken away once.
pub fn random(context: &Context) -> Result<Verdict> {
    let mut results = Results::default();
    let histories = if context.full { HISTORIES_FULL } else { HISTORIES_CI };
    // A number from outside counts.
    let histories = std::env::var("QUORATE_TEST_HISTORIES").unwrap_or_else(|_| histories.to_string());
    results.run(context, "random", None, &[("QUORATE_TEST_HISTORIES", histories.into())])?;
    Ok(results.verdict(Tier::Random, context))
}

/// The operator is killed at the steps of its protocols and started again.
pub fn shell(context: &Context) -> Result<Verdict> {
    let mut results = Results::default();
    tools::build_missing()?;
    results.run(context, "shell", Some(context.etcd.as_deref().unwrap_or(WHOLE_CI[0])), &[])?;
    Ok(results.verdict(Tier::Shell, context))
}

/// The etcd port and the agent on every minor version, then clusters in the playground.
pub fn etcd(context: &Context) -> Result<Verdict> {
    let mut results = Results::default();
    tools::build_missing()?;
    tools::build(tools::Set::S3)?;
    if context.full {
        have_prometheus()?;
    }
    // The tests of the port start every version by themselves.
    if context.etcd.is_none() {
        if context.full {
            tools::build(tools::Set::Azure)?;
        }
        results.run(context, if context.full { "port-full" } else { "port" }, None, &[])?;
    }
    // The behaviours that every world runs are left to a real Kubernetes, on the same version, if this run has one.
    let elsewhere = !context.full && context.kube_follows;
    let profile = match (context.full, elsewhere) {
        (true, _) => "etcd-full",
        (false, true) => "etcd-only",
        (false, false) => "etcd",
    };
    let (whole, life) = if context.full { (WHOLE_FULL, LIFE_FULL) } else { (WHOLE_CI, LIFE_CI) };
    let asked = |minor: &&&str| context.etcd.as_deref().is_none_or(|asked| asked == **minor);
    for minor in whole.iter().filter(asked) {
        results.run(context, profile, Some(minor), &[])?;
    }
    let profile = if context.full { "etcd-life-full" } else { "etcd-life" };
    for minor in life.iter().filter(asked) {
        results.run(context, profile, Some(minor), &[])?;
    }
    Ok(results.verdict(Tier::Etcd, context))
}

/// The test that needs it says that it is skipped, too.
fn have_prometheus() -> Result<()> {
    match tools::monitoring::install_servers() {
        Err(error) if error.is::<Skipped>() => {
            eprintln!("  SKIPPED alerts on a real Prometheus: {error:#}");
            Ok(())
        }
        other => other.map(drop),
    }
}
