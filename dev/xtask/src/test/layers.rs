//! The tiers that run tests. Which test belongs to which tier stands in `.config/nextest.toml`, a profile each.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{State, Verdict};
use crate::tools::{self, helpers};
use crate::{cargo, children, repo};

/// The etcd versions of `tools/` that the whole suite runs on, the one of most clusters first, and the one whose
/// clusters are only founded, scaled and deleted.
const WHOLE: [&str; 2] = ["3.6", "3.7"];
const LIFE_ONLY: &str = "3.5";

/// What nextest counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Count {
    run: u32,
    passed: u32,
    /// Of those that passed: only at the second attempt, where a profile allows one.
    flaky: u32,
}

/// L0: no process beside the test.
pub fn unit(until: Instant) -> Result<Verdict> {
    let mut count = Count::default();
    let left = nextest("unit", None, &[], &mut count, until)?;
    Ok(verdict(&count, &left))
}

/// L1 and L2: the simulation. Its figures are shown as they come.
pub fn compute(profile: &str, until: Instant) -> Result<Verdict> {
    let mut count = Count::default();
    let left = nextest(profile, None, &[], &mut count, until)?;
    Ok(verdict(&count, &left))
}

/// L3: the operator is killed at every numbered step and started again.
pub fn shell(until: Instant) -> Result<Verdict> {
    let mut count = Count::default();
    set_up()?;
    let left = nextest("shell", Some(&version(WHOLE[0])?), &[], &mut count, until)?;
    Ok(verdict(&count, &left))
}

/// L4: the etcd port and the agent on every minor version, then the whole system.
pub fn etcd(until: Instant) -> Result<Verdict> {
    let mut count = Count::default();
    let mut left = Vec::new();
    set_up()?;
    left.extend(nextest("port", None, &[], &mut count, until)?);
    for minor in WHOLE {
        left.extend(nextest("etcd", Some(&version(minor)?), &[], &mut count, until)?);
    }
    left.extend(nextest("etcd-life", Some(&version(LIFE_ONLY)?), &[], &mut count, until)?);
    Ok(verdict(&count, &left))
}

/// The binaries the tests start.
fn set_up() -> Result<()> {
    tools::build_missing()?;
    cargo::build("quorate", "quorate")
}

/// Runs the tests of one profile, with these variables in their environment. What they left running, which is a failure even where they all passed.
pub fn nextest(
    profile: &str,
    etcd_version: Option<&str>,
    variables: &[(&str, PathBuf)],
    count: &mut Count,
    until: Instant,
) -> Result<Vec<String>> {
    let mut nextest = helpers::nextest()?;
    nextest.args(["run", "--workspace", "--exclude", "bench", "--profile", profile]);
    nextest.args(["--no-fail-fast", "--status-level", "slow", "--show-progress", "none"]);
    nextest.envs(variables.iter().map(|(name, value)| (name, value)));
    nextest.env("QUORATE_BIN", repo::quorate()).env("QUORATE_ETCD_BIN_DIR", repo::tools_bin());
    if let Some(version) = etcd_version {
        eprintln!("--- etcd {version}");
        nextest.env("QUORATE_TEST_ETCD_VERSION", version);
    }
    let end = children::watch(&mut nextest, until)?;
    let counted = Count::read(&end.stderr).with_context(|| format!("the tests of {profile} were not run"))?;
    ensure!(end.status.success() == (counted.run == counted.passed), "nextest ended with {}", end.status);
    count.run += counted.run;
    count.passed += counted.passed;
    count.flaky += counted.flaky;
    Ok(end.left)
}

/// The closing line of a tier.
pub fn verdict(count: &Count, left: &[String]) -> Verdict {
    for line in left {
        eprintln!("left running by a test, and ended: {line}");
    }
    let Count { run, passed, flaky } = count;
    let failed = run - passed;
    let mut tests = if failed == 0 { format!("{run} tests") } else { format!("{failed} of {run} tests") };
    if *flaky > 0 {
        tests = format!("{tests}, {flaky} passed only when tried again,");
    }
    let what = match left.len() {
        0 => tests,
        left => format!("{tests}, {left} processes left running,"),
    };
    let state = if failed == 0 && left.is_empty() { State::Ok } else { State::Failed };
    Verdict { state, what }
}

/// The version pinned for this minor.
pub fn version(minor: &str) -> Result<String> {
    xtask::etcd_version(&repo::tools_bin().join(format!("etcd-{minor}")))
}

impl Count {
    /// From the line `Summary [ 1.2s] 12 tests run: 11 passed (1 slow), 1 failed, 3 skipped`.
    fn read(stderr: &str) -> Option<Self> {
        let line = stderr.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
        let (_, counts) = line.split_once(']')?;
        let (run, ends) = counts.split_once(':')?;
        // `9/12 tests run` where it was interrupted.
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
    fn a_process_left_running_fails_a_tier_whose_tests_all_passed() {
        let count = Count { run: 3, passed: 3, flaky: 0 };
        assert_eq!(verdict(&count, &[]).state, State::Ok);
        assert_eq!(verdict(&count, &["7 etcd".to_owned()]).state, State::Failed);
        let again = verdict(&Count { run: 3, passed: 3, flaky: 1 }, &[]);
        assert!(again.state == State::Ok && again.what.contains("1 passed only when tried again"));
        assert_eq!(verdict(&Count { run: 3, passed: 2, flaky: 0 }, &[]).state, State::Failed);
    }
}
