//! How long tiers and tests took: a file for each tier, which the closing lines and `cargo xtask test --times` read.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::tiers::Tier;
use super::usage::Usage;
use crate::repo;

/// How many tests a closing line names.
pub const SLOWEST: usize = 5;

/// What a tier took.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// In seconds.
    pub wall: f64,
    /// Of all processors together, in seconds: of this tier, of what ran beside it, and idle.
    pub busy: f64,
    /// See `busy`.
    pub beside: f64,
    /// See `busy`.
    pub idle: f64,
    /// Its tests or checks, the slowest first.
    pub tests: Vec<Test>,
}

/// A test or a check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Its name, with the version of etcd if the tier sets one.
    pub name: String,
    /// In seconds.
    pub seconds: f64,
}

impl Times {
    /// Of a tier that ended.
    pub fn new(wall: Duration, usage: Usage, mut tests: Vec<Test>) -> Self {
        tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let Usage { busy, beside, idle } = usage;
        Self { wall: wall.as_secs_f64(), busy, beside, idle, tests }
    }

    /// Records it. Best effort: a tier does not fail by that.
    pub fn record(&self, tier: &str) {
        if let Err(error) = self.write(tier) {
            eprintln!("warning: {error:#}");
        }
    }

    /// The slowest tests, in one line; empty without tests.
    pub fn slowest(&self) -> String {
        let one = |test: &Test| format!("{:.0} s {}", test.seconds, test.name);
        self.tests.iter().take(SLOWEST).map(one).collect::<Vec<_>>().join("; ")
    }

    fn write(&self, tier: &str) -> Result<()> {
        let file = file(tier);
        fs::create_dir_all(file.parent().expect("it lies in a folder"))?;
        fs::write(&file, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

/// The table of the last run of every tier.
pub fn table() -> Result<String> {
    let mut table = "| tier | wall, s | CPU, s | beside, s | idle, s | tests | of them, s |\n| --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let mut slowest = Vec::new();
    let tiers = Tier::value_variants().iter().map(|tier| tier.name()).chain(["whole".to_owned()]);
    for tier in tiers {
        let Ok(text) = fs::read_to_string(file(&tier)) else { continue };
        let Times { wall, busy, beside, idle, tests } =
            serde_json::from_str(&text).with_context(|| format!("{} is damaged", file(&tier).display()))?;
        let sum: f64 = tests.iter().map(|test| test.seconds).sum();
        let count = tests.len();
        writeln!(
            table,
            "| `{tier}` | {wall:.0} | {busy:.0} | {beside:.0} | {idle:.0} | {count} | {sum:.0} |"
        )?;
        slowest.extend(tests.into_iter().map(|test| (tier.clone(), test)));
    }
    slowest.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    table += "\n| tier | slowest tests | s |\n| --- | --- | --- |\n";
    for (tier, Test { name, seconds }) in slowest.into_iter().take(40) {
        writeln!(table, "| `{tier}` | {name} | {seconds:.1} |")?;
    }
    Ok(table)
}

/// The tests in a report that nextest wrote.
pub fn read_junit(text: &str) -> Vec<Test> {
    let attribute = |tag: &str, name: &str| {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let tags = text.split("<testcase").skip(1).filter_map(|rest| rest.split('>').next());
    let test = |tag: &str| {
        let name = format!("{} {}", attribute(tag, "classname")?, attribute(tag, "name")?);
        Some(Test { name, seconds: attribute(tag, "time")?.parse().ok()? })
    };
    tags.filter_map(test).collect()
}

fn file(tier: &str) -> PathBuf {
    repo::target().join("times").join(format!("{tier}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_the_report_of_nextest() {
        let text = r#"<testsuites><testsuite name="quorate-sim::main" tests="1">
            <testcase name="found::h01" classname="quorate-sim::main" timestamp="2026" time="0.250">
            <system-out>x</system-out></testcase>
            <testcase name="b" classname="quorate-model" time="2.000"/></testsuite></testsuites>"#;
        let test = |name: &str, seconds| Test { name: name.to_owned(), seconds };
        assert_eq!(
            read_junit(text),
            [test("quorate-sim::main found::h01", 0.25), test("quorate-model b", 2.0)]
        );
        let times = Times::new(Duration::from_secs(3), Usage::default(), read_junit(text));
        assert_eq!(times.slowest(), "2 s quorate-model b; 0 s quorate-sim::main found::h01");
    }
}
