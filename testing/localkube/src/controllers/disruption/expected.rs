//! How many Pods a budget expects, and how many of them must be healthy.

use std::collections::BTreeMap;

use quorate_apistore::disruption::Expected;
use quorate_apistore::fields::{entries, flag, integer, items, namespace, text};
use serde_json::Value;

use super::super::view::View;

/// Evaluates the bound; the error names a controller without a scale. With it, whether some Pods have no controller, and so no
/// expected number.
pub(super) fn of(view: &View, budget: &Value, pods: &[&Value]) -> Result<(Expected, bool), String> {
    if let Some(most_gone) = bound(budget, "maxUnavailable") {
        let (pods, unmanaged) = scale(view, pods)?;
        return Ok((Expected { pods, healthy: (pods - most_gone.of(pods)).max(0) }, unmanaged));
    }
    match bound(budget, "minAvailable") {
        Some(Bound::Count(least)) => {
            let pods = i64::try_from(pods.len()).unwrap_or(i64::MAX);
            Ok((Expected { pods, healthy: least }, false))
        }
        Some(share) => {
            let (pods, unmanaged) = scale(view, pods)?;
            Ok((Expected { pods, healthy: share.of(pods) }, unmanaged))
        }
        None => Ok((Expected { pods: 0, healthy: 0 }, false)),
    }
}

/// The event message of the disruption controller; it prints the selector as Go does.
pub(super) fn unmanaged_message(budget: &Value) -> String {
    let labels: Vec<String> = entries(budget, "/spec/selector/matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: Vec<String> = items(budget, "/spec/selector/matchExpressions")
        .iter()
        .map(|one| {
            let values: Vec<&str> = items(one, "/values").iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(one, "/key"),
                text(one, "/operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{{MatchLabels:map[string]string{{{}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{}}},}}) were found to be unmanaged. As a result, the status of \
         the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods \
         please set \".spec.minAvailable\" field of the PDB to an integer value.",
        labels.concat(),
        expressions.concat()
    )
}

#[derive(Clone, Copy)]
enum Bound {
    Count(i64),
    Percent(i64),
}

impl Bound {
    /// Percentages round up, for either bound.
    fn of(self, total: i64) -> i64 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (total * percent + 99) / 100,
        }
    }
}

fn bound(budget: &Value, field: &str) -> Option<Bound> {
    match budget.pointer("/spec")?.get(field)? {
        Value::Number(count) => count.as_i64().map(Bound::Count),
        Value::String(percent) => percent.strip_suffix('%')?.parse().ok().map(Bound::Percent),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The total replicas of the controllers of these Pods, and whether some have none.
fn scale(view: &View, pods: &[&Value]) -> Result<(i64, bool), String> {
    let mut replicas: BTreeMap<&str, i64> = BTreeMap::new();
    let mut unmanaged = false;
    for pod in pods {
        let controller = items(pod, "/metadata/ownerReferences").iter().find(|one| flag(one, "/controller"));
        let Some(controller) = controller else {
            unmanaged = true;
            continue;
        };
        let owner = text(controller, "/uid");
        if !replicas.contains_key(owner) {
            replicas.insert(owner, replicas_of(view, namespace(pod), controller)?);
        }
    }
    Ok((replicas.values().sum(), unmanaged))
}

fn replicas_of(view: &View, namespace: &str, controller: &Value) -> Result<i64, String> {
    let (version, kind, name) =
        (text(controller, "/apiVersion"), text(controller, "/kind"), text(controller, "/name"));
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let found = view
        .owner(group, kind, namespace, name)
        .filter(|(_, owner)| owner["metadata"]["uid"] == controller["uid"]);
    let Some((resource, owner)) = found else { return Ok(0) };
    match view.scale_path(resource) {
        Some(path) => Ok(integer(owner, &path).unwrap_or_default()),
        None => {
            Err(format!("{}.{} does not implement the scale subresource", resource.plural, resource.group))
        }
    }
}
