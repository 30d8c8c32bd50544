//! Sets of values for the chart.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use quorate_scenarios::Shell;
use serde::Deserialize;
use serde_json::Value;

const CHART_VALUES: &str = include_str!("chart_values.yaml");
const MONITORS: &str = include_str!("monitors.yaml");

/// A set of values.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChartValues {
    #[serde(rename = "case")]
    pub title: String,
    values: Value,
}

impl ChartValues {
    /// All sets, for an existing namespace.
    pub fn all(namespace: &str) -> Result<Vec<Self>> {
        let text = CHART_VALUES.replace("NAMESPACE", namespace);
        let documents = serde_yaml_ng::Deserializer::from_str(&text).map(Self::deserialize);
        documents.collect::<Result<_, _>>().context("chart_values.yaml")
    }

    /// Sends what the chart renders to the API server as a dry run. A warning, such as for a Pod that violates the restricted
    /// standard, counts as a refusal.
    pub async fn is_accepted(&self, shell: &Shell, namespace: &str) -> Result<()> {
        let folder = tempfile::tempdir()?;
        // JSON is YAML.
        let values = folder.path().join("values.yaml");
        fs::write(&values, self.values.to_string())?;
        let values = values.display();
        // Ownership of existing fields is not tested here.
        let judge = "kubectl apply --server-side --force-conflicts --dry-run=server --validate=strict \
                     --warnings-as-errors -f -";
        // A Helm built from source assumes 1.20; the chart renders the same for every version.
        let render = "helm template quorate charts/quorate --kube-version 1.33.0";
        let render = format!("{render} --namespace {namespace} --values {values}");
        shell.run(&format!("{render} | {judge}")).await.map(drop).context(self.title.clone())
    }
}

/// Fails unless every value of values.yaml is changed in some set.
pub fn cover_every_value(cases: &[ChartValues]) -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/quorate/values.yaml");
    let defaults: Value = serde_yaml_ng::from_str(&fs::read_to_string(file)?)?;
    let mut kept = Vec::new();
    walk(&defaults, "", &mut |path, default| {
        let changed = |case: &ChartValues| case.values.pointer(path).is_some_and(|value| value != default);
        if !cases.iter().any(changed) {
            kept.push(path.to_owned());
        }
    });
    ensure!(kept.is_empty(), "no set in chart_values.yaml changes these from their default: {kept:?}");
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

/// The Prometheus operator's kinds; deleted when this is dropped.
pub struct Monitors(Shell);

/// Their names.
const KINDS: &str = "crd/servicemonitors.monitoring.coreos.com crd/podmonitors.monitoring.coreos.com \
                     crd/prometheusrules.monitoring.coreos.com";

impl Monitors {
    pub fn define(shell: Shell) -> Result<Self> {
        let kinds = Self(shell);
        kinds.0.now(&format!("kubectl apply -f - <<'END'\n{MONITORS}END"))?;
        kinds.0.now(&format!("kubectl wait {KINDS} --for=condition=Established"))?;
        Ok(kinds)
    }
}

impl Drop for Monitors {
    fn drop(&mut self) {
        if let Err(error) = self.0.now(&format!("kubectl delete {KINDS}")) {
            eprintln!("{error:#}");
        }
    }
}
