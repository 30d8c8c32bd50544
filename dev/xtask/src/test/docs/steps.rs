//! The numbered steps of the protocols: the code and the pages have the same.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::repo;

/// Where the steps of the planner are declared, each under the page that describes it.
const OF_PLANNER: (&str, &str) = ("crates/model/src/effect/step.rs", "\nsteps! {");
/// Where the steps of the agent are declared.
const OF_AGENT: (&str, &str) = ("crates/agent/src/run/crash.rs", "enum AgentStep {");
/// Where they are described.
const DOCS: &str = "docs/protocols";

/// A line for each step that a table of the documents has and the code does not, or the other way round.
pub fn check() -> Result<Vec<String>> {
    let (file, begin) = OF_AGENT;
    let code = repo::read(Path::new(file))?;
    let mut all = declared(&code, begin).with_context(|| format!("{file} has no {begin}"))?;
    let (file, begin) = OF_PLANNER;
    let code = repo::read(Path::new(file))?;
    let paged = under_pages(&code, begin).with_context(|| format!("{file} has no {begin}"))?;
    let mut elsewhere = Vec::new();
    for (step, page) in paged {
        let page = format!("{DOCS}/{page}.md");
        if !described_in(&repo::read(Path::new(&page))?).contains(&step) {
            elsewhere.push(format!("{file} has {step} on {page}, which has no such step"));
        }
        all.insert(step);
    }
    let mut described = BTreeSet::new();
    for file in repo::files_with("md")?.iter().filter(|file| file.starts_with(DOCS)) {
        described.extend(described_in(&repo::read(file)?));
    }
    ensure!(!described.is_empty(), "no table of steps in {DOCS}");
    let missing =
        all.difference(&described).map(|step| format!("{step} is a step of the code and not in {DOCS}"));
    let unknown =
        described.difference(&all).map(|step| format!("{step} is a step in {DOCS} and not in the code"));
    Ok(missing.chain(unknown).chain(elsewhere).collect())
}

/// The steps of a macro that begins so, each with the page in quotes that stands above it.
fn under_pages(code: &str, begin: &str) -> Option<Vec<(String, String)>> {
    let (_, rest) = code.split_once(begin)?;
    let (body, _) = rest.split_once("\n}")?;
    let (mut found, mut page) = (Vec::new(), None);
    for line in body.lines().map(str::trim) {
        if let Some((name, _)) = line.strip_prefix('"').and_then(|line| line.split_once('"')) {
            page = Some(name.to_owned());
        } else if let (Some(step), Some(page)) = (line.strip_suffix(',').filter(|name| is_step(name)), &page)
        {
            found.push((step.to_owned(), page.clone()));
        }
    }
    Some(found)
}

/// The variants of the enum that begins so.
fn declared(code: &str, begin: &str) -> Option<BTreeSet<String>> {
    let (_, rest) = code.split_once(begin)?;
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

/// Two letters, or a letter and a number of one or two digits.
fn is_step(word: &str) -> bool {
    match word.as_bytes() {
        [letter, second] => {
            letter.is_ascii_uppercase() && (second.is_ascii_digit() || second.is_ascii_uppercase())
        }
        [letter, tens, ones] => letter.is_ascii_uppercase() && tens.is_ascii_digit() && ones.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_from_the_enum_and_from_the_tables() {
        let code = "pub enum Step {\n    B1,\n    /// Why.\n    BA,\n}\nenum Other { X1, }";
        let all = BTreeSet::from(["B1".to_owned(), "BA".to_owned()]);
        assert_eq!(declared(code, "enum Step {"), Some(all.clone()));
        let code = "macro_rules! steps {\n}\n\nsteps! {\n    \"bootstrap\", None => {\n        /// Why.\n        B1,\n    }\n}\n";
        let paged = vec![("B1".to_owned(), "bootstrap".to_owned())];
        assert_eq!(under_pages(code, "\nsteps! {"), Some(paged));
        assert_eq!(described_in("| step | what |\n| B1 | x |\n## BA: giving up\n## How B2 goes\n"), all);
        assert_eq!(described_in("| U4, U5 | x |").len(), 2);
        assert_eq!(described_in("| A12 | x |\n| ABC | x |"), BTreeSet::from(["A12".to_owned()]));
        assert_eq!(
            described_in("| B4 | act | x |\n| B5 | condition | x |"),
            BTreeSet::from(["B4".to_owned()])
        );
    }
}
