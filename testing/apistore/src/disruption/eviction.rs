//! An eviction, as the `eviction` subresource of Pods decides it and carries it out.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{BUDGETS, PODS};
use crate::errors::ApiError;
use crate::fields::{condition, deleting, integer, name, namespace, seconds, set_condition, text, uid};
use crate::resources::{ObjectKey, ResourceKey};
use crate::selectors::selects;
use crate::store::{DeleteOptions, Deleted, Part, Store};

/// Evicts a Pod, if its budget admits that: one disruption is taken from the budget, the Pod gets its `DisruptionTarget` condition,
/// and it is deleted.
pub fn evict(store: &Store, key: &ObjectKey, options: &DeleteOptions) -> Result<Deleted, ApiError> {
    let pod = store.get(key).ok_or_else(|| match store.info(&key.resource) {
        Ok(info) => ApiError::not_found(&info, &key.name),
        Err(error) => error,
    })?;
    // A deletion that would be refused must not take a disruption from a budget.
    store.delete(key, &DeleteOptions { dry_run: true, ..options.clone() })?;
    admit(store, &pod, options.dry_run)?;
    // The condition is a new version of the Pod.
    let admitted =
        DeleteOptions { uid: Some(uid(&pod).to_owned()), resource_version: None, ..options.clone() };
    store.delete(key, &admitted)
}

/// Admits the eviction of a Pod or refuses it. It takes one disruption from the budget and sets the Pod's
/// `DisruptionTarget` condition; a dry run only decides. The caller deletes the Pod.
pub fn admit(store: &Store, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    let budgets = ResourceKey::new(BUDGETS.0, BUDGETS.1);
    loop {
        let (guards, _) = store.list(&budgets, Some(namespace(pod)));
        match judge(&guards, pod, store.now()) {
            Ok(Eviction::Free) => break,
            Ok(Eviction::Spend(budget)) => {
                let key = ObjectKey::new(budgets.clone(), namespace(&budget), name(&budget));
                match store.update(&key, Part::Status, *budget, dry_run) {
                    Ok(_) => break,
                    // The budget has changed in between: decide again.
                    Err(error) if error.code == 409 => {}
                    Err(error) => return Err(error),
                }
            }
            Err(refusal) => return Err(refused(&refusal)),
        }
    }
    let key = ObjectKey::new(ResourceKey::new(PODS.0, PODS.1), namespace(pod), name(pod));
    let now = store.now();
    let evicted = |pod: &Value| {
        let mut pod = pod.clone();
        let message = "Eviction API: evicting";
        set_condition(&mut pod, "DisruptionTarget", "True", "EvictionByEvictionAPI", message, now);
        Ok(pod)
    };
    store.modify(&key, Part::Status, dry_run, evicted).map(drop)
}

fn refused(refusal: &Refusal) -> ApiError {
    let message = refusal.to_string();
    match refusal {
        Refusal::Budget { cause, retry_after_seconds } => {
            let mut details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
            if *retry_after_seconds > 0 {
                details["retryAfterSeconds"] = json!(retry_after_seconds);
            }
            ApiError::too_many_requests(message, details)
        }
        Refusal::Ambiguous => ApiError { code: 500, reason: "", message, details: Value::Null },
    }
}

/// What to do before deleting the Pod.
#[derive(Clone, Debug, PartialEq)]
enum Eviction {
    /// Nothing: no budget is affected.
    Free,
    /// Write this status of the budget. If the write fails with a conflict, decide again.
    Spend(Box<Value>),
}

/// Why an eviction is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
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
fn judge(budgets: &[Value], pod: &Value, now: Timestamp) -> Result<Eviction, Refusal> {
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
