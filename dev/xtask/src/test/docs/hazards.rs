//! docs/hazards.md and the tests that are named after its rows.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::repo;

const TABLE: &str = "docs/hazards.md";

/// The letter of a test that is named after a hazard; the table has its number only.
const HAZARD: char = 'h';

/// Tests are named after a hazard (h), or after a way to lose data (s), to come to a stop (l) or to report wrongly (t), or after a
/// finding of a review of the life of a cluster (m).
const LETTERS: [char; 6] = [HAZARD, 's', 'l', 't', 'm', 'o'];

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    letter: char,
    number: u32,
}

/// A line for each hazard without its test, and each such test without its hazard.
pub fn check() -> Result<Vec<String>> {
    let table = repo::read(Path::new(TABLE))?;
    let mut tests = BTreeSet::new();
    for file in repo::files_with("rs")? {
        tests.extend(tests_in(&repo::read(&file)?));
    }
    ensure!(!tests.is_empty(), "no test is named after a hazard");
    Ok(faults(&table, &tests))
}

fn faults(table: &str, tests: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut named = BTreeSet::new();
    for (number, line) in table.lines().enumerate() {
        let at = format!("{TABLE}:{}", number + 1);
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(hazard) = cells.get(1).and_then(|cell| row(cell)) else { continue };
        let shown_by = cells.get(4).copied().unwrap_or_default();
        let words: Vec<String> = shown_by.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        // The row of a hazard that cannot be tested has the reason.
        if words.is_empty() && !shown_by.starts_with("no test:") {
            faults.push(format!("{at}: hazard {hazard} has neither a test nor \"no test: <reason>\""));
        }
        for test in words {
            if !tests.contains(&test) {
                faults.push(format!("{at}: no such test: {test}"));
            } else if !hazards_of(&test).contains(&hazard) {
                faults.push(format!("{at}: {test} is not named after hazard {hazard}"));
            }
            named.insert(test);
        }
    }
    for test in tests.difference(&named) {
        faults.push(format!("{TABLE}: {test} is named after a hazard and not in the table"));
    }
    faults
}

/// The functions `hNN_...` (or another letter) that are tests: they have an attribute `test`, or are in the list of behaviours that a world runs,
/// each on a line of its own.
fn tests_in(text: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.contains("::test");
            continue;
        }
        if line.chars().all(|part| part.is_alphanumeric() || part == '_') && !hazards_of(line).is_empty() {
            tests.push(line.to_owned());
        }
        let declared = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "));
        let name = declared.and_then(|rest| rest.split(['(', '<']).next()).unwrap_or_default();
        if is_test && !hazards_of(name).is_empty() {
            tests.push(name.to_owned());
        }
        is_test = false;
    }
    tests
}

/// The rows that a test shows: `7` of `h07_...`, `1` and `21` of `h01_h21_...`, `S5` of `s05_...`.
fn hazards_of(test: &str) -> Vec<Row> {
    let row = |word: &str| {
        let mut letters = word.chars();
        let letter = letters.next().filter(|letter| LETTERS.contains(letter))?;
        let digits = Some(letters.as_str()).filter(|digits| digits.len() == 2)?;
        Some(Row { letter, number: digits.parse().ok()? })
    };
    test.split('_').map_while(row).collect()
}

/// The row that begins with this cell: `7` is hazard 7, `S5` is number 5 under the letter S.
fn row(cell: &str) -> Option<Row> {
    let letter = cell.chars().next()?.to_ascii_lowercase();
    let (letter, number) = match cell.get(1..) {
        Some(number) if LETTERS.contains(&letter) => (letter, number),
        Some(_) | None => (HAZARD, cell),
    };
    Some(Row { letter, number: number.parse().ok()? })
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.letter {
            HAZARD => write!(f, "{}", self.number),
            letter => write!(f, "{}{}", letter.to_ascii_uppercase(), self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_as_a_test_counts() {
        let text = "#[test]\nfn h01_a() {}\nfn h02_helper() {}\n#[tokio::test(flavor = \"x\")]\n#[expect(y)]\nasync fn h03_b() {}\nmacro! {\n    h04_story\n}\npub async fn h05_unlisted(world: &W) {}\n";
        assert_eq!(tests_in(text), ["h01_a", "h03_b", "h04_story"]);
    }

    #[test]
    fn a_test_may_show_two_hazards() {
        let rows = |test| hazards_of(test).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(rows("h01_h21_empty"), ["1", "21"]);
        assert_eq!(rows("s05_h22_kept"), ["S5", "22"]);
        assert!(hazards_of("history_is_kept").is_empty());
        assert!(hazards_of("h2_h3_no").is_empty());
    }

    #[test]
    fn the_table_and_the_tests_name_each_other() {
        let tests = BTreeSet::from(["h01_a".to_owned(), "h02_b".to_owned(), "s05_c".to_owned()]);
        let good = "| H | what | done | by |\n| --- | --- | --- | --- |\n| 1 | a | b | P `h01_a` |\n| 2 | a | b | P `h02_b` |\n| 3 | a | b | no test: why |\n| S5 | a | b | P `s05_c` |\n";
        assert_eq!(faults(good, &tests), Vec::<String>::new());
        let bad = "| 1 | a | b | P `h01_x` |\n| 2 | a | b | P `h01_a` |\n| 3 | a | b | later |\n";
        assert_eq!(faults(bad, &tests).len(), 5, "{:?}", faults(bad, &tests));
    }
}
