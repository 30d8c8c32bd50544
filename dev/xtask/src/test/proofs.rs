//! Proofs that are kept. Explorations, random histories, mutants and crash campaigns have fixed seeds and a clock of their own, so for the same inputs
//! they are the same proof: what passed once on this machine is not run again. Inputs are the files of every package that a tier's tests are built
//! from, the versions of all crates, the compiler, and the variables that tests read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest, Sha256};

use super::Context;
use super::lint::metadata::{self, Dependency, Package};
use super::report::{State, Verdict};
use super::tiers::Tier;
use crate::cache::{self, Entry};
use crate::{cargo, children, repo};

/// What tests are built from or read, beside their packages.
const SHARED: [&str; 6] =
    [".config", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "config", "dev/xtask/src/test"];

/// The variables that change what tests do begin so.
const VARIABLES: [&str; 2] = ["QUORATE_TEST_", "QUORATE_SEED"];

/// How many proofs of a tier are kept, of a line each.
const KEPT: usize = 50;

/// The verdict on a tier: that of an earlier run on the same inputs, or that of `run`.
pub fn once(tier: Tier, context: &Context, run: impl FnOnce() -> Result<Verdict>) -> Result<Verdict> {
    let is_whole = !context.full && context.only.is_empty();
    let Some(packages) = packages(tier).filter(|_| is_whole) else { return run() };
    context.built()?;
    // A file that was edited since the tests were built is in no test.
    let Some(inputs) = inputs(packages)? else { return run() };
    let entry = Entry::of("proof", &tier.name(), &inputs);
    if entry.exists() {
        let kept = entry.get(|_| anyhow::bail!("it exists"))?;
        let what = fs::read_to_string(&kept).with_context(|| format!("cannot read {}", kept.display()))?;
        return Ok(Verdict::new(State::Ok, format!("{what}, kept: they passed before on the same inputs")));
    }
    let verdict = run()?;
    if verdict.state == State::Ok {
        let kept = entry.get(|scratch| -> Result<PathBuf> {
            let file = scratch.join("proof");
            fs::write(&file, &verdict.what).with_context(|| format!("cannot write {}", file.display()))?;
            Ok(file)
        })?;
        let folder = kept.parent().context("it lies in a folder")?;
        cache::remove_old(folder, &format!("proof-{}-", tier.name()), KEPT)?;
    }
    Ok(verdict)
}

/// The packages whose tests are those of a tier, if all of them are deterministic.
fn packages(tier: Tier) -> Option<&'static [&'static str]> {
    match tier {
        Tier::Crash => Some(&["quorate-operator"]),
        Tier::Explore | Tier::Random => Some(&["quorate-sim", "quorate-orders"]),
        Tier::Quick | Tier::Lint | Tier::Unit | Tier::Docs | Tier::Shell | Tier::Etcd | Tier::Kube => None,
    }
}

/// Everything that decides how the tests of these packages end; `None` if some of it changed since they were built.
fn inputs(packages: &[&str]) -> Result<Option<String>> {
    let built = repo::target().join("tests");
    let modified = |file: &Path| fs::metadata(file).and_then(|found| found.modified());
    let built_at = modified(&built.join("binaries.json")).context("the tests are not built")?;
    let folders = folders(&metadata::packages()?, packages)?;
    let mut inputs = cargo::compiler()?;
    let mut variables: Vec<(String, String)> = std::env::vars().collect();
    variables.retain(|(name, _)| VARIABLES.iter().any(|own| name.starts_with(own)));
    variables.sort();
    inputs.extend(variables.iter().map(|(name, value)| format!("{name}={value}\n")));
    // Which features a package has, the others of the workspace decide as well.
    let mut files = repo::git();
    files.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    files.args(folders).args(SHARED).arg("*Cargo.toml");
    let listed = children::output(&mut files)?;
    let paths: BTreeSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    for path in paths {
        let file = repo::root().join(path);
        // One that was deleted and is still in the index.
        let Ok(content) = fs::read(&file) else { continue };
        if modified(&file).is_ok_and(|at| at > built_at) {
            return Ok(None);
        }
        let digest: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        inputs.extend([path, " ", &digest, "\n"]);
    }
    Ok(Some(inputs))
}

/// The folders of these packages, and of every package of the workspace that they are built from.
fn folders(all: &[Package], packages: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<(&str, bool)> = packages.iter().map(|name| (*name, true)).collect();
    while let Some((name, is_tested)) = open.pop() {
        let package = all.iter().find(|package| package.name == name);
        let package = package.with_context(|| format!("no package is called {name}"))?;
        let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
        if !found.insert(folder.to_owned()) {
            continue;
        }
        let is_built = |one: &&Dependency| is_tested || one.kind.as_deref() != Some("dev");
        let own = package.dependencies.iter().filter(|one| one.path.is_some()).filter(is_built);
        open.extend(own.map(|one| (one.name.as_str(), false)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, dependencies: &Value) -> Package {
        let manifest = format!("/w/{name}/Cargo.toml");
        let package =
            json!({ "name": name, "manifest_path": manifest, "dependencies": dependencies, "targets": [] });
        serde_json::from_value(package).unwrap()
    }

    #[test]
    fn a_proof_rests_on_what_its_tests_are_built_from_and_on_no_tests_of_that() {
        let all = [
            package(
                "sim",
                &json!([{ "name": "planner", "path": "/w/planner", "kind": null }, { "name": "serde", "kind": null }]),
            ),
            package(
                "planner",
                &json!([
                    { "name": "model", "path": "/w/model", "kind": null },
                    { "name": "pki", "path": "/w/pki", "kind": "dev" },
                ]),
            ),
            package("model", &json!([])),
            package("pki", &json!([])),
            package("other", &json!([])),
        ];
        let folders = folders(&all, &["sim"]).unwrap();
        assert_eq!(folders, ["/w/model", "/w/planner", "/w/sim"].map(PathBuf::from).into());
        assert!(super::folders(&all, &["gone"]).is_err());
    }
}
