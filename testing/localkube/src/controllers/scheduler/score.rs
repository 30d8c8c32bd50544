//! Ranks nodes by, in this order: preferences of the Pod, spread of the Pods of its Services, number of Pods.

use quorate_apistore::fields::{integer, items, namespace};
use quorate_apistore::selectors::{map_selects, node_term_matches};
use serde_json::Value;

use super::super::view::kinds;
use super::{Assignments, affinity, capacity};

/// Compared field by field; more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    preferred: i64,
    spread: std::cmp::Reverse<usize>,
    pods_on: std::cmp::Reverse<usize>,
}

pub(super) fn score(assignments: &Assignments<'_>, pod: &Value, node: &Value) -> Score {
    Score {
        preferred: node_preference(pod, node) + affinity::preference(assignments, pod, node),
        spread: std::cmp::Reverse(siblings(assignments, pod, node)),
        pods_on: std::cmp::Reverse(capacity::pods_on(assignments, pod, node)),
    }
}

fn node_preference(pod: &Value, node: &Value) -> i64 {
    items(pod, "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution")
        .iter()
        .filter(|one| node_term_matches(&one["preference"], node))
        .map(|one| integer(one, "/weight").unwrap_or(1))
        .sum()
}

/// The Pods on the node that one of this Pod's Services selects as well: Kubernetes spreads these by default.
fn siblings(assignments: &Assignments<'_>, pod: &Value, node: &Value) -> usize {
    let selectors: Vec<_> = assignments
        .view
        .of_namespace(kinds::SERVICES, namespace(pod))
        .map(|service| service.pointer("/spec/selector"))
        .filter(|selector| map_selects(*selector, pod))
        .collect();
    let is_sibling = |other: &Value| {
        namespace(other) == namespace(pod) && selectors.iter().any(|selector| map_selects(*selector, other))
    };
    assignments.others(node, pod).filter(|other| is_sibling(other)).count()
}
