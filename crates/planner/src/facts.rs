//! What several protocols ask about a member. These functions only read.

use quorate_model::MemberName;
use quorate_model::effect::LEARNER_DEADLINE;
use quorate_model::snapshot::Pod;

use crate::View;

/// Whether a voter's Pod is not labelled joined yet and must be. A Pod in which etcd has not run yet does not count: its
/// empty volume is that of a first start.
pub(crate) fn lacks_joined_label(pod: &Pod) -> bool {
    pod.has_run && !pod.is_labelled_joined() && !pod.terminating
}

/// Whether a member of the bootstrap set reports a leader, or has applied more than the entries that a new member begins with, one for
/// each member of the set: the next one is the leader's first.
pub(crate) fn has_followed_a_leader(view: View<'_>, member: &MemberName) -> bool {
    let begins_with = u64::try_from(view.record.members.len()).unwrap_or(u64::MAX);
    let status = view.status_of(member);
    status.is_some_and(|status| status.leader.is_some() || status.applied > begins_with)
}

/// Whether a member has not been healthy for long. A node that restarts is back within that time.
pub(crate) fn is_unhealthy_for_long(view: View<'_>, member: &MemberName) -> bool {
    let since = view.seen.etcd.unhealthy_since.get(member);
    since.is_some_and(|since| view.now - *since > LEARNER_DEADLINE)
}

/// A voter other than this one that has not been healthy for long. No member is promoted meanwhile, and a member that only moves stays.
pub(crate) fn unhealthy_for_long<'a>(view: View<'a>, except: Option<&MemberName>) -> Option<&'a MemberName> {
    view.record.voters().find(|voter| Some(*voter) != except && is_unhealthy_for_long(view, voter))
}

/// A voter whose data are certainly lost, and that the operator may replace.
pub(crate) fn lost_voter(view: View<'_>) -> Option<&MemberName> {
    view.record.voters().find(|voter| view.is_lost(voter))
}

/// The voter that leads.
pub(crate) fn leader(view: View<'_>) -> Option<&MemberName> {
    view.record.voters().find(|voter| view.is_leader(voter))
}
