//! What several protocols ask about a member. These functions only read.

use quorate_model::snapshot::Pod;
use quorate_model::{Instant, MemberName, Record, Snapshot};

use crate::draft::Draft;
use crate::grow::UNHEALTHY_VOTER_DEADLINE;

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

/// The voter that keeps a learner in sync from being promoted, because it is not healthy. `None` for a learner that is not in sync,
/// or is not a learner any more.
pub(crate) fn holds_up_promotion(draft: &Draft<'_>, learner: &MemberName) -> Option<MemberName> {
    let in_sync = draft.status_of(learner).is_some_and(|status| status.leader.is_some());
    let is_learner = draft.listed(learner).is_some_and(|listed| listed.is_learner);
    let unhealthy =
        || draft.record.voters().find(|voter| draft.seen.etcd.unhealthy_since.contains_key(*voter));
    if in_sync && is_learner { unhealthy().cloned() } else { None }
}

/// Why a learner that follows the leader is not promoted, and will not be soon: a voter is not healthy, or the learner does not come closer to
/// the leader, as where its disk stores less than the cluster writes.
pub(crate) fn why_held_up(draft: &Draft<'_>, learner: &MemberName) -> Option<String> {
    if let Some(voter) = holds_up_promotion(draft, learner) {
        return Some(format!("it is not promoted while {voter} is not healthy"));
    }
    let follows = draft.status_of(learner).is_some_and(|status| status.leader.is_some());
    let progress = draft.seen.etcd.learner_progress.as_ref().filter(|(of, _)| of == learner);
    let (_, last) = progress.filter(|_| follows)?;
    (draft.now - *last > UNHEALTHY_VOTER_DEADLINE)
        .then(|| format!("it has not come closer to the leader for more than {UNHEALTHY_VOTER_DEADLINE}"))
}

/// A voter whose data are certainly lost, and that the operator may replace.
pub(crate) fn lost_voter(draft: &Draft<'_>) -> Option<MemberName> {
    draft.record.voters().find(|voter| is_lost(draft, voter)).cloned()
}

/// Whether a voter's data are certainly lost.
pub(crate) fn is_lost(draft: &Draft<'_>, voter: &MemberName) -> bool {
    draft.seen.is_lost(&draft.record, voter, draft.now)
}
