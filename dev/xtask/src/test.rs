//! `cargo xtask test [TIER]`: everything CI runs, with one closing line a tier.

mod beside;
mod docs;
mod kube;
mod layers;
mod lint;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

use beside::Beside;
pub use beside::Lane;

/// For all tiers together, so that a run ends by itself and cleans up before whoever started it loses patience. A test
/// that hangs is ended long before, by its profile.
const BUDGET: Duration = Duration::from_mins(84);

/// What can be run by itself. In the order of a full run: what fails fast comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tier {
    /// Format, clippy, licences, dependency arrows, length of files
    Lint,
    /// Everything that needs no process beside the test
    Unit,
    /// Links, hazards, commands and CRDs are what the code says
    Docs,
    /// Every history of small scopes, in a world where everything goes wrong
    Explore,
    /// Histories by lot, and each safety check taken away once
    Random,
    /// The operator killed at every numbered step
    Shell,
    /// Behaviours on real etcd 3.5, 3.6 and 3.7
    Etcd,
    /// The same on a real Kubernetes of this machine, where it can hold one (root, cgroups, namespaces)
    Kube,
}

/// How a tier ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    Failed,
    /// This machine cannot do it, which is said and is no failure.
    Skipped,
}

/// How a tier ended, in the words of its closing line.
struct Verdict {
    state: State,
    what: String,
}

/// Runs one tier, or all; fails if one fails.
pub fn run(tier: Option<Tier>) -> Result<()> {
    let until = Instant::now() + BUDGET;
    let mut report = Report::default();
    match tier {
        Some(tier) => report.run(tier, until, false),
        None => whole(&mut report, until)?,
    }
    report.end()
}

/// What a whole run does beside the tiers that mostly wait.
pub fn run_beside(lane: Lane) -> Result<()> {
    let until = Instant::now() + BUDGET;
    let mut report = Report::default();
    if lane == Lane::Prepare {
        kube::prepare()?;
    }
    for tier in lane.tiers() {
        report.run(*tier, until, false);
    }
    report.end()
}

fn whole(report: &mut Report, until: Instant) -> Result<()> {
    // What fails fast comes first, and everything is built then.
    for tier in [Tier::Lint, Tier::Unit] {
        report.run(tier, until, false);
    }
    let prepare = Beside::start(Lane::Prepare)?;
    for tier in [Tier::Docs, Tier::Shell, Tier::Etcd] {
        report.run(tier, until, false);
    }
    // What could not be prepared is tried again, and said, by the tier that needs it.
    let prepared = prepare.join(until).inspect_err(|error| eprintln!("not prepared: {error:#}"));
    // Not before: nothing waits for it, and the tier that comes now leaves much of the machine to others.
    let compute = Beside::start(Lane::Compute)?;
    report.run(Tier::Kube, until, prepared.is_ok_and(|(_, ok)| ok));
    match compute.join(until) {
        Ok((lines, ok)) => {
            report.ok &= ok;
            report.lines.extend(lines);
        }
        Err(error) => {
            report.ok = false;
            report.lines.push(format!("beside FAILED {error:#}"));
        }
    }
    Ok(())
}

/// The closing lines so far.
struct Report {
    lines: Vec<String>,
    ok: bool,
}

impl Default for Report {
    fn default() -> Self {
        Self { lines: Vec::new(), ok: true }
    }
}

impl Report {
    fn run(&mut self, tier: Tier, until: Instant, prepared: bool) {
        eprintln!("\n=== {}", tier.name());
        let start = Instant::now();
        let verdict = tier.run(until, prepared).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            Verdict { state: State::Failed, what: "did not run to its end".to_owned() }
        });
        self.ok &= verdict.state != State::Failed;
        let took = start.elapsed().as_secs();
        let line = format!("{:7} {:7} {} in {took} s", tier.name(), verdict.state.word(), verdict.what);
        eprintln!("=== {line}");
        self.lines.push(line);
    }

    fn end(self) -> Result<()> {
        println!("\n{}", self.lines.join("\n"));
        if self.ok { Ok(()) } else { bail!("not every tier is ok") }
    }
}

impl Tier {
    fn name(self) -> String {
        self.to_possible_value().expect("no tier is skipped").get_name().to_owned()
    }

    fn run(self, until: Instant, prepared: bool) -> Result<Verdict> {
        match self {
            Self::Lint => Ok(lint::run()),
            Self::Unit => layers::unit(until),
            Self::Docs => Ok(docs::run()),
            Self::Shell => layers::shell(until),
            Self::Etcd => layers::etcd(until),
            Self::Explore => layers::compute("explore", until),
            Self::Random => layers::compute("random", until),
            Self::Kube => kube::run(until, prepared),
        }
    }
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Skipped => "SKIPPED",
        }
    }
}

/// One check of a tier that has several: faults it found, a line each.
struct Check {
    name: &'static str,
    run: fn() -> Result<Vec<String>>,
}

/// Runs all checks, also after one that fails.
fn checks(checks: &[Check]) -> Verdict {
    let mut failed = Vec::new();
    for check in checks {
        let start = Instant::now();
        let faults = (check.run)().unwrap_or_else(|error| vec![format!("{error:#}")]);
        let took = start.elapsed().as_secs();
        eprintln!("{} {} ({took} s)", if faults.is_empty() { "  ok    " } else { "  FAILED" }, check.name);
        for fault in &faults {
            eprintln!("    {fault}");
        }
        if !faults.is_empty() {
            failed.push(check.name);
        }
    }
    let count = checks.len();
    if failed.is_empty() {
        return Verdict { state: State::Ok, what: format!("{count} checks") };
    }
    Verdict {
        state: State::Failed,
        what: format!("{} of {count} checks ({})", failed.len(), failed.join(", ")),
    }
}
