//! The queries of the shipped dashboard.

use anyhow::{Context, Result};
use serde_json::Value;

/// A query of a panel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Query {
    /// The title of its panel.
    pub(super) panel: String,
    /// With the values of the variables in it.
    pub(super) expression: String,
}

/// The queries of every panel that says nothing about the case that it has no data (`noValue`).
pub(super) fn queries(dashboard: &str, values: &[(&str, &str)]) -> Result<Vec<Query>> {
    let dashboard: Value = serde_json::from_str(dashboard)?;
    let panels = dashboard["panels"].as_array().context("a dashboard has panels")?;
    let always = panels.iter().filter(|panel| !may_be_empty(panel));
    let targets = always.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap_or_default();
        panel["targets"].as_array().into_iter().flatten().map(move |target| (title, target))
    });
    let query = |(title, target): (&str, &Value)| {
        let expression = expression(target, values).with_context(|| title.to_owned())?;
        Ok(Query { panel: title.to_owned(), expression })
    };
    targets.map(query).collect()
}

/// Whether a panel says what it shows without data.
pub(super) fn may_be_empty(panel: &Value) -> bool {
    !panel["fieldConfig"]["defaults"]["noValue"].is_null()
}

/// The query of a target, with the values of the variables in it.
pub(super) fn expression(target: &Value, values: &[(&str, &str)]) -> Result<String> {
    let expression = target["expr"].as_str().context("a target without a query")?.to_owned();
    Ok(values.iter().fold(expression, |text, (name, value)| text.replace(&format!("${name}"), value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_get_their_values_and_a_panel_that_may_be_empty_is_left_out() {
        let panels = r#"{"panels": [
            {"title": "row"},
            {"title": "a", "targets": [{"expr": "rate(x{name=~\"$name\"}[$__rate_interval])"}]},
            {"title": "b", "targets": [{"expr": "y"}], "fieldConfig": {"defaults": {"noValue": "none"}}}
        ]}"#;
        let found = queries(panels, &[("name", "demo"), ("__rate_interval", "30s")]).unwrap();
        let expression = "rate(x{name=~\"demo\"}[30s])".to_owned();
        assert_eq!(found, [Query { panel: "a".to_owned(), expression }]);
    }
}
