//! A run of tests by cargo-nextest: what it counted, which tests failed, and the command that repeats those.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

use super::Context;
use super::report::{State, Verdict};
use super::tiers::Tier;
use super::times::{Test, read_junit};
use crate::tools::helpers;
use crate::{cargo, children, repo};

/// The results of all runs of a tier.
#[derive(Default)]
pub struct Results {
    count: Count,
    failed: Vec<Failed>,
    /// Processes that tests left running, which is a failure even if every test passed.
    left: Vec<String>,
    times: Vec<Test>,
}

/// What nextest counted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Count {
    run: u32,
    passed: u32,
    /// Of those that passed: only at the second attempt, where a profile allows one.
    flaky: u32,
}

/// A test that failed.
#[derive(Debug, PartialEq, Eq)]
struct Failed {
    /// The minor version of etcd that it ran on, if the tier sets one.
    etcd: Option<String>,
    /// The test binary, in nextest's words: `quorate-sim::found`.
    binary: String,
    test: String,
}

impl Results {
    /// Runs the tests of a profile of `.config/nextest.toml`, with these variables in their environment. With a minor version
    /// of etcd: on that version.
    pub fn run(
        &mut self,
        context: &Context,
        profile: &str,
        etcd: Option<&str>,
        variables: &[(&str, PathBuf)],
    ) -> Result<()> {
        let built = context.built()?;
        let mut nextest = helpers::nextest()?;
        nextest.arg("run").args(built.arguments()).args(["--profile", profile]);
        nextest.args(["--no-fail-fast", "--status-level", "slow", "--show-progress", "none"]);
        if !context.only.is_empty() {
            // The part may lie in another run of this tier.
            nextest.arg("--no-tests=pass").args(&context.only);
        }
        nextest.envs(variables.iter().map(|(name, value)| (name, value)));
        nextest.env("QUORATE_BIN", cargo::program("quorate", "quorate")?);
        nextest.env("QUORATE_ETCD_BIN_DIR", repo::tools_bin());
        // An error's text says what failed and where; its backtrace would bury it. A panic keeps its own.
        nextest.env("RUST_LIB_BACKTRACE", "0");
        let figures = repo::target().join(format!("figures-{profile}.txt"));
        let _ = std::fs::remove_file(&figures);
        nextest.env("QUORATE_TEST_FIGURES", &figures);
        if context.full {
            nextest.env("QUORATE_TEST_FULL", "1");
            nextest.env("QUORATE_RESTORE_ROUNDS", repo::root().join("docs/restore-rounds.csv"));
        }
        // Some tests at a time, with eight writers each: at the pace of the benchmarks they would be most of the load.
        nextest.env("QUORATE_TEST_PACE", "100");
        if let Some(minor) = etcd {
            let version = version(minor)?;
            eprintln!("--- etcd {version}");
            nextest.env("QUORATE_TEST_ETCD_VERSION", version);
        }
        let junit = repo::target().join("nextest").join(profile).join("junit.xml");
        let _ = std::fs::remove_file(&junit);
        let end = children::watch(&mut nextest, context.until)?;
        let on = etcd.map(|minor| format!(" on etcd {minor}")).unwrap_or_default();
        let times = read_junit(&std::fs::read_to_string(&junit).unwrap_or_default());
        self.times.extend(times.into_iter().map(|test| Test { name: test.name + &on, ..test }));
        // A line for each cluster that clients wrote to. Most tests have none.
        eprint!("{}", std::fs::read_to_string(&figures).unwrap_or_default());
        let Some(counted) = Count::read(&end.stderr) else {
            bail!("the tests of {profile} did not run\n{}", children::errors(&end.stderr).join("\n"));
        };
        ensure!(end.status.success() == (counted.run == counted.passed), "nextest ended with {}", end.status);
        self.count.run += counted.run;
        self.count.passed += counted.passed;
        self.count.flaky += counted.flaky;
        self.failed.extend(failures(&end.stderr).map(|(binary, test)| Failed {
            etcd: etcd.map(str::to_owned),
            binary,
            test,
        }));
        self.left.extend(end.left);
        Ok(())
    }

    /// The verdict on the tier.
    pub fn verdict(&self, tier: Tier, context: &Context) -> Verdict {
        let Count { run, passed, flaky } = self.count;
        let failed = run - passed;
        let mut what = if failed == 0 { format!("{run} tests") } else { format!("{failed} of {run} tests") };
        if flaky > 0 {
            what = format!("{what}, {flaky} passed only when tried again,");
        }
        if !self.left.is_empty() {
            what = format!("{what}, {} processes left running,", self.left.len());
        }
        let mut lines: Vec<String> = self.failed.iter().map(Failed::line).collect();
        lines.extend(self.left.iter().map(|process| format!("left running by a test, and ended: {process}")));
        if run == 0 {
            lines.push("no test matches".to_owned());
        }
        if lines.is_empty() && failed == 0 {
            return Verdict { times: self.times.clone(), ..Verdict::new(State::Ok, what) };
        }
        let again = Some(again(tier, context, &self.failed));
        Verdict { state: State::Failed, what, failed: lines, again, times: self.times.clone() }
    }
}

/// The full version that `tools/` pins for this minor version.
pub fn version(minor: &str) -> Result<String> {
    xtask::etcd_version(&repo::tools_bin().join(format!("etcd-{minor}")))
}

impl Failed {
    fn line(&self) -> String {
        let Self { etcd, binary, test } = self;
        let on = etcd.as_ref().map(|minor| format!(" on etcd {minor}")).unwrap_or_default();
        format!("{binary} {test}{on}")
    }
}

/// The command that runs these tests again, or the whole tier if no test is known to have failed.
fn again(tier: Tier, context: &Context, failed: &[Failed]) -> String {
    let mut minors: Vec<_> = failed.iter().map(|one| one.etcd.as_deref()).collect();
    minors.sort_unstable();
    minors.dedup();
    let minor = if let [Some(minor)] = minors[..] { Some(minor) } else { context.etcd.as_deref() };
    let mut tests: Vec<_> = failed.iter().map(|one| format!("test(={})", one.test)).collect();
    tests.sort_unstable();
    tests.dedup();
    if tests.is_empty() {
        return context.command(tier, minor, &context.only);
    }
    // The other tiers run on one version, which needs no flag.
    let minor = minor.filter(|_| tier == Tier::Etcd);
    context.command(tier, minor, &["-E".to_owned(), tests.join(" + ")])
}

/// Binary and test of the lines after the summary: `FAIL [   0.1s] (3/9) quorate-sim::found name`.
fn failures(stderr: &str) -> impl Iterator<Item = (String, String)> {
    let lines = stderr.lines().skip_while(|line| !line.trim_start().starts_with("Summary ["));
    let named = |line: &str| {
        let (status, rest) = line.split_once('[')?;
        if ["FLAKY", "PASS", "SLOW", "LEAK", "Summary"].contains(&status.split_whitespace().next()?) {
            return None;
        }
        let (_, names) = rest.split_once(']')?;
        let mut names = names.split_whitespace().rev();
        let (test, binary) = (names.next()?, names.next()?);
        Some((binary.to_owned(), test.to_owned()))
    };
    lines.filter_map(named).collect::<std::collections::BTreeSet<_>>().into_iter()
}

impl Count {
    /// From the line `Summary [ 1.2s] 12 tests run: 11 passed (1 slow), 1 failed, 3 skipped`.
    fn read(stderr: &str) -> Option<Self> {
        let line = stderr.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
        let (_, counts) = line.split_once(']')?;
        let (run, ends) = counts.split_once(':')?;
        // `9/12 tests run` if it was interrupted.
        let run = run.split_whitespace().next()?.rsplit('/').next()?.parse().ok()?;
        let passed = ends.split(',').find(|end| end.contains("passed"));
        let passed = passed.map_or(Some(0), |end| end.split_whitespace().next()?.parse().ok())?;
        let words: Vec<&str> = ends.split([' ', '(', ')', ',']).collect();
        let flaky = words.windows(2).find(|pair| pair[1] == "flaky").and_then(|pair| pair[0].parse().ok());
        Some(Self { run, passed, flaky: flaky.unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(full: bool) -> Context {
        Context::new(full, None, Vec::new())
    }

    fn failed(etcd: Option<&str>, test: &str) -> Failed {
        let etcd = etcd.map(str::to_owned);
        Failed { etcd, binary: "quorate-scenarios::etcd_life".to_owned(), test: test.to_owned() }
    }

    #[test]
    fn the_summary_of_the_tests_is_read_in_all_its_shapes() {
        let read = |line: &str| Count::read(&format!("noise\n{line}\nerror: test run failed\n"));
        let all = read("     Summary [   0.008s] 12 tests run: 12 passed, 0 skipped");
        assert_eq!(all, Some(Count { run: 12, passed: 12, flaky: 0 }));
        let some = read("     Summary [   1.2s] 3 tests run: 2 passed (1 slow), 1 timed out, 5 skipped");
        assert_eq!(some, Some(Count { run: 3, passed: 2, flaky: 0 }));
        let again = read("     Summary [   1.2s] 3 tests run: 3 passed (1 slow, 1 flaky), 5 skipped");
        assert_eq!(again, Some(Count { run: 3, passed: 3, flaky: 1 }));
        let none = read("     Summary [   1.2s] 1 test run: 0 passed, 1 failed, 5 skipped");
        assert_eq!(none, Some(Count { run: 1, passed: 0, flaky: 0 }));
        let cut = read("     Summary [   1.2s] 2/9 tests run: 1 passed, 1 failed, 5 skipped");
        assert_eq!(cut, Some(Count { run: 9, passed: 1, flaky: 0 }));
        assert_eq!(read("error: could not compile"), None);
    }

    #[test]
    fn the_failed_tests_are_those_that_are_listed_after_the_summary() {
        let stderr = "        FAIL [   0.1s] (1/3) a::b while_it_runs
     Summary [   1.2s] 3 tests run: 1 passed (1 flaky), 1 failed, 1 timed out, 5 skipped
   FLAKY 2/2 [   0.1s] (3/3) a::b a_flaky_one
        FAIL [   0.1s] (1/3) a::b tests::one
     TIMEOUT [  60.0s] (2/3) a two
error: test run failed\n";
        let names: Vec<_> = failures(stderr).collect();
        let pair = |binary: &str, test: &str| (binary.to_owned(), test.to_owned());
        assert_eq!(names, [pair("a", "two"), pair("a::b", "tests::one")]);
    }

    #[test]
    fn failed_tests_are_repeated_by_name_on_the_version_of_etcd_that_they_failed_on() {
        let one = [failed(Some("3.7"), "x"), failed(Some("3.7"), "y")];
        assert_eq!(
            again(Tier::Etcd, &context(true), &one),
            "cargo xtask test etcd --full --etcd 3.7 -- -E 'test(=x) + test(=y)'"
        );
        let two = [failed(Some("3.7"), "x"), failed(Some("3.6"), "x")];
        assert_eq!(again(Tier::Etcd, &context(false), &two), "cargo xtask test etcd -- -E 'test(=x)'");
        assert_eq!(again(Tier::Unit, &context(false), &[]), "cargo xtask test unit");
    }

    #[test]
    fn a_process_left_running_fails_a_tier_whose_tests_all_passed() {
        let verdict = |run, passed, flaky, left: &[&str]| {
            let left = left.iter().map(|line| (*line).to_owned()).collect();
            let count = Count { run, passed, flaky };
            let results = Results { count, failed: Vec::new(), left, times: Vec::new() };
            results.verdict(Tier::Unit, &context(false))
        };
        assert_eq!(verdict(3, 3, 0, &[]).state, State::Ok);
        assert_eq!(verdict(3, 3, 0, &["7 etcd"]).state, State::Failed);
        let again = verdict(3, 3, 1, &[]);
        assert!(again.state == State::Ok && again.what.contains("1 passed only when tried again"));
        assert_eq!(verdict(3, 2, 0, &[]).state, State::Failed);
        assert_eq!(verdict(0, 0, 0, &[]).state, State::Failed);
    }
}
