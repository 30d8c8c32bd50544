//! Rules, dashboard and pages agree: every alert has its section, every metric exists.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::rules::{FIRING, RULES, Rule, Rules};
use super::{markdown, promql};
use crate::repo;

const PAGE: &str = "docs/alerts.md";

/// Its section that is about all of them.
const HOW_TO: &str = "See it yourself";

/// The table of the operator's metrics, which a test of the operator compares with its registries.
const METRICS: &str = "docs/metrics.md";

/// What is kept of members' metrics. A test of the etcd port finds each in a real etcd of every minor version.
const MEMBERS: &str = "monitoring/members.txt";

const DASHBOARD: &str = "monitoring/dashboard.json";
const SCRAPE: &str = "monitoring/scrape.yaml";

/// A line for each fault.
pub fn check() -> Result<Vec<String>> {
    let rules = Rules::read()?;
    let page = repo::read(Path::new(PAGE))?;
    let mut faults = sections(&rules, &page);
    faults.extend(reasons(&page)?);
    let firing = repo::read(Path::new(FIRING))?;
    for rule in rules.all() {
        if let Some(alert) = &rule.alert {
            faults.extend(of_alert(alert, rule, &firing));
        }
    }
    let known = known(&rules)?;
    let unknown = |file: &str, expression: &str| -> Vec<String> {
        let names = promql::metrics(expression).into_iter().filter(|name| !known.contains(name));
        names.map(|name| format!("{file}: no metric {name} in {METRICS} or {MEMBERS}")).collect()
    };
    faults.extend(rules.all().flat_map(|rule| unknown(RULES, &rule.expr)));
    for query in queries(&serde_json::from_str(&repo::read(Path::new(DASHBOARD))?).context(DASHBOARD)?) {
        faults.extend(unknown(DASHBOARD, &query));
    }
    faults.extend(scrape()?);
    Ok(faults)
}

/// The page has a section for each alert, with its severity and time, and no other.
fn sections(rules: &Rules, page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expected = BTreeSet::from([HOW_TO]);
    for rule in rules.all() {
        let Some(alert) = &rule.alert else { continue };
        expected.insert(alert.as_str());
        let after = rule
            .rest
            .get("for")
            .and_then(Value::as_str)
            .map_or("at once".to_owned(), |of| format!("after {of}"));
        let line = format!("{} {after}", text(&rule.rest, &["labels", "severity"]));
        let section = page.split("\n## ").find(|section| section.lines().next() == Some(alert));
        match section {
            None => faults.push(format!("{PAGE}: no section {alert}")),
            Some(section) => {
                for part in [&*line, "**Means.**", "**Look at.**", "**Do.**", "**Reason.**"] {
                    if !section.contains(part) {
                        faults.push(format!("{PAGE}: the section {alert} has no {part}"));
                    }
                }
            }
        }
    }
    let titles = page.split("\n## ").skip(1).filter_map(|section| section.lines().next());
    faults.extend(
        titles.filter(|title| !expected.contains(title)).map(|title| format!("{PAGE}: no alert {title}")),
    );
    faults
}

/// A reason that a section names has an entry in the runbook.
fn reasons(page: &str) -> Result<Vec<String>> {
    let runbook = repo::read(Path::new("docs/runbook.md"))?;
    let lines = page.lines().filter_map(|line| line.strip_prefix("**Reason.**"));
    let named = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
    let unknown = named.filter(|reason| !runbook.contains(&format!("| `{reason}` |")));
    Ok(unknown.map(|reason| format!("{PAGE}: the runbook has no entry {reason}")).collect())
}

fn of_alert(alert: &str, rule: &Rule, firing: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let anchor = markdown::anchors(&format!("## {alert}\n")).concat();
    if text(&rule.rest, &["annotations", "runbook_url"]) != format!("{PAGE}#{anchor}") {
        faults.push(format!("{RULES}: the runbook_url of {alert} is not {PAGE}#{anchor}"));
    }
    if !rule.case().is_some_and(|case| firing.contains(&case)) {
        faults.push(format!("{FIRING}: {alert} has no case of its severity"));
    }
    let description = text(&rule.rest, &["annotations", "description"]);
    if text(&rule.rest, &["annotations", "summary"]).is_empty() || description.is_empty() {
        faults.push(format!("{RULES}: {alert} has no summary or no description"));
    }
    // A label that the expression does not have is shown as nothing.
    for label in description.split("$labels.").skip(1) {
        let label: String = label.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let by = [format!("{label},"), format!("{label})")];
        let recorded = rule.expr.contains("quorate:");
        if !recorded && !by.iter().any(|by| rule.expr.contains(by)) {
            faults.push(format!("{RULES}: the expression of {alert} has no label {label}"));
        }
    }
    faults
}

/// The metrics that rules and dashboard may use.
fn known(rules: &Rules) -> Result<BTreeSet<String>> {
    let table = repo::read(Path::new(METRICS))?;
    let mut known: BTreeSet<String> = BTreeSet::from(["up".to_owned(), "ALERTS".to_owned()]);
    for row in table.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, rest) = row.split_once('`').context(METRICS)?;
        known.insert(name.to_owned());
        if rest.starts_with(" | histogram") {
            known.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
        }
    }
    known.extend(repo::read(Path::new(MEMBERS))?.lines().map(str::to_owned));
    known.extend(rules.all().filter_map(|rule| rule.record.clone()));
    Ok(known)
}

/// The queries of a dashboard, without the variables that Grafana puts in.
fn queries(dashboard: &Value) -> Vec<String> {
    match dashboard {
        Value::Object(fields) => {
            let own = fields
                .get("expr")
                .and_then(Value::as_str)
                .map(|query| query.replace("$__rate_interval", "5m"));
            own.into_iter().chain(fields.values().flat_map(queries)).collect()
        }
        Value::Array(list) => list.iter().flat_map(queries).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The plain scrape configuration keeps what the chart's PodMonitor keeps.
fn scrape() -> Result<Option<String>> {
    let plain: Value = serde_yaml_ng::from_str(&repo::read(Path::new(SCRAPE))?).context(SCRAPE)?;
    let kept = plain["scrape_configs"][1]["metric_relabel_configs"][0]["regex"].as_str().unwrap_or_default();
    let members = repo::read(Path::new(MEMBERS))?;
    let same = kept == members.trim().replace('\n', "|");
    Ok((!same).then(|| format!("{SCRAPE}: it keeps others than {MEMBERS} has")))
}

fn text<'a>(map: &'a serde_json::Map<String, Value>, path: &[&str; 2]) -> &'a str {
    map.get(path[0]).and_then(|inner| inner[path[1]].as_str()).unwrap_or_default()
}
