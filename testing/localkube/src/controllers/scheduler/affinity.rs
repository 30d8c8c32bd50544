//! Affinity between Pods and topology spread: required terms exclude a node, preferred ones count in the score.

use quorate_apistore::fields::{integer, items, label, namespace, text};
use quorate_apistore::selectors::selects;
use serde_json::Value;

use super::Assignments;
use super::objection::Objection;

const REQUIRED_AFFINITY: &str = "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution";
const REQUIRED_ANTI_AFFINITY: &str =
    "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED_AFFINITY: &str = "/spec/affinity/podAffinity/preferredDuringSchedulingIgnoredDuringExecution";
const PREFERRED_ANTI_AFFINITY: &str =
    "/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution";

/// Why other Pods exclude this node.
pub(super) fn objection(assignments: &Assignments<'_>, pod: &Value, node: &Value) -> Option<Objection> {
    let mut constraints = items(pod, "/spec/topologySpreadConstraints").iter();
    if constraints
        .any(|one| one["whenUnsatisfiable"] == "DoNotSchedule" && exceeds_skew(assignments, pod, node, one))
    {
        let text = "node(s) didn't match pod topology spread constraints".to_owned();
        return Some(Objection { text, permanent: false });
    }
    if !items(pod, REQUIRED_AFFINITY).iter().all(|term| meets_affinity(assignments, pod, node, term)) {
        return Some(Objection {
            text: "node(s) didn't match pod affinity rules".to_owned(),
            permanent: true,
        });
    }
    if items(pod, REQUIRED_ANTI_AFFINITY).iter().any(|term| count(assignments, pod, node, term) > 0) {
        return Some(Objection {
            text: "node(s) didn't match pod anti-affinity rules".to_owned(),
            permanent: false,
        });
    }
    if is_excluded(assignments, pod, node) {
        let text = "node(s) didn't satisfy existing pods anti-affinity rules".to_owned();
        return Some(Objection { text, permanent: false });
    }
    None
}

/// The weight of preferred terms and soft spread constraints; more is better.
pub(super) fn preference(assignments: &Assignments<'_>, pod: &Value, node: &Value) -> i64 {
    let weighed = |preferred: &str, sign: i64| -> i64 {
        items(pod, preferred)
            .iter()
            .map(|one| {
                sign * integer(one, "/weight").unwrap_or(1)
                    * count(assignments, pod, node, &one["podAffinityTerm"])
            })
            .sum()
    };
    let crowding: i64 = items(pod, "/spec/topologySpreadConstraints")
        .iter()
        .filter(|one| one["whenUnsatisfiable"] == "ScheduleAnyway")
        .map(|one| count(assignments, pod, node, one))
        .sum();
    weighed(PREFERRED_AFFINITY, 1) + weighed(PREFERRED_ANTI_AFFINITY, -1) - 100 * crowding
}

/// How many Pods that a term selects are in the node's topology domain.
fn count(assignments: &Assignments<'_>, pod: &Value, node: &Value, term: &Value) -> i64 {
    let key = text(term, "/topologyKey");
    let Some(domain) = label(node, key) else { return 0 };
    let same_domain = assignments.nodes.iter().filter(|other| label(other, key) == Some(domain));
    let met: usize = same_domain
        .map(|other| assignments.others(other, pod).filter(|there| selects_pod(term, pod, there)).count())
        .sum();
    i64::try_from(met).unwrap_or(i64::MAX)
}

/// Whether a term of `pod` selects `other`, by namespace and labels.
fn selects_pod(term: &Value, pod: &Value, other: &Value) -> bool {
    let named = items(term, "/namespaces");
    let everywhere = term.get("namespaceSelector").is_some_and(Value::is_object);
    let in_scope = if named.is_empty() && !everywhere {
        namespace(other) == namespace(pod)
    } else {
        everywhere || named.iter().any(|one| one == namespace(other))
    };
    in_scope && selects(term.get("labelSelector"), other)
}

/// Required affinity is met by a selected Pod in the domain. The first Pod of a group that selects itself may run
/// anywhere.
fn meets_affinity(assignments: &Assignments<'_>, pod: &Value, node: &Value, term: &Value) -> bool {
    if label(node, text(term, "/topologyKey")).is_none() {
        return false;
    }
    let alone = || {
        assignments.nodes.iter().all(|other| count(assignments, pod, other, term) == 0)
            && selects_pod(term, pod, pod)
    };
    count(assignments, pod, node, term) > 0 || alone()
}

/// Whether the anti-affinity of a Pod in the domain excludes this one.
fn is_excluded(assignments: &Assignments<'_>, pod: &Value, node: &Value) -> bool {
    assignments.nodes.iter().any(|other| {
        assignments.others(other, pod).any(|there| {
            items(there, REQUIRED_ANTI_AFFINITY).iter().any(|term| {
                let key = text(term, "/topologyKey");
                let together = label(node, key).is_some() && label(node, key) == label(other, key);
                together && selects_pod(term, there, pod)
            })
        })
    })
}

/// Whether one more Pod here would exceed the allowed skew.
fn exceeds_skew(assignments: &Assignments<'_>, pod: &Value, node: &Value, constraint: &Value) -> bool {
    let key = text(constraint, "/topologyKey");
    if label(node, key).is_none() {
        return true;
    }
    let eligible = assignments.nodes.iter().filter(|other| label(other, key).is_some());
    let emptiest = eligible.map(|other| count(assignments, pod, other, constraint)).min().unwrap_or_default();
    let this = i64::from(selects(constraint.get("labelSelector"), pod));
    count(assignments, pod, node, constraint) + this - emptiest > integer(constraint, "/maxSkew").unwrap_or(1)
}
