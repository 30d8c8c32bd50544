//! How a tier ended, and the closing lines.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::Context;
use super::beside::Beside;
use super::tiers::Tier;
use super::times::{Test, Times};
use super::usage::Usage;

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
    /// How long its tests or checks took.
    pub times: Vec<Test>,
}

impl Verdict {
    /// A verdict without failures.
    pub fn new(state: State, what: String) -> Self {
        Self { state, what, failed: Vec::new(), again: None, times: Vec::new() }
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
        let (start, usage) = (Instant::now(), Usage::now());
        let mut verdict = tier.run(context).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
            let failed = format!("{error:#}").lines().map(str::to_owned).collect();
            let again = Some(context.command(tier, context.etcd.as_deref(), &context.only));
            let what = "did not run to its end".to_owned();
            Verdict { state: State::Failed, what, failed, again, times: Vec::new() }
        });
        self.ok &= verdict.state != State::Failed;
        // A part of a tier has no budget.
        let whole = context.only.is_empty() && context.etcd.is_none();
        let budget = whole.then(|| tier.budget(context.full));
        let tests = std::mem::take(&mut verdict.times);
        let times = Times::new(start.elapsed(), Usage::now() - usage, tests);
        // A part of a tier, and a proof that was kept, do not replace what is known of all of it.
        if whole && !times.tests.is_empty() {
            times.record(&tier.name());
        }
        let lines = closing(&tier.name(), &verdict, &times, budget);
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
    pub fn close(&mut self, times: &Times, budget: Duration) {
        let state = if self.ok { State::Ok } else { State::Failed };
        let verdict = Verdict::new(state, "every tier".to_owned());
        times.record("whole");
        self.lines.extend(closing("whole", &verdict, times, Some(budget)));
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

/// The error of a check that this machine cannot run, and why. That is reported, and is no failure.
#[derive(Debug)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

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
    let (mut count, mut skipped) = (0, Vec::new());
    let (mut failed, mut faults, mut times) = (Vec::<String>::new(), Vec::new(), Vec::new());
    for check in checks.iter().filter(asked) {
        let start = Instant::now();
        let found = match (check.run)() {
            Ok(found) => found,
            Err(error) if error.is::<Skipped>() => {
                eprintln!("  SKIPPED {}: {error:#}", check.name);
                skipped.push(check.name);
                continue;
            }
            Err(error) => vec![format!("{error:#}")],
        };
        count += 1;
        let seconds = start.elapsed().as_secs_f64();
        times.push(Test { name: check.name.to_owned(), seconds });
        eprintln!(
            "{} {} ({seconds:.0} s)",
            if found.is_empty() { "  ok    " } else { "  FAILED" },
            check.name
        );
        for fault in &found {
            eprintln!("    {fault}");
        }
        if !found.is_empty() {
            failed.push(check.name.to_owned());
            faults.extend(found.iter().map(|fault| format!("{}: {fault}", check.name)));
        }
    }
    let without = match skipped.as_slice() {
        [] => String::new(),
        names => format!(", SKIPPED {}", names.join(", ")),
    };
    if failed.is_empty() {
        let state = if count == 0 && !skipped.is_empty() { State::Skipped } else { State::Ok };
        return Ok(Verdict { times, ..Verdict::new(state, format!("{count} checks{without}")) });
    }
    Ok(Verdict {
        state: State::Failed,
        what: format!("{} of {count} checks{without}", failed.len()),
        failed: faults,
        again: Some(context.command(tier, None, &failed)),
        times,
    })
}

/// The closing lines of a tier: what ran and how long it took, the slowest tests, and of a failed one also what failed and how to run
/// just that again.
fn closing(name: &str, verdict: &Verdict, times: &Times, budget: Option<Duration>) -> Vec<String> {
    let Verdict { state, what, failed, again, times: _ } = verdict;
    let Times { wall, busy, beside, idle, .. } = times;
    let took = match budget {
        // By half.
        Some(budget) if wall * 2.0 > budget.as_secs_f64() * 3.0 => {
            format!("budget: {wall:.0} s of {} s OVER BUDGET", budget.as_secs())
        }
        Some(budget) => format!("budget: {wall:.0} s of {} s", budget.as_secs()),
        None => format!("{wall:.0} s"),
    };
    let line = format!(
        "{name:7} {:7} {what}; {took}; CPU {busy:.0} s, beside {beside:.0} s, idle {idle:.0} s",
        state.word()
    );
    let slowest = Some(times.slowest()).filter(|slowest| !slowest.is_empty());
    let slowest = slowest.map(|slowest| format!("        slowest: {slowest}"));
    let failed = failed.iter().map(|line| format!("        {line}"));
    let again = again.iter().map(|command| format!("        run it again: {command}"));
    std::iter::once(line).chain(slowest).chain(failed).chain(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn times(seconds: u32, tests: Vec<Test>) -> Times {
        Times::new(seconds * SECOND, Usage { busy: 3.0, beside: 2.0, idle: 1.0 }, tests)
    }

    #[test]
    fn a_tier_reports_what_it_took_of_its_budget_and_one_that_overruns_it_by_half_says_so() {
        let verdict = Verdict::new(State::Ok, "3 tests".to_owned());
        let close = |took| closing("unit", &verdict, &times(took, Vec::new()), Some(10 * SECOND));
        let cpu = "CPU 3 s, beside 2 s, idle 1 s";
        assert_eq!(close(15), [format!("unit    ok      3 tests; budget: 15 s of 10 s; {cpu}")]);
        assert_eq!(close(16), [format!("unit    ok      3 tests; budget: 16 s of 10 s OVER BUDGET; {cpu}")]);
        let part = closing("unit", &verdict, &times(1, Vec::new()), None);
        assert_eq!(part, [format!("unit    ok      3 tests; 1 s; {cpu}")]);
    }

    #[test]
    fn a_tier_names_its_five_slowest_tests() {
        let verdict = Verdict::new(State::Ok, "6 tests".to_owned());
        let test = |seconds| Test { name: format!("t{seconds}"), seconds: f64::from(seconds) };
        let lines = closing("unit", &verdict, &times(9, (1..=6).map(test).collect()), None);
        assert_eq!(lines[1], "        slowest: 6 s t6; 5 s t5; 4 s t4; 3 s t3; 2 s t2");
    }

    #[test]
    fn a_tier_that_fails_ends_with_what_failed_and_the_command_that_repeats_it() {
        let verdict = Verdict {
            failed: vec!["x a_test".to_owned()],
            again: Some("cargo xtask test unit -- -E 'test(=a_test)'".to_owned()),
            ..Verdict::new(State::Failed, "1 of 3 tests".to_owned())
        };
        let lines = closing("unit", &verdict, &times(1, Vec::new()), None);
        assert!(lines[0].starts_with("unit    FAILED  1 of 3 tests; 1 s; "), "{}", lines[0]);
        assert_eq!(
            lines[1..],
            ["        x a_test", "        run it again: cargo xtask test unit -- -E 'test(=a_test)'"]
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
            let context = Context::new(false, None, only);
            checks(Tier::Lint, &context, &all)
        };
        assert_eq!(run(&["good"]).unwrap().state, State::Ok);
        let both = run(&[]).unwrap();
        assert_eq!(both.failed, ["bad: a fault"]);
        assert_eq!(both.again.unwrap(), "cargo xtask test lint -- bad");
        assert!(run(&["unknown"]).is_err());
    }

    #[test]
    fn a_check_that_this_machine_cannot_run_is_no_failure_and_is_named() {
        let all = [
            Check { name: "good", run: || Ok(Vec::new()) },
            Check { name: "rare", run: || Err(Skipped("no such tool".to_owned()).into()) },
        ];
        let run = |only: &[&str]| {
            let only = only.iter().map(|name| (*name).to_owned()).collect();
            checks(Tier::Lint, &Context::new(false, None, only), &all).unwrap()
        };
        let both = run(&[]);
        assert_eq!((both.state, &*both.what), (State::Ok, "1 checks, SKIPPED rare"));
        assert_eq!(run(&["rare"]).state, State::Skipped);
    }
}
