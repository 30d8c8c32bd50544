//! The table of `docs/metrics.md` is what the registries have.
//!
//! `INSTA_UPDATE=always cargo test -p quorate-operator --lib page` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kube::client::Body;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use super::example::{config, options};
use super::{add_all, backup, cluster, schedule};
use crate::run::run_controllers;
use crate::runtime::metrics;

const BEGIN: &str = "<!-- begin: metrics -->\n";
const END: &str = "<!-- end: metrics -->\n";

/// A metric, by its declaration and its first series.
#[derive(Default)]
struct Metric {
    kind: String,
    help: String,
    labels: Vec<String>,
}

/// The metrics of an exposition, by name. A counter has the name of its samples.
fn metrics_of(text: &str) -> BTreeMap<String, Metric> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|line| line.split_once(' ')) {
            help.trim_end_matches('.').clone_into(&mut all.entry(name.to_owned()).or_default().help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' '))
        {
            kind.clone_into(&mut all.entry(name.to_owned()).or_default().kind);
        } else if let Some((sample, rest)) = line.split_once('{') {
            let ends = ["_total", "_bucket", "_sum", "_count"];
            let declared = ends.iter().find_map(|end| sample.strip_suffix(end));
            let metric = all.get_mut(declared.unwrap_or(sample)).expect("it was declared");
            let labels = rest.split("\",").filter_map(|pair| pair.split_once('=')).map(|(label, _)| label);
            metric.labels = labels.filter(|label| *label != "le").map(str::to_owned).collect();
        }
    }
    let named = |(name, metric): (String, Metric)| {
        if metric.kind == "counter" { (format!("{name}_total"), metric) } else { (name, metric) }
    };
    all.into_iter().map(named).collect()
}

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

fn own() -> BTreeMap<String, Metric> {
    let mut registry = Registry::with_prefix("quorate");
    metrics::example(&mut registry);
    metrics_of(&text(&registry))
}

fn acting() -> BTreeMap<String, Metric> {
    let mut registry = Registry::with_prefix("quorate");
    cluster::example_metrics(&mut registry);
    backup::example_metrics(&mut registry);
    schedule::example_metrics(&mut registry);
    metrics_of(&text(&registry))
}

/// What the operator registers when it runs: as text, and as it describes itself.
async fn registered() -> (String, String) {
    let (told, asked) = tokio::sync::oneshot::channel();
    let nobody = tower::service_fn(|_: http::Request<Body>| async {
        Err::<http::Response<Body>, _>(std::io::Error::other("there is no API server"))
    });
    let client = kube::Client::new(nobody, "default");
    let operator = run_controllers(client, options(), CancellationToken::new(), |fleets, registry| {
        add_all(fleets, registry, config());
        // A family without a series is not in the text.
        told.send((text(registry), format!("{registry:?}"))).unwrap();
    });
    tokio::select! {
        text = asked => text.unwrap(),
        ended = operator => panic!("it ended: {ended:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_page_of_metrics_has_a_row_for_each_that_is_registered() {
    let (text, described) = registered().await;
    let (own, acting) = (own(), acting());
    let mut real: BTreeSet<String> = metrics_of(&text).into_keys().collect();
    for described in described.split("Descriptor { name: \"").skip(1) {
        let name = described.split('"').next().unwrap();
        let counter = format!("quorate_{name}_total");
        real.insert(if acting.contains_key(&counter) { counter } else { format!("quorate_{name}") });
    }
    assert_eq!(real, acting.keys().cloned().collect(), "the examples have every metric");
    for (name, metric) in metrics_of(&text) {
        assert_eq!(metric.help, acting[&name].help, "{name}");
    }
    let mut table = String::new();
    for (title, metrics) in [("Shown by every replica", &own), ("Shown by the replica that acts", &acting)] {
        write!(table, "\n## {title}\n\n| metric | type | labels | what |\n| --- | --- | --- | --- |\n")
            .unwrap();
        for (name, Metric { kind, help, labels }) in metrics {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).unwrap();
        }
    }
    table.push('\n');
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = fs::read_to_string(&file).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the begin of the table");
    let (_, after) = rest.split_once(END).expect("the page has the end of the table");
    let desired = format!("{before}{BEGIN}{table}{END}{after}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|how| how == "always") {
        fs::write(&file, &desired).unwrap();
    } else {
        let how = "INSTA_UPDATE=always cargo test -p quorate-operator --lib page";
        assert!(page == desired, "docs/metrics.md is out of date; {how} writes it");
    }
}

#[test]
fn a_phase_that_a_rule_names_exists() {
    let rules = include_str!("../../../../monitoring/rules.yaml");
    let named = rules.split("phase=~\"").skip(1).filter_map(|rest| rest.split('"').next());
    let named: Vec<&str> = named.flat_map(|list| list.split('|')).collect();
    assert!(!named.is_empty());
    for phase in named {
        let read = serde_json::from_value::<quorate_api::status::Phase>(phase.into());
        assert_eq!(read.map(quorate_api::status::Phase::as_str).ok(), Some(phase));
    }
}
