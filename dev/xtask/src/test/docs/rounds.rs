//! What all recorded rounds of back up, wreck, restore prove together: a sentence and a table of docs/bench.md, generated from
//! docs/restore-rounds.csv, to which each run of them adds its lines.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::section::Section;
use crate::repo;

const RECORD: &str = "docs/restore-rounds.csv";
const HEAD: &str = "date,commit,world,etcd,rounds,passed";

/// The share of rounds that are to pass.
const GOAL: f64 = 0.99;

/// How certain the bound is.
const CONFIDENCE: f64 = 0.95;

/// How many rounds there were, and how many of them passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    rounds: u32,
    passed: u32,
}

/// Where it is.
pub const SECTION: Section = Section {
    page: "docs/bench.md",
    begin: "<!-- rounds: written by `cargo xtask docs` -->\n",
    end: "<!-- end of rounds -->\n",
    text,
};

fn text() -> Result<String> {
    summary(&repo::read(Path::new(RECORD))?)
}

fn summary(record: &str) -> Result<String> {
    let mut by_world: BTreeMap<(String, String), Count> = BTreeMap::new();
    for line in record.lines().skip_while(|line| *line == HEAD) {
        let [_, _, world, etcd, rounds, passed] = line.split(',').collect::<Vec<_>>()[..] else {
            bail!("{RECORD}: {line:?} does not have the columns {HEAD}");
        };
        let count = by_world.entry((world.to_owned(), etcd.to_owned())).or_default();
        count.rounds += rounds.parse::<u32>().with_context(|| format!("{RECORD}: {line}"))?;
        count.passed += passed.parse::<u32>().with_context(|| format!("{RECORD}: {line}"))?;
    }
    let mut all = Count::default();
    let mut table = vec![
        "| where | etcd | rounds | passed | at least |".to_owned(),
        "| --- | --- | --- | --- | --- |".to_owned(),
    ];
    for ((world, etcd), count) in &by_world {
        let Count { rounds, passed } = *count;
        table.push(format!("| {world} | {etcd} | {rounds} | {passed} | {} |", percent(count.at_least())));
        all = Count { rounds: all.rounds + rounds, passed: all.passed + passed };
    }
    if all.rounds == 0 {
        return Ok("No run is recorded yet.\n".to_owned());
    }
    let table = table.join("\n");
    let bound = all.at_least();
    let goal = if bound >= GOAL { "met" } else { "not shown yet" };
    Ok(format!(
        "All recorded rounds together: {} of {} passed. So at least {} of such rounds pass, with a confidence of {}; goal, {}: {goal}.\n\n{table}\n",
        all.passed,
        all.rounds,
        percent(bound),
        percent(CONFIDENCE),
        percent(GOAL),
    ))
}

impl Count {
    /// The least share of rounds that pass, by the one-sided bound of Clopper and Pearson: with a smaller one, so many passed rounds or more are
    /// seen less often than confidence allows.
    fn at_least(self) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.seen(middle) < 1.0 - CONFIDENCE { low = middle } else { high = middle }
        }
        low
    }

    /// How likely so many passed rounds or more are, if this share passes.
    fn seen(self, share: f64) -> f64 {
        let failed = self.rounds - self.passed;
        let mut term = share.powf(f64::from(self.rounds));
        let mut sum = term;
        for lost in 1..=failed {
            term *= f64::from(self.rounds - lost + 1) / f64::from(lost) * (1.0 - share) / share;
            sum += term;
        }
        sum
    }
}

fn percent(share: f64) -> String {
    // Rounded down: what is not reached is not told.
    format!("{} %", (share * 1000.0 + 1e-6).floor() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_nine_percent_need_299_rounds_without_a_failure() {
        let bound = |rounds, passed| Count { rounds, passed }.at_least();
        assert!(bound(299, 299) >= GOAL && bound(298, 298) < GOAL);
        assert!(bound(472, 471) < GOAL && bound(473, 472) >= GOAL);
        assert_eq!(percent(bound(20, 20)), "86 %");
        assert_eq!(percent(bound(0, 0)), "0 %");
    }

    #[test]
    fn rounds_are_summed_by_world_and_version_and_a_failure_counts() {
        let record = format!(
            "{HEAD}\n2026-11-30,abc,playground,3.6.16,100,100\n2026-11-30,abc,playground,3.6.16,200,199\n2026-12-01,def,kubernetes,3.6.16,20,20\n"
        );
        let summary = summary(&record).unwrap();
        assert!(summary.contains("319 of 320 passed"), "{summary}");
        assert!(summary.contains("not shown yet"), "{summary}");
        assert!(summary.contains("| playground | 3.6.16 | 300 | 299 | 98.4 % |"), "{summary}");
    }

    #[test]
    fn a_line_that_is_no_record_is_named_and_an_empty_record_says_so() {
        assert_eq!(summary(&format!("{HEAD}\n")).unwrap(), "No run is recorded yet.\n");
        let why = summary("2026-11-30,abc,20").unwrap_err().to_string();
        assert!(why.contains("2026-11-30,abc,20"), "{why}");
    }
}
