//! `cargo xtask crds`: the CRDs as files, one file for each kind, as `quorate crds` prints them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, children, repo};

/// Where the files are.
const FOLDER: &str = "config/crd";

/// Writes the files, and removes those of kinds that no longer exist.
pub fn write() -> Result<()> {
    let folder = repo::root().join(FOLDER);
    fs::create_dir_all(&folder)?;
    let (desired, present) = (desired()?, present()?);
    for file in present.keys().filter(|file| !desired.contains_key(*file)) {
        fs::remove_file(repo::root().join(file))?;
        println!("removed {}", file.display());
    }
    for (file, text) in &desired {
        let state = if present.get(file) == Some(text) { "unchanged" } else { "written" };
        fs::write(repo::root().join(file), text)
            .with_context(|| format!("cannot write {}", file.display()))?;
        println!("{} {state}", file.display());
    }
    Ok(())
}

/// What differs between the files and the code, a line each.
pub fn drift() -> Result<Vec<String>> {
    let (desired, present) = (desired()?, present()?);
    let mut faults = Vec::new();
    for (file, text) in &desired {
        if present.get(file) != Some(text) {
            faults.push(format!("{}: differs from the code; run `cargo xtask crds`", file.display()));
        }
    }
    for file in present.keys().filter(|file| !desired.contains_key(*file)) {
        faults.push(format!("{}: no such kind; run `cargo xtask crds`", file.display()));
    }
    Ok(faults)
}

fn desired() -> Result<BTreeMap<PathBuf, String>> {
    files_of(&children::output(Command::new(cargo::program("quorate", "quorate")?).arg("crds"))?)
}

fn present() -> Result<BTreeMap<PathBuf, String>> {
    let mut files = repo::files_with("yaml")?;
    files.retain(|file| file.starts_with(FOLDER));
    files.into_iter().map(|file| Ok((file.clone(), repo::read(&file)?))).collect()
}

/// Splits a stream of YAML documents into files named after group and plural.
fn files_of(stream: &str) -> Result<BTreeMap<PathBuf, String>> {
    let documents = stream.split("---\n").map(str::trim).filter(|document| !document.is_empty());
    let file = |document: &str| {
        let metadata = document.lines().skip_while(|line| *line != "metadata:");
        let name = metadata.skip(1).find_map(|line| line.strip_prefix("  name: "));
        let (plural, group) = name.and_then(|name| name.split_once('.')).context("a CRD without a name")?;
        let path = PathBuf::from(FOLDER).join(format!("{group}_{plural}.yaml"));
        Ok((path, format!("---\n{document}\n")))
    };
    documents.map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_document_becomes_a_file_named_after_group_and_plural() {
        let files = files_of(
            "---\nkind: X\nmetadata:\n  name: as.b.c\nspec:\n  name: no\n---\nmetadata:\n  name: ds.b.c\n",
        )
        .unwrap();
        let names: Vec<_> = files.keys().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["config/crd/b.c_as.yaml", "config/crd/b.c_ds.yaml"]);
        assert!(files.values().all(|text| text.starts_with("---\n") && text.ends_with('\n')));
        assert!(files_of("---\nkind: X\n").is_err());
    }
}
