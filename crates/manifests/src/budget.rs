//! The PodDisruptionBudget: how many ready voters an eviction must leave.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use quorate_api::cluster::PodDisruptionBudgetPolicy;
use quorate_api::{EtcdCluster, keys};
use quorate_model::snapshot::{Budget, BudgetPolicy};
use quorate_model::{ClusterRef, MemberName};
use serde_json::{Value, json};

use crate::{diff, labels};

/// The budget of the cluster. `minAvailable` is an integer: with a percentage or `maxUnavailable` the bound would fall with
/// the number of Pods while members are lost.
pub fn budget(
    cluster: &EtcdCluster,
    at: &ClusterRef,
    min_available: usize,
    excludes: Option<&MemberName>,
) -> Value {
    let mut budget = frame(cluster, at);
    budget["spec"]["minAvailable"] = json!(min_available);
    if let Some(member) = excludes {
        budget["spec"]["selector"]["matchExpressions"] =
            json!([{ "key": keys::MEMBER, "operator": "NotIn", "values": [member.as_str()] }]);
    }
    budget
}

/// Which evictions the spec wants to admit.
pub(crate) fn policy(cluster: &EtcdCluster) -> BudgetPolicy {
    match cluster.spec.disruption.pod_disruption_budget {
        PodDisruptionBudgetPolicy::OneAtATime => BudgetPolicy::OneAtATime,
        PodDisruptionBudgetPolicy::Quorum => BudgetPolicy::Quorum,
        PodDisruptionBudgetPolicy::None => BudgetPolicy::None,
    }
}

/// The budget as it was observed.
pub(crate) fn read(seen: &PodDisruptionBudget, cluster: &EtcdCluster, at: &ClusterRef) -> Budget {
    let (meta, status) = (&seen.metadata, seen.status.as_ref());
    // Until the controller has seen the present spec, the API server admits no eviction of a ready Pod.
    let current = status.filter(|status| status.observed_generation >= meta.generation);
    let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
    Budget {
        observed: diff::observed(meta),
        min_available: min_available(seen, cluster, at),
        excludes: excludes(seen),
        allowed: current.map(|status| usize::try_from(status.disruptions_allowed).unwrap_or(0)),
        disrupted: disrupted.into_iter().flatten().map(|(pod, _)| MemberName::new(pod.as_str())).collect(),
    }
}

/// `minAvailable` of a budget that otherwise matches its desired form.
fn min_available(seen: &PodDisruptionBudget, cluster: &EtcdCluster, at: &ClusterRef) -> Option<usize> {
    let spec = seen.spec.as_ref()?;
    let Some(IntOrString::Int(number)) = spec.min_available else { return None };
    let number = usize::try_from(number).ok()?;
    let excluded = excludes(seen);
    let selects_fewer = excluded.is_none() && !expressions(seen).is_empty();
    let desired = budget(cluster, at, number, excluded.as_ref());
    (spec.max_unavailable.is_none() && !selects_fewer && diff::matches(seen, &desired)).then_some(number)
}

/// The member whose Pod a budget does not select.
fn excludes(seen: &PodDisruptionBudget) -> Option<MemberName> {
    let [expression] = expressions(seen) else { return None };
    let [member] = expression.values.as_deref()? else { return None };
    (expression.key == keys::MEMBER && expression.operator == "NotIn").then(|| MemberName::new(&**member))
}

fn expressions(seen: &PodDisruptionBudget) -> &[LabelSelectorRequirement] {
    let selector = seen.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.and_then(|selector| selector.match_expressions.as_deref()).unwrap_or_default()
}

/// The patch from an observed budget to its desired form.
pub(crate) fn merge_patch(seen: &PodDisruptionBudget, desired: &Value) -> Value {
    let mut patch = diff::merge_patch(&seen.metadata, desired);
    patch["spec"]["maxUnavailable"] = Value::Null;
    // A merge patch keeps what it does not name.
    let expressions = desired.pointer("/spec/selector/matchExpressions").cloned();
    patch["spec"]["selector"]["matchExpressions"] = expressions.unwrap_or(Value::Null);
    patch
}

fn frame(cluster: &EtcdCluster, at: &ClusterRef) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": labels::owned(cluster, at, at.name.clone()),
        // A Pod that is not ready protects nobody, and a node with one must be drained all the same.
        "spec": {
            "selector": { "matchLabels": labels::selector(at) },
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    })
}
