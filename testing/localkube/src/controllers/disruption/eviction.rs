//! Admission of an eviction, as the `eviction` subresource of Pods decides it.

use jiff::Timestamp;
use quorate_apistore::fields::{condition, deleting, integer, name, namespace, seconds, text};
use quorate_apistore::selectors::selects;
use serde_json::{Value, json};

/// What an admitted eviction has to do before the Pod is deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum Eviction {
    /// No budget is touched.
    Free,
    /// Write this budget's status first. When that is refused for a conflict, the eviction is to be decided anew.
    Spend(Box<Value>),
}

/// Why an eviction may not go ahead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The budget has nothing to spare: status 429, with this cause of type `DisruptionBudget`.
    #[error("Cannot evict pod as it would violate the pod's disruption budget.")]
    Budget {
        /// The text of the cause.
        cause: String,
        /// What to tell the client to wait, 0 for nothing.
        retry_after_seconds: u32,
    },
    /// Several budgets guard the Pod: status 500.
    #[error(
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )]
    Ambiguous,
}

/// Decides by all budgets there are whether a Pod may be evicted now.
pub fn evict(budgets: &[Value], pod: &Value, now: Timestamp) -> Result<Eviction, Refusal> {
    // Nothing that runs is lost with these.
    if deleting(pod) || matches!(text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending") {
        return Ok(Eviction::Free);
    }
    let guards = |budget: &&Value| {
        namespace(budget) == namespace(pod) && selects(budget.pointer("/spec/selector"), pod)
    };
    let guards: Vec<&Value> = budgets.iter().filter(guards).collect();
    match guards[..] {
        [] => Ok(Eviction::Free),
        [budget] if condition(pod, "Ready") != "True" && lets_unhealthy_go(budget) => Ok(Eviction::Free),
        [budget] => spend(budget, pod, now),
        [..] => Err(Refusal::Ambiguous),
    }
}

/// A Pod that is not ready does not count as available; it may go if the budget is met without it, or always if
/// the policy says so.
fn lets_unhealthy_go(budget: &Value) -> bool {
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
