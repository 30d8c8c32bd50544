//! What several protocols ask about a member. These functions only read.

use quorate_model::effect::LEARNER_DEADLINE;
use quorate_model::snapshot::Pod;
use quorate_model::{Instant, MemberName, Record, Snapshot};

use crate::draft::Draft;

/// Whether the member's Pod has another revision than the committed one.
pub(crate) fn is_stale(draft: &Draft<'_>, member: &MemberName) -> bool {
    draft.seen.is_stale(&draft.record, member)
}

/// Whether a voter's Pod is not labelled joined yet and must be. A Pod in which etcd has not run yet does not count: its
/// empty volume is that of a first start.
pub(crate) fn lacks_joined_label(pod: &Pod) -> bool {
    pod.has_run && !pod.is_labelled_joined() && !pod.terminating
}

/// Whether a member of the bootstrap set reports a leader, or has applied more than the entries that a new member begins with, one for
/// each member of the set: the next one is the leader's first.
pub(crate) fn has_followed_a_leader(
    seen: &Snapshot,
    record: &Record,
    now: Instant,
    member: &MemberName,
) -> bool {
    let begins_with = u64::try_from(record.members.len()).unwrap_or(u64::MAX);
    let status = seen.status_of(member, now);
    status.is_some_and(|status| status.leader.is_some() || status.applied > begins_with)
}

/// Whether the volume that is recorded for a member is gone, or is another one with its name.
pub(crate) fn lost_its_volume(draft: &Draft<'_>, member: &MemberName) -> bool {
    draft.seen.lost_its_volume(&draft.record, member)
}

/// A voter other than this one that has not been healthy for long. No member is promoted meanwhile, and a member that only moves stays. A node
/// that restarts is back within that time.
pub(crate) fn unhealthy_for_long(draft: &Draft<'_>, except: Option<&MemberName>) -> Option<MemberName> {
    let for_long = |voter: &&MemberName| {
        let since = draft.seen.etcd.unhealthy_since.get(*voter);
        Some(*voter) != except && since.is_some_and(|since| draft.now - *since > LEARNER_DEADLINE)
    };
    draft.record.voters().find(for_long).cloned()
}

/// A voter whose data are certainly lost, and that the operator may replace.
pub(crate) fn lost_voter(draft: &Draft<'_>) -> Option<MemberName> {
    draft.record.voters().find(|voter| is_lost(draft, voter)).cloned()
}

/// Whether a voter's data are certainly lost.
pub(crate) fn is_lost(draft: &Draft<'_>, voter: &MemberName) -> bool {
    draft.seen.is_lost(&draft.record, voter, draft.now)
}
