//! The runbook has an entry for every reason, and for nothing else.

use std::collections::BTreeSet;

use quorate_api::Reason;

const RUNBOOK: &str = include_str!("../../../docs/runbook.md");

/// The first cells of all tables whose first column is called so, without the backticks.
fn entries(column: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in RUNBOOK.lines() {
        let Some(cell) = line.strip_prefix("| ").and_then(|row| row.split(" | ").next()) else {
            inside = false;
            continue;
        };
        if cell == column {
            inside = true;
        } else if inside && !cell.starts_with("---") {
            found.push(cell.trim_matches('`'));
        }
    }
    found
}

#[test]
fn the_runbook_has_one_entry_for_every_reason_and_for_nothing_else() {
    let entries = entries("reason");
    let found: BTreeSet<&str> = entries.iter().copied().collect();
    let reasons: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(found, reasons, "left: entries of docs/runbook.md; right: reasons in the code");
    assert_eq!(entries.len(), found.len(), "a reason has two entries: {entries:?}");
}
