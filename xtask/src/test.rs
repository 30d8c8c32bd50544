//! `cargo xtask test [TIER]`: everything CI runs, with one closing line a tier.

mod docs;
mod kube;
mod layers;
mod lint;
mod programs;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;

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
    let tiers = tier.map_or_else(|| Tier::value_variants().to_vec(), |tier| vec![tier]);
    let until = Instant::now() + BUDGET;
    let mut lines = Vec::new();
    let mut ok = true;
    for tier in tiers {
        eprintln!("\n=== {}", tier.name());
        let start = Instant::now();
        let verdict = tier.run(until).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            Verdict { state: State::Failed, what: "did not run to its end".to_owned() }
        });
        ok &= verdict.state != State::Failed;
        let took = start.elapsed().as_secs();
        lines.push(format!("{:6} {:7} {} in {took} s", tier.name(), verdict.state.word(), verdict.what));
        eprintln!("=== {}", lines.last().expect("just pushed"));
    }
    println!("\n{}", lines.join("\n"));
    if ok { Ok(()) } else { bail!("not every tier is ok") }
}

impl Tier {
    fn name(self) -> String {
        self.to_possible_value().expect("no tier is skipped").get_name().to_owned()
    }

    fn run(self, until: Instant) -> Result<Verdict> {
        match self {
            Self::Lint => Ok(lint::run()),
            Self::Unit => layers::unit(until),
            Self::Docs => Ok(docs::run()),
            Self::Shell => layers::shell(until),
            Self::Etcd => layers::etcd(until),
            Self::Kube => kube::run(until),
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
