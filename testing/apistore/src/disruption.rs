//! PodDisruptionBudgets: the status that follows from the Pods, and evictions. Controllers and the `eviction` subresource share it.

mod eviction;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::fields::{at, condition, deleting, integer, items, name, seconds, text};

pub use eviction::{admit, evict};

const BUDGETS: (&str, &str) = ("policy", "poddisruptionbudgets");
const PODS: (&str, &str) = ("", "pods");

/// How long an admitted eviction counts against the budget if its Pod is not deleted.
const DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// How many Pods a budget expects, and how many of them must be healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The Pods that it expects.
    pub pods: i64,
    /// Those of them that must be healthy.
    pub healthy: i64,
}

/// The budget with the status that follows from the Pods that it selects. The error of `expected` names why their number is not
/// known: then nothing may be disrupted.
pub fn counted(budget: &Value, pods: &[&Value], expected: Result<Expected, &str>, now: Timestamp) -> Value {
    let disrupted = disrupted(budget, pods, now);
    let healthy = pods
        .iter()
        .filter(|pod| {
            !deleting(pod) && !disrupted.contains_key(name(pod)) && condition(pod, "Ready") == "True"
        })
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let mut next = budget.clone();
    match expected {
        Ok(expected) => {
            let spare = if expected.pods <= 0 { 0 } else { (healthy - expected.healthy).max(0) };
            next["status"]["currentHealthy"] = json!(healthy);
            next["status"]["desiredHealthy"] = json!(expected.healthy);
            next["status"]["expectedPods"] = json!(expected.pods);
            let reason = if spare > 0 { "SufficientPods" } else { "InsufficientPods" };
            allow(&mut next, spare, reason, "", now);
        }
        Err(problem) => {
            for figure in ["currentHealthy", "desiredHealthy", "expectedPods"] {
                let known = integer(budget, &format!("/status/{figure}")).unwrap_or_default();
                next["status"][figure] = json!(known);
            }
            allow(&mut next, 0, "SyncFailed", problem, now);
        }
    }
    if let Some(status) = next["status"].as_object_mut() {
        status.remove("disruptedPods");
        if !disrupted.is_empty() {
            status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
        }
    }
    next
}

/// Admitted evictions whose Pods are not deleted yet: for a while they count as disrupted.
fn disrupted(budget: &Value, pods: &[&Value], now: Timestamp) -> Map<String, Value> {
    let known = at(budget, "/status/disruptedPods").and_then(Value::as_object);
    let fresh = known.into_iter().flatten().filter(|(disrupted, since)| {
        let pending = pods.iter().any(|pod| name(pod) == disrupted.as_str() && !deleting(pod));
        let since: Option<Timestamp> = since.as_str().and_then(|since| since.parse().ok());
        pending && since.is_some_and(|since| now.duration_since(since) < DISRUPTION_TIMEOUT)
    });
    fresh.map(|(pod, since)| (pod.clone(), since.clone())).collect()
}

fn allow(budget: &mut Value, spare: i64, reason: &str, message: &str, now: Timestamp) {
    let generation = integer(budget, "/metadata/generation").unwrap_or_default();
    budget["status"]["disruptionsAllowed"] = json!(spare);
    budget["status"]["observedGeneration"] = json!(generation);
    let status = if spare > 0 { "True" } else { "False" };
    let old = items(budget, "/status/conditions").iter().find(|one| one["type"] == "DisruptionAllowed");
    let since =
        old.filter(|old| old["status"] == status).map(|old| text(old, "/lastTransitionTime").to_owned());
    let condition = json!({
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since.unwrap_or_else(|| seconds(now)),
        "observedGeneration": generation,
    });
    budget["status"]["conditions"] = json!([condition]);
}
