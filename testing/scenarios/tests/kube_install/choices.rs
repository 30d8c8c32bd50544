//! The chart's values, as people choose them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use quorate_scenarios::Shell;
use serde::Deserialize;
use serde_json::Value;

const CHOICES: &str = include_str!("choices.yaml");
const SERVICE_MONITOR: &str = include_str!("servicemonitor.yaml");

/// A set of values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    #[serde(rename = "choice")]
    pub title: String,
    values: Value,
}

impl Choice {
    /// All of them, for a namespace that exists.
    pub fn all(namespace: &str) -> Result<Vec<Self>> {
        let text = CHOICES.replace("NAMESPACE", namespace);
        let documents = serde_yaml_ng::Deserializer::from_str(&text).map(Self::deserialize);
        documents.collect::<Result<_, _>>().context("choices.yaml")
    }

    /// What the chart makes of it is handed to the API server, which says what it would do. What it only warns of, such
    /// as a Pod that the restricted standard would not let in, counts as a refusal.
    pub async fn is_accepted(&self, shell: &Shell, namespace: &str) -> Result<()> {
        let folder = tempfile::tempdir()?;
        // JSON is YAML.
        let values = folder.path().join("values.yaml");
        fs::write(&values, self.values.to_string())?;
        let values = values.display();
        // Who owns what is there already is not what is asked.
        let judge = "kubectl apply --server-side --force-conflicts --dry-run=server --validate=strict \
                     --warnings-as-errors -f -";
        // A Helm built from source takes 1.20 for granted; the chart renders the same for every version.
        let render = "helm template quorate charts/quorate --kube-version 1.33.0";
        let render = format!("{render} --namespace {namespace} --values {values}");
        shell.run(&format!("{render} | {judge}")).await.map(drop).context(self.title.clone())
    }
}

/// Every value of values.yaml is another one in some choice.
pub fn cover_every_value(choices: &[Choice]) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/quorate/values.yaml");
    let defaults: Value = serde_yaml_ng::from_str(&fs::read_to_string(file)?)?;
    let mut kept = Vec::new();
    walk(&defaults, "", &mut |path, default| {
        let changed = |choice: &Choice| choice.values.pointer(path).is_some_and(|value| value != default);
        if !choices.iter().any(changed) {
            kept.push(path.to_owned());
        }
    });
    ensure!(kept.is_empty(), "no choice in choices.yaml turns these away from their default: {kept:?}");
    Ok(())
}

fn walk(value: &Value, path: &str, leaf: &mut impl FnMut(&str, &Value)) {
    match value.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, field) in fields {
                walk(field, &format!("{path}/{name}"), leaf);
            }
        }
        None => leaf(path, value),
    }
}

/// The Prometheus operator's kind, which is gone again when this is dropped.
pub struct ServiceMonitors(Shell);

impl ServiceMonitors {
    pub fn define(shell: Shell) -> Result<Self> {
        let kind = Self(shell);
        kind.0.now(&format!("kubectl apply -f - <<'END'\n{SERVICE_MONITOR}END"))?;
        kind.0.now("kubectl wait crd/servicemonitors.monitoring.coreos.com --for=condition=Established")?;
        Ok(kind)
    }
}

impl Drop for ServiceMonitors {
    fn drop(&mut self) {
        if let Err(error) = self.0.now("kubectl delete crd servicemonitors.monitoring.coreos.com") {
            eprintln!("{error:#}");
        }
    }
}
