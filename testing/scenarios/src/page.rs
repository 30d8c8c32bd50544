//! A page of the documentation whose commands are run: all of them, as they stand, and no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::Shell;

/// A page that is being followed. Every command on it has to be run or told why not, by [`Self::all_is_followed`].
pub struct Page {
    commands: BTreeSet<String>,
    followed: BTreeSet<String>,
}

impl Page {
    /// Reads a page of this repository, by its path from the root.
    pub fn read(path: &str) -> Result<Self> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {path}"))?;
        Ok(Self { commands: commands(&text), followed: BTreeSet::new() })
    }

    /// Runs a command of the page; what it printed.
    pub async fn follow(&mut self, shell: &Shell, command: &str) -> Result<String> {
        self.passes(command)?;
        shell.run(command).await
    }

    /// A command of the page that something else stands in for.
    pub fn passes(&mut self, command: &str) -> Result<()> {
        ensure!(self.commands.contains(command), "the page has no such command: {command}");
        self.followed.insert(command.to_owned());
        Ok(())
    }

    /// Fails if a command of the page was left out.
    pub fn all_is_followed(&self) -> Result<()> {
        let left: Vec<&str> = self.commands.difference(&self.followed).map(String::as_str).collect();
        ensure!(left.is_empty(), "on the page, and neither run nor stood in for:\n{}", left.join("\n"));
        Ok(())
    }
}

/// What stands in code fences, a command a line.
fn commands(text: &str) -> BTreeSet<String> {
    let mut commands = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced && !line.trim().is_empty() {
            commands.insert(line.trim().to_owned());
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_followed_when_each_of_its_commands_was() {
        let commands = commands("see `kubectl get`\n\n```\nfirst --flag   # why\n\nsecond\n```\nthird\n");
        assert_eq!(commands.iter().collect::<Vec<_>>(), ["first --flag   # why", "second"]);
        let mut page = Page { commands, followed: BTreeSet::new() };
        page.passes("second").unwrap();
        assert!(page.passes("third").is_err());
        assert!(page.all_is_followed().unwrap_err().to_string().ends_with("\nfirst --flag   # why"));
        page.passes("first --flag   # why").unwrap();
        page.all_is_followed().unwrap();
    }
}
