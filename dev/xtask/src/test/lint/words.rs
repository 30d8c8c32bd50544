//! Words that no committed file may have: notes of work to do later, and paths of one machine.

use std::path::Path;

use anyhow::Result;

use crate::repo;

/// In pieces, so that this file passes too.
const WORDS: [(&[&str], &str); 8] = [
    (&["TO", "DO"], "do it, or write an issue"),
    (&["FIX", "ME"], "do it, or write an issue"),
    (&["XX", "X"], "do it, or write an issue"),
    (&["to", "do!("], "no stub in the tree"),
    (&["unimple", "mented!("], "no stub in the tree"),
    (&["db", "g!("], "left from debugging"),
    (&["#[", "ignore"], "a test is run or deleted"),
    (&["/wo", "rk/"], "a path of one machine"),
];

/// A line for each fault.
pub fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in repo::files()? {
        let generated = file.ends_with("Cargo.lock") || file.ends_with("go.sum");
        // Skips files that are not text.
        if let (false, Ok(text)) = (generated, repo::read(&file)) {
            faults.extend(faults_in(&file, &text));
        }
    }
    Ok(faults)
}

fn faults_in(file: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (pieces, reason) in WORDS {
            let word = pieces.concat();
            if has(line, &word) {
                faults.push(format!("{}:{}: {word}: {reason}", file.display(), number + 1));
            }
        }
    }
    faults
}

/// Whether the line has the word by itself, not as a part of a longer word.
fn has(line: &str, word: &str) -> bool {
    let letter = |neighbour: Option<char>| neighbour.is_some_and(char::is_alphanumeric);
    let inner = |edge: char, neighbour| edge.is_alphanumeric() && letter(neighbour);
    line.match_indices(word).any(|(at, _)| {
        let before = inner(word.chars().next().unwrap_or(' '), line[..at].chars().next_back());
        let after = inner(word.chars().next_back().unwrap_or(' '), line[at + word.len()..].chars().next());
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_only_by_itself() {
        let word = WORDS[2].0.concat();
        assert!(has(&format!("// {word}: later"), &word));
        assert!(!has(&format!("mktemp a.{word}{word}"), &word));
        let faults = faults_in(Path::new("a.rs"), &format!("\nfn f() {{ {}) }}\n", WORDS[3].0.concat()));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("a.rs:2: "), "{faults:?}");
    }
}
