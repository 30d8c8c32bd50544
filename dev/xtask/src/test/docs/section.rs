//! A part of a page that is generated, between two comments of it.

use std::path::Path;

use anyhow::{Context, Result};

use crate::repo;

/// Where it is, and what it says.
pub struct Section {
    /// The page, from the root.
    pub page: &'static str,
    /// The line before it.
    pub begin: &'static str,
    /// The line after it.
    pub end: &'static str,
    /// What it is to say.
    pub text: fn() -> Result<String>,
}

impl Section {
    /// A line if the page has another text.
    pub fn check(&self) -> Result<Vec<String>> {
        let is_so = self.read()? == self.desired()?;
        Ok(if is_so { Vec::new() } else { vec![format!("{}: run `cargo xtask docs`", self.page)] })
    }

    /// Writes it.
    pub fn write(&self) -> Result<()> {
        let file = repo::root().join(self.page);
        std::fs::write(file, self.desired()?).with_context(|| format!("cannot write {}", self.page))
    }

    fn read(&self) -> Result<String> {
        repo::read(Path::new(self.page))
    }

    /// The page with the text that it is to have.
    fn desired(&self) -> Result<String> {
        let Self { page, begin, end, text } = self;
        let present = self.read()?;
        let missing = |line: &str| format!("{page} has no line {:?}", line.trim());
        let (before, rest) = present.split_once(begin).with_context(|| missing(begin))?;
        let (_, after) = rest.split_once(end).with_context(|| missing(end))?;
        Ok(format!("{before}{begin}\n{}\n{end}{after}", text()?))
    }
}
