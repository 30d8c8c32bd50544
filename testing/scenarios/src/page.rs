//! A page of the documentation whose commands are run: all of them, word for word, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::Shell;

/// A page, and which of its commands have been covered. Each one must be run or marked as covered elsewhere.
pub struct Page {
    commands: BTreeSet<String>,
    covered: BTreeSet<String>,
}

impl Page {
    /// Reads a page of this repository, by its path from the root.
    pub fn read(path: &str) -> Result<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {path}"))?;
        Ok(Self { commands: commands(&text), covered: BTreeSet::new() })
    }

    /// All commands of the page.
    pub fn commands(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().map(String::as_str)
    }

    /// Runs a command of the page; returns what it printed.
    pub async fn run(&mut self, shell: &Shell, command: &str) -> Result<String> {
        self.mark_as_covered(command)?;
        shell.run(command).await
    }

    /// Marks a command of the page that is not run here as covered.
    pub fn mark_as_covered(&mut self, command: &str) -> Result<()> {
        ensure!(self.commands.contains(command), "the page has no such command: {command}");
        self.covered.insert(command.to_owned());
        Ok(())
    }

    /// Fails if a command of the page was left out.
    pub fn ensure_all_covered(&self) -> Result<()> {
        let left: Vec<&str> = self.commands.difference(&self.covered).map(String::as_str).collect();
        ensure!(left.is_empty(), "on the page, and neither run nor marked as covered:\n{}", left.join("\n"));
        Ok(())
    }
}

/// The lines of code fences; each is a command. A fence of YAML has none.
fn commands(text: &str) -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    let mut fence = None;
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language) };
        } else if fence.is_some_and(|language| language != "yaml") && !line.trim().is_empty() {
            commands.insert(line.trim().to_owned());
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_covered_when_each_of_its_commands_is() {
        let commands = commands(
            "see `kubectl get`\n\n```\nfirst --flag   # why\n\nsecond\n```\nthird\n```yaml\na: 1\n```\n",
        );
        assert_eq!(commands.iter().collect::<Vec<_>>(), ["first --flag   # why", "second"]);
        let mut page = Page { commands, covered: BTreeSet::new() };
        page.mark_as_covered("second").unwrap();
        assert!(page.mark_as_covered("third").is_err());
        assert!(page.ensure_all_covered().unwrap_err().to_string().ends_with("\nfirst --flag   # why"));
        page.mark_as_covered("first --flag   # why").unwrap();
        page.ensure_all_covered().unwrap();
    }
}
