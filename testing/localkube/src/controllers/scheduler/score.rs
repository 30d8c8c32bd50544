//! What speaks for a node, in this order: what the Pod prefers, the spread of the Pods that share its Services,
//! the number of Pods at all.

use quorate_apistore::fields::{integer, items, namespace};
use quorate_apistore::selectors::{map_selects, node_term_matches};
use serde_json::Value;

use super::super::view::kinds;
use super::{Board, affinity, capacity};

/// Compared in this order, more being better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    preferred: i64,
    spread: std::cmp::Reverse<usize>,
    crowd: std::cmp::Reverse<usize>,
}

pub(super) fn score(board: &Board<'_>, pod: &Value, node: &Value) -> Score {
    Score {
        preferred: node_preference(pod, node) + affinity::preference(board, pod, node),
        spread: std::cmp::Reverse(siblings(board, pod, node)),
        crowd: std::cmp::Reverse(capacity::crowd(board, pod, node)),
    }
}

fn node_preference(pod: &Value, node: &Value) -> i64 {
    items(pod, "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution")
        .iter()
        .filter(|one| node_term_matches(&one["preference"], node))
        .map(|one| integer(one, "/weight").unwrap_or(1))
        .sum()
}

/// The Pods on the node that one of this Pod's Services selects too: Kubernetes spreads these by default.
fn siblings(board: &Board<'_>, pod: &Value, node: &Value) -> usize {
    let selectors: Vec<_> = board
        .view
        .of_namespace(kinds::SERVICES, namespace(pod))
        .map(|service| service.pointer("/spec/selector"))
        .filter(|selector| map_selects(*selector, pod))
        .collect();
    let is_sibling = |other: &Value| {
        namespace(other) == namespace(pod) && selectors.iter().any(|selector| map_selects(*selector, other))
    };
    board.others(node, pod).filter(|other| is_sibling(other)).count()
}
