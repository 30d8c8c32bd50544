//! Whether a Pod's requests fit on a node beside the Pods that are there.

use std::collections::BTreeMap;

use quorate_apistore::fields::{entries, items};
use quorate_apistore::quantity::millis;
use serde_json::Value;

use super::Assignments;
use super::objection::Objection;

/// The resources that a node lacks for a Pod.
pub(super) fn shortages(assignments: &Assignments<'_>, pod: &Value, node: &Value) -> Vec<Objection> {
    let wanted = requests(pod);
    let mut used: BTreeMap<String, i128> = BTreeMap::new();
    let mut pods = 0;
    for other in assignments.others(node, pod) {
        pods += 1;
        for (resource, amount) in requests(other) {
            *used.entry(resource).or_default() += amount;
        }
    }
    let mut objections = Vec::new();
    if allocatable(node, "pods").is_some_and(|most| (pods + 1) * 1000 > most) {
        objections.push(Objection { text: "Too many pods".to_owned(), permanent: false });
    }
    for (resource, amount) in wanted.into_iter().filter(|(_, amount)| *amount > 0) {
        // A node that does not report this resource has none of it; a node that reports nothing is not limited.
        let Some(there) = allocatable(node, &resource).or_else(|| reports_any(node).then_some(0)) else {
            continue;
        };
        if used.get(&resource).copied().unwrap_or_default() + amount > there {
            objections
                .push(Objection { text: format!("Insufficient {resource}"), permanent: amount > there });
        }
    }
    objections
}

/// The number of Pods on a node, to balance nodes that are otherwise equal.
pub(super) fn pods_on(assignments: &Assignments<'_>, pod: &Value, node: &Value) -> usize {
    assignments.others(node, pod).count()
}

fn allocatable(node: &Value, resource: &str) -> Option<i128> {
    millis(node.pointer("/status/allocatable")?.get(resource)?)
}

fn reports_any(node: &Value) -> bool {
    entries(node, "/status/allocatable").next().is_some()
}

/// The sum over the containers, or the largest init container, whichever is more.
fn requests(pod: &Value) -> BTreeMap<String, i128> {
    let mut total: BTreeMap<String, i128> = BTreeMap::new();
    for container in items(pod, "/spec/containers") {
        for (resource, amount) in requested(container) {
            *total.entry(resource).or_default() += amount;
        }
    }
    for container in items(pod, "/spec/initContainers") {
        for (resource, amount) in requested(container) {
            let most = total.entry(resource).or_default();
            *most = amount.max(*most);
        }
    }
    for (resource, amount) in entries(pod, "/spec/overhead") {
        *total.entry(resource.clone()).or_default() += millis(amount).unwrap_or_default();
    }
    total
}

/// A limit without a request counts as the request.
fn requested(container: &Value) -> BTreeMap<String, i128> {
    let amounts = |pointer: &'static str| {
        entries(container, pointer)
            .map(|(resource, amount)| (resource.clone(), millis(amount).unwrap_or_default()))
    };
    amounts("/resources/limits").chain(amounts("/resources/requests")).collect()
}
