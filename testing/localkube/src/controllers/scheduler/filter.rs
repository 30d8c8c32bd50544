//! The filters that exclude a node, in the order and the words of the real scheduler.

use quorate_apistore::fields::{condition, entries, flag, items, label, text};
use quorate_apistore::selectors::node_matches;
use serde_json::Value;

use super::objection::Objection;
use super::storage::Claims;
use super::{Assignments, affinity, capacity};

/// The objections of the first filter that has one. Only capacity gives several.
pub(super) fn objections(
    assignments: &Assignments<'_>,
    pod: &Value,
    node: &Value,
    claims: &Claims<'_>,
) -> Vec<Objection> {
    let permanent = |text: &str| vec![Objection { text: text.to_owned(), permanent: true }];
    if flag(node, "/spec/unschedulable")
        && !tolerates(pod, "node.kubernetes.io/unschedulable", "", "NoSchedule")
    {
        return permanent("node(s) were unschedulable");
    }
    if let Some((key, value)) = untolerated(pod, node) {
        return permanent(&format!("node(s) had untolerated taint {{{key}: {value}}}"));
    }
    if !selected(pod, node) {
        return permanent("node(s) didn't match Pod's node affinity/selector");
    }
    let short = capacity::shortages(assignments, pod, node);
    if !short.is_empty() {
        return short;
    }
    if !claims.reach(node) {
        return permanent("node(s) had volume node affinity conflict");
    }
    affinity::objection(assignments, pod, node).into_iter().collect()
}

fn selected(pod: &Value, node: &Value) -> bool {
    let required = pod.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    entries(pod, "/spec/nodeSelector").all(|(key, value)| label(node, key) == value.as_str())
        && required.is_none_or(|required| required.is_null() || node_matches(required, node))
}

/// The first taint that the Pod does not tolerate. Kubernetes' node controller taints a node that is not ready; here
/// its Ready condition counts as the taint.
fn untolerated(pod: &Value, node: &Value) -> Option<(String, String)> {
    let lost = match condition(node, "Ready") {
        "True" => None,
        "Unknown" => Some("node.kubernetes.io/unreachable"),
        _ => Some("node.kubernetes.io/not-ready"),
    };
    let taints = items(node, "/spec/taints")
        .iter()
        .filter(|taint| matches!(text(taint, "/effect"), "NoSchedule" | "NoExecute"))
        .map(|taint| (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect")))
        .chain(lost.map(|key| (key, "", "NoSchedule")));
    taints
        .filter(|(key, value, effect)| !tolerates(pod, key, value, effect))
        .map(|(key, value, _)| (key.to_owned(), value.to_owned()))
        .next()
}

fn tolerates(pod: &Value, key: &str, value: &str, effect: &str) -> bool {
    items(pod, "/spec/tolerations").iter().any(|toleration| {
        let (its_key, its_effect) = (text(toleration, "/key"), text(toleration, "/effect"));
        let exists = text(toleration, "/operator") == "Exists";
        (its_effect.is_empty() || its_effect == effect)
            && (its_key == key || (its_key.is_empty() && exists))
            && (exists || text(toleration, "/value") == value)
    })
}
