//! Admission of an eviction, as the `eviction` subresource of Pods decides it.

use jiff::Timestamp;
use quorate_apistore::fields::{condition, deleting, integer, name, namespace, seconds, text};
use quorate_apistore::selectors::selects;
use serde_json::{Value, json};

/// What to do before deleting the Pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Eviction {
    /// Nothing: no budget is affected.
    Free,
    /// Write this status of the budget. If the write fails with a conflict, decide again.
    Spend(Box<Value>),
}

/// Why an eviction is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The budget allows no disruption: status 429, with this cause of type `DisruptionBudget`.
    #[error("Cannot evict pod as it would violate the pod's disruption budget.")]
    Budget {
        /// The message of the cause.
        cause: String,
        /// How long the client should wait, 0 for no hint.
        retry_after_seconds: u32,
    },
    /// Several budgets select the Pod: status 500.
    #[error(
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )]
    Ambiguous,
}

/// Decides by all budgets whether a Pod may be evicted now.
pub fn evict(budgets: &[Value], pod: &Value, now: Timestamp) -> Result<Eviction, Refusal> {
    // Evicting these disrupts nothing.
    if deleting(pod) || matches!(text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending") {
        return Ok(Eviction::Free);
    }
    let guards = |budget: &&Value| {
        namespace(budget) == namespace(pod) && selects(budget.pointer("/spec/selector"), pod)
    };
    let guards: Vec<&Value> = budgets.iter().filter(guards).collect();
    match guards[..] {
        [] => Ok(Eviction::Free),
        [budget] if condition(pod, "Ready") != "True" && allows_unhealthy(budget) => Ok(Eviction::Free),
        [budget] => spend(budget, pod, now),
        [..] => Err(Refusal::Ambiguous),
    }
}

/// A Pod that is not ready does not count as healthy. It may be evicted if the budget is met without it, or always if
/// the policy says so.
fn allows_unhealthy(budget: &Value) -> bool {
    let [healthy, desired] = ["currentHealthy", "desiredHealthy"]
        .map(|figure| integer(budget, &format!("/status/{figure}")).unwrap_or_default());
    text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" || (healthy >= desired && desired > 0)
}

fn spend(budget: &Value, pod: &Value, now: Timestamp) -> Result<Eviction, Refusal> {
    let figure = |pointer: &str| integer(budget, pointer).unwrap_or_default();
    let name_of_budget = name(budget);
    if figure("/status/observedGeneration") < figure("/metadata/generation") {
        let cause = format!("The disruption budget {name_of_budget} is still being processed by the server.");
        return Err(Refusal::Budget { cause, retry_after_seconds: 10 });
    }
    let spare = figure("/status/disruptionsAllowed");
    if spare <= 0 {
        let cause = format!(
            "The disruption budget {name_of_budget} needs {} healthy pods and has {} currently",
            figure("/status/desiredHealthy"),
            figure("/status/currentHealthy")
        );
        return Err(Refusal::Budget { cause, retry_after_seconds: 0 });
    }
    let mut spent = budget.clone();
    spent["status"]["disruptionsAllowed"] = json!(spare - 1);
    if !spent["status"]["disruptedPods"].is_object() {
        spent["status"]["disruptedPods"] = json!({});
    }
    spent["status"]["disruptedPods"][name(pod)] = json!(seconds(now));
    Ok(Eviction::Spend(Box::new(spent)))
}
