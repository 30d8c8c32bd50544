//! The numbered steps of the protocols: the code and the pages have the same.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::repo;

/// Where the steps are declared.
const CODE: &str = "crates/model/src/effect/step.rs";
/// Where they are described.
const DOCS: &str = "docs/protocols";

/// A line for each step that a table of the documents has and the code does not, or the other way round.
pub fn check() -> Result<Vec<String>> {
    let declared = declared(&repo::read(Path::new(CODE))?).context("the enum Step is declared")?;
    let mut described = BTreeSet::new();
    for file in repo::files_with("md")?.iter().filter(|file| file.starts_with(DOCS)) {
        described.extend(described_in(&repo::read(file)?));
    }
    ensure!(!described.is_empty(), "no table of steps in {DOCS}");
    let missing =
        declared.difference(&described).map(|step| format!("{step} is a Step in {CODE} and not in {DOCS}"));
    let unknown = described
        .difference(&declared)
        .map(|step| format!("{step} is a step in {DOCS} and no Step in {CODE}"));
    Ok(missing.chain(unknown).collect())
}

/// The variants of `enum Step`.
fn declared(code: &str) -> Option<BTreeSet<String>> {
    let (_, rest) = code.split_once("enum Step {")?;
    let (body, _) = rest.split_once('}')?;
    let variants = body.lines().filter_map(|line| line.trim().strip_suffix(','));
    Some(variants.filter(|name| is_step(name)).map(str::to_owned).collect())
}

/// The steps of tables (`| B4 | act | ...`) and of headings (`## BA: ...`). A row of kind `condition` has a number but is no
/// step: nothing is written at it.
fn described_in(text: &str) -> BTreeSet<String> {
    let first = |line: &str| {
        let line = line.strip_prefix('|').or_else(|| line.strip_prefix("##"))?;
        let mut cells = line.split(['|', ':']).map(str::trim);
        let words = cells.next()?;
        let is_act = cells.next() != Some("condition");
        Some(
            words
                .split(',')
                .map(|word| word.trim().to_owned())
                .filter(|word| is_act && is_step(word))
                .collect::<Vec<_>>(),
        )
    };
    text.lines().filter_map(first).flatten().collect()
}

/// Two letters or a letter and a digit.
fn is_step(word: &str) -> bool {
    let mut letters = word.chars();
    let kind = letters.next().is_some_and(|first| first.is_ascii_uppercase());
    kind && letters.next().is_some_and(|second| second.is_ascii_digit() || second.is_ascii_uppercase())
        && word.len() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_from_the_enum_and_from_the_tables() {
        let code = "pub enum Step {\n    B1,\n    /// Why.\n    BA,\n}\nenum Other { X1, }";
        let all = BTreeSet::from(["B1".to_owned(), "BA".to_owned()]);
        assert_eq!(declared(code), Some(all.clone()));
        assert_eq!(described_in("| step | what |\n| B1 | x |\n## BA: giving up\n## How B2 goes\n"), all);
        assert_eq!(described_in("| U4, U5 | x |").len(), 2);
        assert_eq!(
            described_in("| B4 | act | x |\n| B5 | condition | x |"),
            BTreeSet::from(["B4".to_owned()])
        );
    }
}
