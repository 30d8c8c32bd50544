//! Which crate may depend on which, and which crates the container image must not contain.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::metadata::{Package, packages};
use crate::{cargo, children};

/// The map of ARCHITECTURE.md. A crate that is missing here is a fault.
const ARROWS: [(&str, &[&str]); 22] = [
    ("quorate-model", &[]),
    ("quorate-planner", &["quorate-model"]),
    ("quorate-api", &[]),
    ("quorate-manifests", &["quorate-model", "quorate-api"]),
    ("quorate-status", &["quorate-model", "quorate-api", "quorate-manifests"]),
    (
        "quorate-reconcile",
        &["quorate-model", "quorate-planner", "quorate-api", "quorate-manifests", "quorate-status"],
    ),
    ("quorate-orders", &["quorate-model", "quorate-api", "quorate-manifests", "quorate-status"]),
    ("quorate-etcd", &["quorate-model"]),
    (
        "quorate-operator",
        &[
            "quorate-model",
            "quorate-planner",
            "quorate-api",
            "quorate-manifests",
            "quorate-status",
            "quorate-reconcile",
            "quorate-orders",
            "quorate-etcd",
        ],
    ),
    ("quorate-backup", &["quorate-api", "quorate-etcd", "quorate-model"]),
    ("quorate-agent", &["quorate-api", "quorate-backup", "quorate-etcd", "quorate-model"]),
    ("quorate-apistore", &[]),
    ("quorate-pki", &[]),
    ("quorate-rubbish", &[]),
    ("quorate-localkube", &["quorate-apistore"]),
    ("quorate-playground", &["quorate-apistore", "quorate-localkube", "quorate-api"]),
    (
        "quorate-sim",
        &[
            "quorate-model",
            "quorate-planner",
            "quorate-manifests",
            "quorate-status",
            "quorate-api",
            "quorate-reconcile",
            "quorate-apistore",
            "quorate-pki",
        ],
    ),
    ("quorate-scenarios", &["quorate-api", "quorate-etcd"]),
    ("quorate", &["quorate-operator", "quorate-agent", "quorate-api", "quorate-playground"]),
    ("xtask", &[]),
    ("rig", &["xtask"]),
    (
        "bench",
        &[
            "quorate-api",
            "quorate-etcd",
            "quorate-manifests",
            "quorate-model",
            "quorate-orders",
            "xtask",
            "quorate-scenarios",
        ],
    ),
];

/// Crates of derives alone: they add code that could be written by hand, and do nothing by themselves.
const DERIVES: [&str; 1] = ["strum"];

/// The pure crates: they use the standard library and the crates above only, so no network, clock or randomness.
const PURE: [&str; 2] = ["quorate-model", "quorate-planner"];

/// Crates that only run on a developer's machine.
const LAPTOP: [&str; 7] = [
    "quorate-playground",
    "quorate-localkube",
    "quorate-apistore",
    "quorate-pki",
    "quorate-rubbish",
    "quorate-sim",
    "quorate-scenarios",
];

/// A line for each arrow that is not on the map.
pub fn check() -> Result<Vec<String>> {
    Ok(packages()?.iter().flat_map(faults_of).collect())
}

/// The program of the container image contains none of [`LAPTOP`]. That it compiles is shown where the image is built.
pub fn image() -> Result<Vec<String>> {
    let features = ["--package", "quorate", "--no-default-features"];
    let mut tree = cargo::command();
    tree.args(["tree", "--prefix=none", "--edges=normal", "--locked"]).args(features);
    let tree = children::output(&mut tree).context("the tree of dependencies is known")?;
    let linked = |name: &&str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let laptop = LAPTOP.iter().copied().filter(linked);
    Ok(laptop.map(|name| format!("{name} would be in the container image")).collect())
}

fn faults_of(package: &Package) -> Vec<String> {
    let name = package.name.as_str();
    let map = BTreeMap::from(ARROWS);
    let Some(allowed) = map.get(name) else {
        return vec![format!(
            "{name} is not on the map: add it to ARCHITECTURE.md and dev/xtask/src/test/lint/arrows.rs"
        )];
    };
    let mut faults = Vec::new();
    // Tests may depend on any crate.
    for dependency in package.dependencies.iter().filter(|one| one.kind.as_deref() != Some("dev")) {
        let used = dependency.name.as_str();
        if dependency.path.is_some() && !allowed.contains(&used) {
            faults.push(format!("{name} -> {used}: no such arrow on the map"));
        }
        if dependency.path.is_none() && PURE.contains(&name) && !DERIVES.contains(&used) {
            faults.push(format!("{name} -> {used}: {name} is pure"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Dependency;
    use super::*;

    fn package(name: &str, used: &str, kind: Option<&str>, ours: bool) -> Package {
        let path = ours.then(String::new);
        let dependency = Dependency { name: used.to_owned(), kind: kind.map(str::to_owned), path };
        Package { name: name.to_owned(), dependencies: vec![dependency], ..Package::default() }
    }

    #[test]
    fn an_arrow_that_is_not_on_the_map_is_a_fault() {
        assert!(faults_of(&package("quorate-planner", "quorate-model", None, true)).is_empty());
        assert_eq!(faults_of(&package("quorate-planner", "quorate-etcd", None, true)).len(), 1);
        assert!(faults_of(&package("quorate-planner", "quorate-etcd", Some("dev"), true)).is_empty());
        assert_eq!(faults_of(&package("quorate-new", "serde", None, false)).len(), 1);
    }

    #[test]
    fn the_pure_crates_use_no_code_of_others_except_in_tests() {
        assert_eq!(faults_of(&package("quorate-model", "tokio", None, false)).len(), 1);
        assert!(faults_of(&package("quorate-planner", "insta", Some("dev"), false)).is_empty());
        assert!(faults_of(&package("quorate-operator", "tokio", None, false)).is_empty());
    }
}
