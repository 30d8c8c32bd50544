//! What users read about fields, annotations and commands is written beside the status, and nowhere where facts are observed and decided.

use std::path::Path;

use anyhow::Result;

use crate::repo;

/// The crates of facts and decisions. A message of theirs would be in no golden file.
const CRATES: [&str; 3] = ["crates/model/src/", "crates/planner/src/", "crates/reconcile/src/"];

/// What only a message to a user has.
const NAMES: [&str; 3] = ["spec.", "operator.etcd.io", "kubectl"];

/// A line for each fault.
pub fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in repo::files()? {
        let is_of_facts = CRATES.iter().any(|of| file.starts_with(of));
        if is_of_facts && file.extension().is_some_and(|extension| extension == "rs") {
            faults.extend(faults_in(&file, &repo::read(&file)?));
        }
    }
    Ok(faults)
}

fn faults_in(file: &Path, text: &str) -> Vec<String> {
    let of_product = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
    let faults = of_product.filter_map(|(number, line)| {
        let name = NAMES.iter().find(|name| in_string(line, name))?;
        let place = format!("{}:{}", file.display(), number + 1);
        Some(format!(
            "{place}: {name} in a string: make it a fact, and write its words in crates/status, in waiting"
        ))
    });
    faults.collect()
}

/// Whether a line of code has it after a quotation mark. A string over several lines is seen by its first one, or by the words themselves.
fn in_string(line: &str, name: &str) -> bool {
    let is_comment = line.trim_start().starts_with("//");
    let is_start = |(at, _): (usize, &str)| line[..at].contains('"');
    let continues = line.trim_end().ends_with('\\') || line.trim_end().ends_with("\",");
    !is_comment && (line.match_indices(name).any(is_start) || (continues && line.contains(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_in_a_string_is_a_fault_and_one_in_a_comment_or_an_expression_is_none() {
        let file = Path::new("crates/planner/src/a.rs");
        let faults = |text: &str| faults_in(file, text).len();
        assert_eq!(faults("    let why = \"raise spec.size\";\n"), 1);
        assert_eq!(faults("    let why = \"first \\\n        kubectl delete pod \\\n        second\";\n"), 1);
        assert_eq!(faults("    /// `spec.size`, \"as it is\".\n    let size = backup.spec.size;\n"), 0);
        assert_eq!(faults("#[cfg(test)]\nmod tests { const A: &str = \"kubectl\"; }\n"), 0);
    }
}
