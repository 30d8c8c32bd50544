//! Assigns Pods to nodes: `filter` excludes nodes, `score` ranks the rest; a Pod without a node gets the real
//! scheduler's message. A claim that waits for its first consumer gets its node first, and the Pod is bound once the
//! claim is. There is no preemption.

mod affinity;
mod capacity;
mod filter;
mod objection;
mod score;
mod storage;

use std::collections::BTreeMap;

use jiff::Timestamp;
use quorate_apistore::fields::{
    annotation, condition, deleting, integer, items, name, namespace, set_condition, text,
};
use serde_json::{Value, json};

use super::action::Action;
use super::view::{View, kinds};
use crate::events::Note;
use storage::Claims;

const COMPONENT: &str = "default-scheduler";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Decides on every Pod without a node, by priority and then by age.
pub fn step(view: &View, now: Timestamp) -> Vec<Action> {
    let mut assignments = Assignments::of(view);
    let mut actions = Vec::new();
    for pod in waiting(view) {
        match choose(&assignments, pod) {
            Ok(node) => {
                actions.extend(bind(&assignments, pod, &node));
                assignments.assume(pod, &node);
            }
            Err(reason) => actions.extend(report(pod, &reason, now)),
        }
    }
    actions
}

/// The nodes and the Pods assigned to them, including those of this step.
struct Assignments<'a> {
    view: &'a View,
    nodes: Vec<&'a Value>,
    by_node: BTreeMap<String, Vec<&'a Value>>,
}

impl<'a> Assignments<'a> {
    fn of(view: &'a View) -> Self {
        let nodes: Vec<&Value> = view.all(kinds::NODES).collect();
        let mut assignments = Self { view, nodes, by_node: BTreeMap::new() };
        for pod in view.all(kinds::PODS).filter(|pod| !is_over(pod)) {
            // A Pod whose claim has a selected node counts as assigned to it.
            let node = match text(pod, "/spec/nodeName") {
                "" => storage::selected_node(view, pod).unwrap_or_default(),
                node => node,
            };
            if !node.is_empty() {
                assignments.assume(pod, node);
            }
        }
        assignments
    }

    fn assume(&mut self, pod: &'a Value, node: &str) {
        let there = self.by_node.entry(node.to_owned()).or_default();
        if !there.iter().any(|other| std::ptr::eq(*other, pod)) {
            there.push(pod);
        }
    }

    /// The Pods on a node except the one to assign.
    fn others<'b>(&'b self, node: &Value, pod: &'b Value) -> impl Iterator<Item = &'a Value> + use<'a, 'b> {
        let there = self.by_node.get(name(node)).map(Vec::as_slice).unwrap_or_default();
        there.iter().copied().filter(move |other| !std::ptr::eq(*other, pod))
    }
}

fn waiting(view: &View) -> Vec<&Value> {
    let scheduler = |pod: &Value| text(pod, "/spec/schedulerName").to_owned();
    let mut pods: Vec<&Value> = view
        .all(kinds::PODS)
        .filter(|pod| text(pod, "/spec/nodeName").is_empty() && !deleting(pod) && !is_over(pod))
        .filter(|pod| matches!(scheduler(pod).as_str(), "" | COMPONENT))
        .filter(|pod| items(pod, "/spec/schedulingGates").is_empty())
        .collect();
    pods.sort_by_key(|pod| {
        let priority = integer(pod, "/spec/priority").unwrap_or_default();
        (-priority, text(pod, "/metadata/creationTimestamp"), namespace(pod), name(pod))
    });
    pods
}

fn is_over(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// The best node for a Pod, or why there is none, in the words of the real scheduler.
fn choose(assignments: &Assignments<'_>, pod: &Value) -> Result<String, String> {
    if assignments.nodes.is_empty() {
        return Err("no nodes available to schedule pods".to_owned());
    }
    let total = assignments.nodes.len();
    let claims = Claims::of(assignments.view, pod).map_err(|reason| {
        format!(
            "0/{total} nodes are available: {reason}. preemption: 0/{total} nodes are available: \
             {total} Preemption is not helpful for scheduling."
        )
    })?;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut permanent = 0;
    let mut fitting = Vec::new();
    for node in &assignments.nodes {
        let objections = filter::objections(assignments, pod, node, &claims);
        if objections.is_empty() {
            fitting.push(*node);
        }
        permanent += usize::from(objections.iter().any(|objection| objection.permanent));
        for objection in objections {
            *reasons.entry(objection.text).or_default() += 1;
        }
    }
    // Keep the node selected earlier while the Pod fits there: a volume may already be on its way.
    if let Some(selected) = storage::selected_node(assignments.view, pod)
        .filter(|node| fitting.iter().any(|one| name(one) == *node))
    {
        return Ok(selected.to_owned());
    }
    // Ties are broken by name, so that the same state always gives the same node.
    fitting.sort_by_cached_key(|node| (std::cmp::Reverse(score::score(assignments, pod, node)), name(node)));
    fitting.first().map(|node| name(node).to_owned()).ok_or_else(|| unavailable(total, &reasons, permanent))
}

fn unavailable(total: usize, reasons: &BTreeMap<String, usize>, permanent: usize) -> String {
    let mut texts: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort();
    let preemption: Vec<String> = [
        (total - permanent, "No preemption victims found for incoming pod"),
        (permanent, "Preemption is not helpful for scheduling"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, reason)| format!("{count} {reason}"))
    .collect();
    format!(
        "0/{total} nodes are available: {}. preemption: 0/{total} nodes are available: {}.",
        texts.join(", "),
        preemption.join(", ")
    )
}

/// Binds the Pod, or first selects the node of its unbound claims.
fn bind(assignments: &Assignments<'_>, pod: &Value, node: &str) -> Vec<Action> {
    let unbound: Vec<&Value> = storage::unbound(assignments.view, pod).collect();
    if unbound.is_empty() {
        let message = format!("Successfully assigned {}/{} to {node}", namespace(pod), name(pod));
        let note = Note::normal(pod, "Scheduled", message, COMPONENT);
        return vec![Action::Bind { pod: pod.clone(), node: node.to_owned() }, Action::Record(note)];
    }
    unbound
        .into_iter()
        .filter(|claim| annotation(claim, SELECTED_NODE) != Some(node))
        .map(|claim| {
            let mut claim = claim.clone();
            let metadata = &mut claim["metadata"];
            if !metadata["annotations"].is_object() {
                metadata["annotations"] = json!({});
            }
            metadata["annotations"][SELECTED_NODE] = json!(node);
            Action::Update(kinds::CLAIMS.into(), claim)
        })
        .collect()
}

/// Reports why a Pod has no node, once for each reason.
fn report(pod: &Value, reason: &str, now: Timestamp) -> Vec<Action> {
    let current = items(pod, "/status/conditions").iter().find(|one| one["type"] == "PodScheduled");
    if condition(pod, "PodScheduled") == "False"
        && current.is_some_and(|current| current["message"] == reason)
    {
        return Vec::new();
    }
    let mut status = pod.clone();
    set_condition(&mut status, "PodScheduled", "False", "Unschedulable", reason, now);
    let note = Note::warning(pod, "FailedScheduling", reason, COMPONENT);
    vec![Action::UpdateStatus(kinds::PODS.into(), status), Action::Record(note)]
}
