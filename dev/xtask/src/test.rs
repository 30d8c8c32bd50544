//! `cargo xtask test [TIER]`: every tier of tests that CI runs, or one, with a closing line for each.
//!
//! - [`tiers`]: the table of tiers and their budgets
//! - [`full`]: the table of what only `--full` runs
//! - [`lint`], [`docs`], [`layers`], [`kube`], [`quick`]: what each tier does
//! - [`built`]: the tests and the programs that they start, built once
//! - [`nextest`]: a run of tests, and the command that repeats the failed ones
//! - [`proofs`]: what passed before on the same inputs, and is not run again
//! - [`beside`]: what a whole run does in the background
//! - [`report`]: the closing lines
//! - [`times`], [`usage`]: how long tiers and tests took, and what the processors did meanwhile

mod beside;
mod built;
mod docs;
mod full;
mod kube;
mod layers;
mod lint;
mod nextest;
mod proofs;
mod quick;
mod report;
mod tiers;
mod times;
mod usage;

use std::cell::OnceCell;
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use beside::{Beside, Lane};
use built::Built;
use report::Report;
pub use report::Skipped;
use tiers::Tier;
use times::Times;
use usage::Usage;

use crate::crates;

/// The limit of a whole run, so that it ends by itself and cleans up. A test that hangs is ended long before, by its
/// profile.
const LIMIT: Duration = Duration::from_mins(84);

/// The arguments of `cargo xtask test`.
#[derive(Args)]
pub struct Arguments {
    /// One tier; without it, all that CI runs
    #[arg(value_enum)]
    tier: Option<Tier>,
    /// Also run what CI does not repeat for each commit; docs/testing.md lists it
    #[arg(long)]
    full: bool,
    /// Run the tier on this minor version of etcd only
    #[arg(long, value_name = "MINOR", value_parser = ["3.5", "3.6", "3.7"], requires = "tier")]
    etcd: Option<String>,
    /// Print how long the tiers and the slowest tests of the last run took, and run nothing
    #[arg(long, conflicts_with_all = ["tier", "full"])]
    times: bool,
    /// What a whole run does in the background
    #[arg(long, hide = true, value_enum, value_name = "LANE", conflicts_with = "tier")]
    beside: Option<Lane>,
    /// Run a part of the tier: names of checks (lint, docs), or arguments of `cargo nextest run`
    #[arg(last = true, requires = "tier", value_name = "CHECK|NEXTEST_ARG")]
    only: Vec<String>,
}

/// What every tier of a run needs to know.
struct Context {
    /// When the run is ended.
    until: Instant,
    full: bool,
    /// The one minor version of etcd to run on.
    etcd: Option<String>,
    /// The part of the tier to run; all of it if empty.
    only: Vec<String>,
    /// Whether the images for Kubernetes were built by this run.
    prepared: bool,
    /// Whether the kube tier of this run follows, so that what it runs can be left to it.
    kube_follows: bool,
    /// The tests, once a tier needed them.
    built: OnceCell<Built>,
}

impl Context {
    /// Of a run that has done nothing yet.
    fn new(full: bool, etcd: Option<String>, only: Vec<String>) -> Self {
        let until = Instant::now() + LIMIT;
        Self { until, full, etcd, only, prepared: false, kube_follows: false, built: OnceCell::new() }
    }

    /// The tests, built.
    fn built(&self) -> Result<&Built> {
        if self.built.get().is_none() {
            let _ = self.built.set(Built::build()?);
        }
        Ok(self.built.get().expect("it was just set"))
    }

    /// The command that runs this part of the tier again.
    fn command(&self, tier: Tier, etcd: Option<&str>, only: &[String]) -> String {
        let mut words = vec!["cargo xtask test".to_owned(), tier.name()];
        words.extend(self.full.then(|| "--full".to_owned()));
        words.extend(etcd.map(|minor| format!("--etcd {minor}")));
        words.extend((!only.is_empty()).then(|| "--".to_owned()));
        let is_plain = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./:".contains(c));
        words.extend(only.iter().map(|word| if is_plain(word) { word.clone() } else { format!("'{word}'") }));
        words.join(" ")
    }
}

/// Runs what was asked for; fails if a tier fails.
pub fn run(arguments: Arguments) -> Result<()> {
    let Arguments { tier, full, etcd, times, beside, only } = arguments;
    if times {
        // Whoever reads it may have seen enough, such as `head`.
        let _ = std::io::stdout().write_all(times::table()?.as_bytes());
        return Ok(());
    }
    crates::fetch();
    let mut context = Context::new(full, etcd, only);
    let mut report = Report::default();
    match (beside, tier) {
        (Some(lane), _) => {
            if lane == Lane::Prepare {
                kube::prepare(full)?;
            } else {
                let _ = context.built.set(Built::before()?);
            }
            for tier in lane.tiers() {
                report.run(*tier, &context);
            }
        }
        (None, Some(tier)) => report.run(tier, &context),
        (None, None) => whole(&mut report, &mut context)?,
    }
    report.end()
}

/// Writes the parts of the pages that are generated from the tests.
pub fn write_docs() -> Result<()> {
    docs::write()
}

/// Every tier. What fails fast comes first. What mostly waits then shares the machine with what mostly computes.
fn whole(report: &mut Report, context: &mut Context) -> Result<()> {
    let (start, usage, full) = (Instant::now(), Usage::now(), context.full);
    if full {
        full::print();
    }
    for tier in [Tier::Lint, Tier::Unit] {
        report.run(tier, context);
    }
    // Without its tests nothing else runs, and the closing line of the unit tier says why.
    if context.built.get().is_some() {
        with_tests(report, context)?;
    }
    let times = Times::new(start.elapsed(), Usage::now() - usage, Vec::new());
    report.close(&times, tiers::whole(full));
    Ok(())
}

/// The tiers after the unit tier, which built the tests.
fn with_tests(report: &mut Report, context: &mut Context) -> Result<()> {
    let (full, until) = (context.full, context.until);
    // Before anything runs beside: it installs packages that are missing.
    context.kube_follows = kube::obstacle()?.is_none();
    let prepare = Beside::start(Lane::Prepare, full)?;
    // No tier waits for the computations, so they begin when the images are built.
    let compute = thread::spawn(move || {
        let prepared = prepare.join(until).map(|(_, ok)| ok);
        (prepared, Beside::start(Lane::Compute, full))
    });
    if full {
        report.run(Tier::Shell, context);
    }
    report.run(Tier::Etcd, context);
    let (prepared, compute) = compute.join().expect("waiting for a process does not panic");
    // The tier that needs the images builds them again, and reports why they cannot be built.
    context.prepared = prepared.unwrap_or_else(|error| {
        eprintln!("not prepared: {error:#}");
        false
    });
    report.run(Tier::Kube, context);
    report.join(compute?, until);
    Ok(())
}
