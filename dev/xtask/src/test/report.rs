//! How a tier ended, and the closing lines.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::Context;
use super::beside::Beside;
use super::tiers::Tier;

/// The line before the closing lines.
pub const CLOSING: &str = "=== closing lines";

/// Whether a tier passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Ok,
    Failed,
    /// This machine cannot run it. That is reported, and is no failure.
    Skipped,
}

/// How a tier ended.
pub struct Verdict {
    /// Whether it passed.
    pub state: State,
    /// What ran, for the closing line.
    pub what: String,
    /// What failed, a line each.
    pub failed: Vec<String>,
    /// The command that runs just the failed part again.
    pub again: Option<String>,
}

impl Verdict {
    /// A verdict without failures.
    pub fn new(state: State, what: String) -> Self {
        Self { state, what, failed: Vec::new(), again: None }
    }
}

/// The closing lines so far.
pub struct Report {
    lines: Vec<String>,
    ok: bool,
}

impl Default for Report {
    fn default() -> Self {
        Self { lines: Vec::new(), ok: true }
    }
}

impl Report {
    /// Runs a tier.
    pub fn run(&mut self, tier: Tier, context: &Context) {
        eprintln!("\n=== {}", tier.name());
        let start = Instant::now();
        let verdict = tier.run(context).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            let failed = format!("{error:#}").lines().map(str::to_owned).collect();
            let again = Some(context.command(tier, context.etcd.as_deref(), &context.only));
            Verdict { state: State::Failed, what: "did not run to its end".to_owned(), failed, again }
        });
        self.ok &= verdict.state != State::Failed;
        // A part of a tier has no budget.
        let whole = context.only.is_empty() && context.etcd.is_none();
        let budget = whole.then(|| tier.budget(context.full));
        let lines = closing(&tier.name(), &verdict, start.elapsed(), budget);
        eprintln!("=== {}", lines[0]);
        self.lines.extend(lines);
    }

    /// Waits for what ran in the background.
    pub fn join(&mut self, beside: Beside, until: Instant) {
        match beside.join(until) {
            Ok((lines, ok)) => {
                self.ok &= ok;
                self.lines.extend(lines);
            }
            Err(error) => {
                self.ok = false;
                self.lines.push(format!("beside  FAILED  {error:#}"));
            }
        }
    }

    /// Adds the line of the whole run.
    pub fn close(&mut self, took: Duration, budget: Duration) {
        let state = if self.ok { State::Ok } else { State::Failed };
        let verdict = Verdict::new(state, "every tier".to_owned());
        self.lines.extend(closing("whole", &verdict, took, Some(budget)));
    }

    /// Prints the closing lines; fails if a tier failed.
    pub fn end(self) -> Result<()> {
        println!("\n{CLOSING}\n{}", self.lines.join("\n"));
        if self.ok { Ok(()) } else { bail!("not every tier is ok") }
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

/// One check of a tier that has several.
pub struct Check {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Returns the faults that it found, a line each.
    pub run: fn() -> Result<Vec<String>>,
}

/// Runs the checks of a tier that were asked for, also after one that fails.
pub fn checks(tier: Tier, context: &Context, checks: &[Check]) -> Result<Verdict> {
    for name in &context.only {
        let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        ensure!(names.contains(&name.as_str()), "no check {name}; there are {}", names.join(", "));
    }
    let asked =
        |check: &&Check| context.only.is_empty() || context.only.iter().any(|name| name == check.name);
    let mut count = 0;
    let (mut failed, mut faults) = (Vec::<String>::new(), Vec::new());
    for check in checks.iter().filter(asked) {
        count += 1;
        let start = Instant::now();
        let found = (check.run)().unwrap_or_else(|error| vec![format!("{error:#}")]);
        let took = start.elapsed().as_secs();
        eprintln!("{} {} ({took} s)", if found.is_empty() { "  ok    " } else { "  FAILED" }, check.name);
        for fault in &found {
            eprintln!("    {fault}");
        }
        if !found.is_empty() {
            failed.push(check.name.to_owned());
            faults.extend(found.iter().map(|fault| format!("{}: {fault}", check.name)));
        }
    }
    if failed.is_empty() {
        return Ok(Verdict::new(State::Ok, format!("{count} checks")));
    }
    Ok(Verdict {
        state: State::Failed,
        what: format!("{} of {count} checks", failed.len()),
        failed: faults,
        again: Some(context.command(tier, None, &failed)),
    })
}

/// The closing lines of a tier: one, and of a failed one also what failed and how to run just that again.
fn closing(name: &str, verdict: &Verdict, took: Duration, budget: Option<Duration>) -> Vec<String> {
    let Verdict { state, what, failed, again } = verdict;
    let mut line = format!("{name:7} {:7} {what} in {} s", state.word(), took.as_secs());
    if let Some(budget) = budget {
        line = format!("{line} (budget {} s)", budget.as_secs());
        // By half.
        if took * 2 > budget * 3 {
            line += " OVER BUDGET";
        }
    }
    let failed = failed.iter().map(|line| format!("        {line}"));
    let again = again.iter().map(|command| format!("        run it again: {command}"));
    std::iter::once(line).chain(failed).chain(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_tier_that_overruns_its_budget_by_half_reports_that() {
        let verdict = Verdict::new(State::Ok, "3 tests".to_owned());
        let close = |took| closing("unit", &verdict, took * SECOND, Some(10 * SECOND));
        assert_eq!(close(15), ["unit    ok      3 tests in 15 s (budget 10 s)"]);
        assert_eq!(close(16), ["unit    ok      3 tests in 16 s (budget 10 s) OVER BUDGET"]);
        assert_eq!(closing("unit", &verdict, SECOND, None), ["unit    ok      3 tests in 1 s"]);
    }

    #[test]
    fn a_tier_that_fails_ends_with_what_failed_and_the_command_that_repeats_it() {
        let verdict = Verdict {
            state: State::Failed,
            what: "1 of 3 tests".to_owned(),
            failed: vec!["x a_test".to_owned()],
            again: Some("cargo xtask test unit -- -E 'test(=a_test)'".to_owned()),
        };
        assert_eq!(
            closing("unit", &verdict, SECOND, None),
            [
                "unit    FAILED  1 of 3 tests in 1 s",
                "        x a_test",
                "        run it again: cargo xtask test unit -- -E 'test(=a_test)'"
            ]
        );
    }

    #[test]
    fn checks_are_run_by_name_and_a_failed_one_is_repeated_by_name() {
        let all = [
            Check { name: "good", run: || Ok(Vec::new()) },
            Check { name: "bad", run: || Ok(vec!["a fault".to_owned()]) },
        ];
        let run = |only: &[&str]| {
            let only = only.iter().map(|name| (*name).to_owned()).collect();
            let context = Context { until: Instant::now(), full: false, etcd: None, only, prepared: false };
            checks(Tier::Lint, &context, &all)
        };
        assert_eq!(run(&["good"]).unwrap().state, State::Ok);
        let both = run(&[]).unwrap();
        assert_eq!(both.failed, ["bad: a fault"]);
        assert_eq!(both.again.unwrap(), "cargo xtask test lint -- bad");
        assert!(run(&["unknown"]).is_err());
    }
}
