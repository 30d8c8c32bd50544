//! The PodDisruptionBudget: how many ready voters an eviction must leave.

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use quorate_api::EtcdCluster;
use quorate_model::ClusterRef;
use serde_json::{Value, json};

use crate::{diff, labels};

/// The budget of the cluster. `minAvailable` is an integer: with a percentage or `maxUnavailable` the bound would fall with
/// the number of Pods while members are lost.
pub fn budget(cluster: &EtcdCluster, at: &ClusterRef, min_available: usize) -> Value {
    let mut budget = frame(cluster, at);
    budget["spec"]["minAvailable"] = json!(min_available);
    budget
}

/// `minAvailable` of a budget that otherwise matches its desired form.
pub(crate) fn min_available(
    seen: &PodDisruptionBudget,
    cluster: &EtcdCluster,
    at: &ClusterRef,
) -> Option<usize> {
    let spec = seen.spec.as_ref()?;
    let sound = spec.max_unavailable.is_none() && diff::matches(seen, &frame(cluster, at));
    match &spec.min_available {
        Some(IntOrString::Int(min_available)) if sound => usize::try_from(*min_available).ok(),
        Some(IntOrString::Int(_) | IntOrString::String(_)) | None => None,
    }
}

/// The patch from an observed budget to its desired form.
pub(crate) fn merge_patch(seen: &PodDisruptionBudget, desired: &Value) -> Value {
    let mut patch = diff::merge_patch(&seen.metadata, desired);
    patch["spec"]["maxUnavailable"] = Value::Null;
    patch
}

fn frame(cluster: &EtcdCluster, at: &ClusterRef) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": labels::owned(cluster, at, at.name.clone()),
        "spec": { "selector": { "matchLabels": labels::selector(at) } },
    })
}
