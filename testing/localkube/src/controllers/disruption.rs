//! PodDisruptionBudgets: their status, and whether an eviction is allowed.
//!
//! As in Kubernetes, `maxUnavailable` and percentages need the expected number of Pods, which only the scale of the
//! Pods' controller gives. For Pods without a controller they allow nothing, and an event reports it; an integer as
//! `minAvailable` always works.

mod eviction;
mod expected;

use jiff::{SignedDuration, Timestamp};
use quorate_apistore::fields::{at, condition, deleting, integer, items, name, namespace, text};
use serde_json::{Map, Value, json};

use super::action::Action;
use super::labelled::Labelled;
use super::view::{View, kinds};
use crate::events::Note;

pub use eviction::{Eviction, Refusal, evict};

const COMPONENT: &str = "controllermanager";

/// How long an admitted eviction counts against the budget if its Pod is not deleted.
const DISRUPTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// Updates the status of every budget.
pub fn step(view: &View, now: Timestamp) -> Vec<Action> {
    let pods = Labelled::of(view.all(kinds::PODS));
    let budgets = view.all(kinds::BUDGETS).filter(|budget| !deleting(budget));
    budgets.flat_map(|budget| count(view, &pods, budget, now)).collect()
}

fn count(view: &View, pods: &Labelled<'_>, budget: &Value, now: Timestamp) -> Vec<Action> {
    let pods = pods.of_selector(namespace(budget), at(budget, "/spec/selector"));
    let mut notes = Vec::new();
    if pods.is_empty() {
        notes.push(Note::normal(budget, "NoPods", "No matching pods found", COMPONENT));
    }
    let disrupted = disrupted(budget, &pods, now);
    let healthy = pods
        .iter()
        .filter(|pod| {
            !deleting(pod) && !disrupted.contains_key(name(pod)) && condition(pod, "Ready") == "True"
        })
        .count();
    let healthy = i64::try_from(healthy).unwrap_or(i64::MAX);
    let mut next = budget.clone();
    match expected::of(view, budget, &pods) {
        Ok(expected) => {
            if expected.unmanaged {
                notes.push(Note::warning(
                    budget,
                    "UnmanagedPods",
                    expected::unmanaged_message(budget),
                    COMPONENT,
                ));
            }
            let spare = if expected.pods <= 0 { 0 } else { (healthy - expected.healthy).max(0) };
            next["status"]["currentHealthy"] = json!(healthy);
            next["status"]["desiredHealthy"] = json!(expected.healthy);
            next["status"]["expectedPods"] = json!(expected.pods);
            let reason = if spare > 0 { "SufficientPods" } else { "InsufficientPods" };
            allow(&mut next, spare, reason, "", now);
        }
        Err(problem) => {
            let message = format!("Failed to calculate the number of expected pods: {problem}");
            notes.push(Note::warning(budget, "CalculateExpectedPodCountFailed", message, COMPONENT));
            for figure in ["currentHealthy", "desiredHealthy", "expectedPods"] {
                let known = integer(budget, &format!("/status/{figure}")).unwrap_or_default();
                next["status"][figure] = json!(known);
            }
            allow(&mut next, 0, "SyncFailed", &problem, now);
        }
    }
    if let Some(status) = next["status"].as_object_mut() {
        status.remove("disruptedPods");
        if !disrupted.is_empty() {
            status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
        }
    }
    let write = (next != *budget).then_some(Action::UpdateStatus(kinds::BUDGETS.into(), next));
    let events = notes.into_iter().filter(|note| !view.is_recorded(note)).map(Action::Record);
    write.into_iter().chain(events).collect()
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
        "lastTransitionTime": since.unwrap_or_else(|| quorate_apistore::fields::seconds(now)),
        "observedGeneration": generation,
    });
    budget["status"]["conditions"] = json!([condition]);
}
