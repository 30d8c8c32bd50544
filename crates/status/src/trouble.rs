//! Failures of writes and calls: their reason and message in status and events.

use quorate_api::status::EtcdClusterStatus;
use quorate_api::{ConditionType, Explanation, Reason, conditions, keys};
use quorate_model::{Instant, MemberName, Snapshot};

use quorate_manifests::certificate::CLIENT_USER;
use quorate_manifests::kind::Kind;

/// How a person orders to replace a member.
pub(crate) fn order_to_replace(member: &str) -> String {
    format!(
        "annotate the EtcdCluster with {}={member}/ID, with its ID from status.members",
        keys::REPLACE_MEMBER
    )
}

/// The API server refuses a write (`what` is its [`quorate_manifests::Write::describe`]), until what its message names is changed.
pub fn write_refused(what: &str, answer: &str, seen: &Snapshot, now: Instant) -> Explanation {
    let answer = answer.trim_end_matches('.');
    let budget = format!(" {} ", Kind::Budget.as_str());
    let then = if what.contains(&budget) { closes_no_budget() } else { consequence(seen, now) };
    let message = format!("cannot {what}: {answer}. {then}. The operator tries again by itself");
    Explanation::new(Reason::WriteRefused, message)
}

/// Policies may demand that every budget leaves room for an eviction.
fn closes_no_budget() -> String {
    "Until the write is allowed no member is replaced, moved or removed, also not one that is lost: meanwhile a drain could take another \
     one, so the operator first sets minAvailable to the number of members, for as long as it takes. Exempt this PodDisruptionBudget from \
     the policy that demands room for an eviction, or set spec.disruption.podDisruptionBudget to None"
        .to_owned()
}

/// The API server refuses to expand a member's volume: mostly its storage class does not allow it.
pub fn expansion_refused(what: &str, answer: &str, member: &MemberName) -> Explanation {
    let answer = answer.trim_end_matches('.');
    let message = format!(
        "cannot {what}: {answer}. Pods keep their present quota until every volume has grown. If the storage class does not allow \
         expansion, set allowVolumeExpansion in it, or move the members to new volumes, one after another: {}. The new volume has the size \
         and the storage class of the spec",
        order_to_replace(member.as_str())
    );
    Explanation::new(Reason::VolumeGrowing, message)
}

/// For a while now no PodDisruptionBudget admits the eviction of a Pod.
pub fn eviction_blocked(what: &str, answer: &str) -> Explanation {
    let answer = answer.trim_end_matches('.');
    let message = format!(
        "cannot {what}: {answer}. The operator waits for its turn and never deletes a Pod that serves instead. A drain that \
         takes long, a Pod that is not ready or another PodDisruptionBudget can be the cause"
    );
    Explanation::new(Reason::EvictionBlocked, message)
}

/// The API server did not answer, or not in time: the write may have been done or not.
pub fn api_unavailable(what: &str, error: &str) -> Explanation {
    let error = error.trim_end_matches('.');
    let message = format!(
        "cannot {what}: {error}. The outcome is unknown; the operator observes again and repeats what is missing"
    );
    Explanation::new(Reason::ApiUnavailable, message)
}

/// Status could not be written. Nothing is done before status records it, so nothing was done.
pub fn status_not_written(cluster: &str, error: &str) -> Explanation {
    let error = error.trim_end_matches('.');
    let message = format!(
        "cannot write the status of EtcdCluster {cluster}: {error}. Nothing else is done until status can be written"
    );
    Explanation::new(Reason::StatusNotWritten, message)
}

/// etcd refuses a change of its membership or leadership, for a permanent cause.
pub fn membership_change_refused(call: &str, error: &str) -> Explanation {
    let error = error.trim_end_matches('.');
    let cure = if is_of_auth(error) {
        format!(
            "etcd's auth is enabled, and the operator, whose client certificate has the common name {CLIENT_USER}, is no user with the role \
             root: set spec.auth.enabled to true, then it is root by a certificate of its own. "
        )
    } else {
        String::new()
    };
    let message =
        format!("etcd does not carry out {call}: {error}. {cure}The operator tries again by itself");
    Explanation::new(Reason::MembershipChangeRefused, message)
}

/// Whether etcd's auth refuses the user that the operator's certificate names: in the words of etcd's `api/v3rpc/rpctypes/error.go`. (Without
/// a certificate it says `user name is empty`.)
fn is_of_auth(error: &str) -> bool {
    ["permission denied", "user name not found"].iter().any(|words| error.contains(words))
}

/// The status with the failure as the reason of `Progressing`, and of `Ready` where that is what keeps it from being. Reason and message
/// change together.
pub fn with_trouble(mut status: EtcdClusterStatus, trouble: Option<&Explanation>) -> EtcdClusterStatus {
    let Some(trouble) = trouble else { return status };
    conditions::explain(&mut status.conditions, ConditionType::Progressing.as_str(), trouble);
    crate::with_trouble(&mut status, trouble);
    status
}

/// How the cluster runs until the write is allowed.
fn consequence(seen: &Snapshot, now: Instant) -> String {
    let size = seen.target().size;
    if !seen.record.is_bootstrapped() {
        return "The cluster is not bootstrapped until the write is allowed".to_owned();
    }
    let healthy = seen.record.members.keys().filter(|member| seen.is_healthy(member, now)).count();
    if healthy < size {
        format!("The cluster runs with {healthy} of {size} members until the write is allowed")
    } else {
        "The cluster runs on without this change".to_owned()
    }
}
