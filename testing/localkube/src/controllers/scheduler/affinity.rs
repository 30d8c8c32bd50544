//! Affinity between Pods and topology spread: required terms rule a node out, preferred ones weigh in the score.

use quorate_apistore::fields::{integer, items, label, namespace, text};
use quorate_apistore::selectors::selects;
use serde_json::Value;

use super::Board;
use super::objection::Objection;

const COMPANY: &str = "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
const DISTANCE: &str = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
const BETTER_TOGETHER: &str = "/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution";
const BETTER_APART: &str = "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution";

/// Why Pods elsewhere or here forbid this node.
pub(super) fn objection(board: &Board<'_>, pod: &Value, node: &Value) -> Option<Objection> {
    let mut constraints = items(pod, "/spec/topologySpreadConstraints").iter();
    if constraints.any(|one| one["whenUnsatisfiable"] == "DoNotSchedule" && breaks(board, pod, node, one)) {
        let text = "node(s) didn't match pod topology spread constraints".to_owned();
        return Some(Objection { text, permanent: false });
    }
    if !items(pod, COMPANY).iter().all(|term| finds_company(board, pod, node, term)) {
        return Some(Objection {
            text: "node(s) didn't match pod affinity rules".to_owned(),
            permanent: true,
        });
    }
    if items(pod, DISTANCE).iter().any(|term| count(board, pod, node, term) > 0) {
        return Some(Objection {
            text: "node(s) didn't match pod anti-affinity rules".to_owned(),
            permanent: false,
        });
    }
    if unwelcome(board, pod, node) {
        let text = "node(s) didn't satisfy existing pods anti-affinity rules".to_owned();
        return Some(Objection { text, permanent: false });
    }
    None
}

/// What the preferred terms and soft spread constraints say, more being better.
pub(super) fn preference(board: &Board<'_>, pod: &Value, node: &Value) -> i64 {
    let weighed = |preferred: &str, sign: i64| -> i64 {
        items(pod, preferred)
            .iter()
            .map(|one| {
                sign * integer(one, "/weight").unwrap_or(1) * count(board, pod, node, &one["podAffinityTerm"])
            })
            .sum()
    };
    let crowding: i64 = items(pod, "/spec/topologySpreadConstraints")
        .iter()
        .filter(|one| one["whenUnsatisfiable"] == "ScheduleAnyway")
        .map(|one| count(board, pod, node, one))
        .sum();
    weighed(BETTER_TOGETHER, 1) + weighed(BETTER_APART, -1) - 100 * crowding
}

/// How many Pods that a term means stand in the node's topology domain.
fn count(board: &Board<'_>, pod: &Value, node: &Value, term: &Value) -> i64 {
    let key = text(term, "/topologyKey");
    let Some(domain) = label(node, key) else { return 0 };
    let same_domain = board.nodes.iter().filter(|other| label(other, key) == Some(domain));
    let met: usize = same_domain
        .map(|other| board.others(other, pod).filter(|there| means(term, pod, there)).count())
        .sum();
    i64::try_from(met).unwrap_or(i64::MAX)
}

/// Whether a term of `pod` means `other`: by namespace and labels.
fn means(term: &Value, pod: &Value, other: &Value) -> bool {
    let named = items(term, "/namespaces");
    let everywhere = term.get("namespaceSelector").is_some_and(Value::is_object);
    let in_scope = if named.is_empty() && !everywhere {
        namespace(other) == namespace(pod)
    } else {
        everywhere || named.iter().any(|one| one == namespace(other))
    };
    in_scope && selects(term.get("labelSelector"), other)
}

/// Required affinity is met by company in the domain; the first Pod of a group that means itself may go anywhere.
fn finds_company(board: &Board<'_>, pod: &Value, node: &Value, term: &Value) -> bool {
    if label(node, text(term, "/topologyKey")).is_none() {
        return false;
    }
    let alone =
        || board.nodes.iter().all(|other| count(board, pod, other, term) == 0) && means(term, pod, pod);
    count(board, pod, node, term) > 0 || alone()
}

/// Whether a Pod that is there forbids this one.
fn unwelcome(board: &Board<'_>, pod: &Value, node: &Value) -> bool {
    board.nodes.iter().any(|other| {
        board.others(other, pod).any(|there| {
            items(there, DISTANCE).iter().any(|term| {
                let key = text(term, "/topologyKey");
                let together = label(node, key).is_some() && label(node, key) == label(other, key);
                together && means(term, there, pod)
            })
        })
    })
}

/// Whether one more Pod here would put the domain ahead of the emptiest one by more than is allowed.
fn breaks(board: &Board<'_>, pod: &Value, node: &Value, constraint: &Value) -> bool {
    let key = text(constraint, "/topologyKey");
    if label(node, key).is_none() {
        return true;
    }
    let eligible = board.nodes.iter().filter(|other| label(other, key).is_some());
    let emptiest = eligible.map(|other| count(board, pod, other, constraint)).min().unwrap_or_default();
    let this = i64::from(selects(constraint.get("labelSelector"), pod));
    count(board, pod, node, constraint) + this - emptiest > integer(constraint, "/maxSkew").unwrap_or(1)
}
