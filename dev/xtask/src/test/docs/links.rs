//! Links between the documents, and from them to the code.

use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::markdown;
use crate::repo;

/// A line for each broken link. Links to other sites are not followed: that would be a test of the network.
pub fn check() -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in repo::files_with("md")? {
        for (number, line) in markdown::prose(&repo::read(&file)?) {
            for target in markdown::links(&line).into_iter().filter(|target| !is_elsewhere(target)) {
                if let Some(fault) = fault(&file, target)? {
                    faults.push(format!("{}:{number}: {target}: {fault}", file.display()));
                }
            }
        }
    }
    Ok(faults)
}

fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

fn fault(from: &Path, target: &str) -> Result<Option<String>> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = match path {
        "" => from.to_owned(),
        path => match joined(from, path) {
            Some(file) => file,
            None => return Ok(Some("is outside of the repository".to_owned())),
        },
    };
    if !repo::root().join(&file).exists() {
        return Ok(Some("no such file".to_owned()));
    }
    let Some(anchor) = anchor.filter(|_| file.extension().is_some_and(|extension| extension == "md")) else {
        return Ok(None);
    };
    let anchors = markdown::anchors(&repo::read(&file)?);
    Ok((!anchors.iter().any(|found| found == anchor))
        .then(|| format!("no such heading among {}", anchors.join(", "))))
}

/// The path from the root; `None` if it is outside.
fn joined(from: &Path, path: &str) -> Option<PathBuf> {
    let mut file = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                if !file.pop() {
                    return None;
                }
            }
            Component::Normal(name) => file.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_link_is_a_fault() {
        let from = Path::new("docs/hazards.md");
        assert_eq!(fault(from, "../Cargo.toml").unwrap(), None);
        assert_eq!(fault(from, "#hazards").unwrap(), None);
        assert_eq!(fault(from, "protocols").unwrap(), None);
        assert_eq!(fault(from, "../no.md").unwrap().as_deref(), Some("no such file"));
        assert_eq!(fault(from, "../../x").unwrap().as_deref(), Some("is outside of the repository"));
        assert!(fault(from, "#no-such").unwrap().unwrap().contains("no such heading"));
    }
}
