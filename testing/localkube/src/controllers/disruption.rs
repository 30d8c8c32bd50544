//! PodDisruptionBudgets: their status. Whether an eviction is allowed is decided by `quorate_apistore::disruption`.
//!
//! As in Kubernetes, `maxUnavailable` and percentages need the expected number of Pods, which only the scale of the
//! Pods' controller gives. For Pods without a controller they allow nothing, and an event reports it; an integer as
//! `minAvailable` always works.

mod expected;

use jiff::Timestamp;
use quorate_apistore::disruption::counted;
use quorate_apistore::fields::{at, namespace};
use serde_json::Value;

use super::action::Action;
use super::labelled::Labelled;
use super::view::{View, kinds};
use crate::events::Note;

const COMPONENT: &str = "controllermanager";

/// Updates the status of every budget, also of one that is being deleted.
pub fn step(view: &View, now: Timestamp) -> Vec<Action> {
    let pods = Labelled::of(view.all(kinds::PODS));
    view.all(kinds::BUDGETS).flat_map(|budget| count(view, &pods, budget, now)).collect()
}

fn count(view: &View, pods: &Labelled<'_>, budget: &Value, now: Timestamp) -> Vec<Action> {
    let pods = pods.of_selector(namespace(budget), at(budget, "/spec/selector"));
    let mut notes = Vec::new();
    if pods.is_empty() {
        notes.push(Note::normal(budget, "NoPods", "No matching pods found", COMPONENT));
    }
    let expected = expected::of(view, budget, &pods);
    match &expected {
        Ok((_, unmanaged)) => {
            if *unmanaged {
                notes.push(Note::warning(
                    budget,
                    "UnmanagedPods",
                    expected::unmanaged_message(budget),
                    COMPONENT,
                ));
            }
        }
        Err(problem) => {
            let message = format!("Failed to calculate the number of expected pods: {problem}");
            notes.push(Note::warning(budget, "CalculateExpectedPodCountFailed", message, COMPONENT));
        }
    }
    let expected = expected.as_ref().map(|(expected, _)| *expected).map_err(String::as_str);
    let next = counted(budget, &pods, expected, now);
    let write = (next != *budget).then_some(Action::UpdateStatus(kinds::BUDGETS.into(), next));
    let events = notes.into_iter().filter(|note| !view.is_recorded(note)).map(Action::Record);
    write.into_iter().chain(events).collect()
}
