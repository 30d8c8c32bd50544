//! `cargo xtask manifests`: the plain manifests, rendered from the chart, so that there is one source.
//!
//! The chart has copies of the CRDs and of the files in monitoring/, because Helm reads nothing outside of a chart.

mod judge;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, children, image, repo};

pub use judge::documents;

const CHART: &str = "charts/quorate";

/// Where the chart's copy of the CRDs is.
const CHART_CRDS: &str = "charts/quorate/files/crd";

/// Where the CRDs are.
const CRDS: &str = "config/crd";

/// Files for Prometheus and Grafana, and where the chart's copies of them are.
const MONITORING: &str = "monitoring";
const MONITORING_FILES: [&str; 3] = ["rules.yaml", "members.txt", "dashboard.json"];
const CHART_MONITORING: &str = "charts/quorate/files/monitoring";

/// What is rendered.
pub const PLAIN: &str = "config/install/quorate.yaml";

/// Where the plain manifests install.
const NAMESPACE: &str = "quorate-system";

/// The version of Kubernetes to render for. The chart depends on it only by the minimum version in Chart.yaml.
const KUBERNETES: &str = "1.33.0";

/// The namespace, which a chart leaves to `helm install --create-namespace`.
const HEAD: &str = "\
# Installs Quorate, the etcd operator, with two replicas that work in all namespaces. docs/install.md has the rest.
# Generated from charts/quorate by `cargo xtask manifests`.
---
apiVersion: v1
kind: Namespace
metadata:
  name: quorate-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
";

/// Values with which the chart is checked, besides its defaults.
const VARIANTS: [&[&str]; 5] = [
    &["namespaces={one,two}", "metrics.auth=true"],
    &["metrics.auth=true", "metrics.serviceMonitor.enabled=true", "kamaji.enabled=true"],
    &[
        "networkPolicy.enabled=true",
        "metrics.serviceMonitor.enabled=true",
        "imageRegistry=example/etcd",
        "allowedImageRegistries={a.example,b/c}",
    ],
    &[
        "monitoring.rules.enabled=true",
        "monitoring.members.enabled=true",
        "monitoring.dashboard.enabled=true",
    ],
    &["replicas=1", "metrics.enabled=false", "image.repository=example/quorate", "image.digest=sha256:0"],
];

/// Writes what is generated.
pub fn write() -> Result<()> {
    let desired = desired(&helm()?)?;
    for file in extra(&desired)? {
        fs::remove_file(repo::root().join(&file))?;
        println!("removed {}", file.display());
    }
    for (file, text) in &desired {
        let state =
            if repo::read(file).is_ok_and(|present| present == *text) { "unchanged" } else { "written" };
        let path = repo::root().join(file);
        fs::create_dir_all(path.parent().expect("it lies in a folder"))?;
        fs::write(path, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{} {state}", file.display());
    }
    Ok(())
}

/// [`drift`], for people.
pub fn check() -> Result<()> {
    let faults = drift()?;
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    println!("the chart, its CRDs and {PLAIN} agree, and keep the rules");
    Ok(())
}

/// Files that differ from the chart and the code, and broken rules, a line each.
pub fn drift() -> Result<Vec<String>> {
    let helm = helm()?;
    let desired = desired(&helm)?;
    let mut faults = Vec::new();
    for (file, text) in &desired {
        if !repo::read(file).is_ok_and(|present| present == *text) {
            faults.push(format!("{}: out of date; run `cargo xtask manifests`", file.display()));
        }
    }
    for file in extra(&desired)? {
        faults.push(format!("{}: no such kind; run `cargo xtask manifests`", file.display()));
    }

    let flags = flags_of_the_operator()?;
    if !flags.contains(&format!("[default: {}]", image::REFERENCE)) {
        faults.push(format!(
            "the operator's default of --agent-image is not {}, the image that `cargo xtask image` writes",
            image::REFERENCE
        ));
    }
    let crds = repo_crds()?;
    for values in std::iter::once([].as_slice()).chain(VARIANTS) {
        let rendered = judge::documents(&render(&helm, values)?)?;
        let mut found = judge::faults(&rendered, &crds);
        found.extend(judge::unknown_flags(&rendered, &flags));
        let with = if values.is_empty() { String::new() } else { format!(" with {}", values.join(",")) };
        faults.extend(found.into_iter().map(|fault| format!("{CHART}{with}: {fault}")));
    }
    Ok(faults)
}

/// The files that are generated and what is in them, by path from the root.
fn desired(helm: &Path) -> Result<BTreeMap<PathBuf, String>> {
    let mut files = BTreeMap::new();
    for file in repo_files(CRDS)? {
        let name = file.file_name().expect("files have names");
        files.insert(Path::new(CHART_CRDS).join(name), repo::read(&file)?);
    }
    for name in MONITORING_FILES {
        files.insert(Path::new(CHART_MONITORING).join(name), repo::read(&Path::new(MONITORING).join(name))?);
    }
    // Read from the chart's copies, so these come first.
    for (file, text) in &files {
        if repo::read(file).ok().as_ref() != Some(text) {
            fs::create_dir_all(repo::root().join(file).parent().expect("it lies in a folder"))?;
            fs::write(repo::root().join(file), text)?;
        }
    }
    files.insert(PLAIN.into(), plain(&render(helm, &["crds.keep=false"])?));
    Ok(files)
}

/// Files in the chart's copy of the CRDs that have no original.
fn extra(desired: &BTreeMap<PathBuf, String>) -> Result<Vec<PathBuf>> {
    let mut present = repo_files(CHART_CRDS)?;
    present.retain(|file| !desired.contains_key(file));
    Ok(present)
}

fn repo_files(folder: &str) -> Result<Vec<PathBuf>> {
    let mut files = repo::files_with("yaml")?;
    files.retain(|file| file.parent() == Some(Path::new(folder)));
    Ok(files)
}

fn repo_crds() -> Result<Vec<serde_json::Value>> {
    let mut crds = Vec::new();
    for file in repo_files(CRDS)? {
        crds.extend(judge::documents(&repo::read(&file)?)?);
    }
    ensure!(!crds.is_empty(), "no CRD in {CRDS}; run `cargo xtask crds`");
    Ok(crds)
}

/// Helm, which is built like the other tools, or is on the PATH.
fn helm() -> Result<PathBuf> {
    let built = repo::tools().join("bin/helm");
    let helm = if built.is_file() { built } else { "helm".into() };
    let version = children::output(Command::new(&helm).args(["version", "--short"])).with_context(|| {
        format!("no Helm: neither in {} nor on the PATH", repo::tools().join("bin").display())
    })?;
    ensure!(
        version.starts_with("v3.") || version.starts_with("v4."),
        "Helm 3 or 4 is needed, and this is {version}"
    );
    Ok(helm)
}

fn render(helm: &Path, values: &[&str]) -> Result<String> {
    let mut template = Command::new(helm);
    template.current_dir(repo::root());
    template.args(["template", "quorate", CHART, "--namespace", NAMESPACE, "--kube-version", KUBERNETES]);
    for value in values {
        template.args(["--set", value]);
    }
    children::output(&mut template)
}

/// Leaves out labels and annotations that are for Helm only.
fn plain(rendered: &str) -> String {
    const HELMS: [&str; 3] = ["# Source: ", "helm.sh/chart: ", "app.kubernetes.io/managed-by: Helm"];
    let mut text = HEAD.to_owned();
    let mut open = false;
    // Empty lines between documents are of the templates; those within are of long texts.
    let mut empty = 0;
    for line in rendered.lines() {
        let bare = line.trim_start();
        // A document that begins twice is an empty one.
        let again = line == "---" && open;
        if again || HELMS.iter().any(|helms| bare.starts_with(helms)) {
            continue;
        }
        if line.is_empty() {
            empty += 1;
            continue;
        }
        if !open && line != "---" {
            text += &"\n".repeat(empty);
        }
        empty = 0;
        open = line == "---";
        text += line;
        text.push('\n');
    }
    text
}

/// The help of `quorate operator`.
fn flags_of_the_operator() -> Result<String> {
    children::output(Command::new(cargo::program("quorate", "quorate")?).args(["operator", "--help"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_manifests_have_nothing_for_helm() {
        let rendered = "---\n# Source: a\n\n---\nkind: A\nmetadata:\n  labels:\n    helm.sh/chart: x\n    a: |\n      b\n\n\
                        \x20     c\n\n---\nkind: B\n";
        let text = plain(rendered);
        assert_eq!(
            text,
            format!("{HEAD}---\nkind: A\nmetadata:\n  labels:\n    a: |\n      b\n\n      c\n---\nkind: B\n")
        );
    }

    /// That they agree with the chart is checked by rendering it, which needs Helm.
    #[test]
    fn the_plain_manifests_keep_the_rules() {
        let plain = judge::documents(&repo::read(Path::new(PLAIN)).unwrap()).unwrap();
        assert_eq!(judge::faults(&plain, &repo_crds().unwrap()), [] as [String; 0]);
        assert!(judge::images(&plain).iter().all(|found| found == image::REFERENCE));
        assert!(!judge::images(&plain).is_empty());
        let of = |kind: &str| plain.iter().filter(|document| document["kind"] == kind).count();
        assert_eq!([of("Namespace"), of("Deployment"), of("ServiceAccount")], [1, 1, 1]);
        assert_eq!(plain[0]["metadata"]["name"], NAMESPACE);
    }

    #[test]
    fn n16_the_lease_of_the_operator_comes_before_its_other_requests_which_have_a_level_of_their_own() {
        let plain = judge::documents(&repo::read(Path::new(PLAIN)).unwrap()).unwrap();
        let of = |kind: &str| -> Vec<_> { plain.iter().filter(|one| one["kind"] == kind).collect() };
        let schemas: BTreeMap<_, _> = of("FlowSchema")
            .into_iter()
            .map(|one| (one["metadata"]["name"].as_str().unwrap(), &one["spec"]))
            .collect();
        let (lease, all) = (schemas["quorate-lease"], schemas["quorate"]);
        let precedence = |schema: &serde_json::Value| schema["matchingPrecedence"].as_u64().unwrap();
        assert!(precedence(lease) < precedence(all));
        assert_eq!(lease["priorityLevelConfiguration"]["name"], "leader-election");
        assert_eq!(lease["rules"][0]["resourceRules"][0]["resources"], serde_json::json!(["leases"]));
        let [level] = of("PriorityLevelConfiguration")[..] else { panic!("one level") };
        assert_eq!(all["priorityLevelConfiguration"]["name"], level["metadata"]["name"]);
        let account = of("ServiceAccount")[0]["metadata"]["name"].clone();
        let subject =
            |schema: &serde_json::Value| schema["rules"][0]["subjects"][0]["serviceAccount"]["name"].clone();
        assert_eq!([subject(lease), subject(all)], [account.clone(), account]);
    }

    #[test]
    fn the_charts_copy_of_the_crds_is_the_crds() {
        let names = |folder: &str| -> Vec<_> {
            let files = repo_files(folder).unwrap();
            files.iter().map(|file| file.file_name().unwrap().to_owned()).collect()
        };
        assert_eq!(names(CHART_CRDS), names(CRDS));
        for (copy, original) in repo_files(CHART_CRDS).unwrap().iter().zip(repo_files(CRDS).unwrap()) {
            assert!(repo::read(copy).unwrap() == repo::read(&original).unwrap(), "{}", copy.display());
        }
    }

    #[test]
    fn the_charts_copies_for_monitoring_are_the_files() {
        for name in MONITORING_FILES {
            let of = |folder: &str| repo::read(&Path::new(folder).join(name)).unwrap();
            assert!(of(CHART_MONITORING) == of(MONITORING), "{name}: run `cargo xtask manifests`");
        }
    }

    #[test]
    fn the_chart_is_of_this_version() {
        let chart = judge::documents(&repo::read(&Path::new(CHART).join("Chart.yaml")).unwrap()).unwrap();
        assert_eq!(chart[0]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(chart[0]["appVersion"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn every_value_of_the_chart_is_explained() {
        let docs = repo::read(Path::new("docs/install.md")).unwrap();
        let values = judge::documents(&repo::read(&Path::new(CHART).join("values.yaml")).unwrap()).unwrap();
        for name in values[0].as_object().unwrap().keys() {
            let names = [format!("`{name}`"), format!("`{name}.")];
            assert!(names.iter().any(|name| docs.contains(name)), "docs/install.md has no line for {name}");
        }
    }
}
