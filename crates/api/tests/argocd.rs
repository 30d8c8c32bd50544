//! The scripts for Argo CD, and the patch of its ConfigMap that has them all.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use quorate_api::crds;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/quorate/files/argocd")
}

fn indented(text: &str, by: usize) -> String {
    let line = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("{:by$}{line}\n", "") };
    text.lines().map(line).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// In the form in which `argocd-cm` has them.
fn patch() -> String {
    let mut patch = "data:\n".to_owned();
    for crd in crds() {
        let kind = format!("{}_{}", crd.spec.group, crd.spec.names.kind);
        let folder = folder().join(&kind);
        let health = indented(&read(&folder.join("health.lua")), 4);
        write!(patch, "  resource.customizations.health.{kind}: |\n{health}").unwrap();
        let Ok(entries) = fs::read_dir(folder.join("actions")) else { continue };
        let mut actions: Vec<PathBuf> =
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
        actions.sort();
        let discovery = indented(&read(&folder.join("actions/discovery.lua")), 6);
        write!(
            patch,
            "  resource.customizations.actions.{kind}: |\n    discovery.lua: |\n{discovery}    definitions:\n"
        )
        .unwrap();
        for action in actions {
            let name = action.file_name().unwrap().to_str().unwrap();
            let script = indented(&read(&action.join("action.lua")), 8);
            write!(patch, "    - name: {name}\n      action.lua: |\n{script}").unwrap();
        }
    }
    patch
}

#[test]
fn the_patch_for_argo_cd_has_the_scripts_of_every_kind() {
    let (file, patch) = (folder().join("argocd-cm.yaml"), patch());
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&file, &patch).unwrap();
    }
    assert!(read(&file) == patch, "run it with INSTA_UPDATE=always and read the difference");
    let parsed: Value = serde_yaml_ng::from_str(&patch).unwrap();
    let data = parsed["data"].as_object().unwrap();
    assert_eq!(data.keys().filter(|key| key.contains(".health.")).count(), crds().len());
    for (key, text) in data.iter().filter(|(key, _)| key.contains(".actions.")) {
        let actions: Value = serde_yaml_ng::from_str(text.as_str().unwrap()).unwrap();
        assert!(actions["discovery.lua"].is_string(), "{key}");
        for action in actions["definitions"].as_array().unwrap() {
            let offered = format!("[\"{}\"]", action["name"].as_str().unwrap());
            assert!(actions["discovery.lua"].as_str().unwrap().contains(&offered), "{key}: {offered}");
        }
    }
}
