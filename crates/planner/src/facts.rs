//! What several protocols ask about a member. These functions only read.

use quorate_model::snapshot::Pod;
use quorate_model::{GuardVerdict, MemberName};

use crate::draft::Draft;

/// Whether the member's Pod has another revision than the committed one.
pub(crate) fn is_stale(draft: &Draft<'_>, member: &MemberName) -> bool {
    let revision = draft.record.target.as_ref().map(|target| &target.pod.revision);
    draft.pod(member).is_some_and(|pod| Some(&pod.revision) != revision)
}

/// Whether a voter's Pod is not labelled joined yet and must be. A Pod in which etcd has not run yet does not count: its
/// empty volume is that of a first start.
pub(crate) fn lacks_joined_label(pod: &Pod) -> bool {
    pod.has_run && !pod.is_labelled_joined() && !pod.terminating
}

/// Whether the volume that is recorded for a member is gone, or is another one with its name.
pub(crate) fn lost_its_volume(draft: &Draft<'_>, member: &MemberName) -> bool {
    let recorded = draft.record.members.get(member).and_then(|member| member.volume.as_ref());
    recorded.is_some() && draft.volume(member).map(|volume| &volume.uid) != recorded
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

/// A voter whose data are certainly lost.
pub(crate) fn lost_voter(draft: &Draft<'_>) -> Option<MemberName> {
    draft.record.voters().find(|voter| is_lost(draft, voter)).cloned()
}

/// Whether a voter's data are certainly lost.
///
/// - In memory: its Pod is gone, the guard or etcd refuses to start, or the Pod never joined and keeps ending.
/// - On a volume: etcd's list says that the member never started, and its volume is empty or gone. That is a bootstrap
///   member that started after a quorum had formed without it. Nothing starts as new any more (R1), and there are no
///   data that it could resume.
pub(crate) fn is_lost(draft: &Draft<'_>, voter: &MemberName) -> bool {
    if draft.record.is_in_memory() {
        return lost_its_memory(draft, voter);
    }
    let never_started = draft.listed(voter).is_some_and(|listed| !listed.started);
    never_started && (guard_misses_data(draft, voter) || lost_its_volume(draft, voter))
}

fn lost_its_memory(draft: &Draft<'_>, voter: &MemberName) -> bool {
    let Some(pod) = draft.pod(voter) else { return true };
    // When its node restarts, a Pod stays and its memory goes. Before the Pod is labelled joined, the guard takes that for
    // a first start, and etcd refuses it.
    let refused_by_peers = pod.already_bootstrapped && !pod.ready;
    // A Pod that was never labelled, does not answer and ended again after a restart is not the Pod in which the member
    // voted, or contradicts the others. A Pod that answers has trouble with its probe only.
    let never_joined = draft.status_of(voter).is_none()
        && pod.has_run
        && !pod.joined
        && !pod.ready
        && pod.trouble.is_some()
        && pod.restarts > 1;
    guard_misses_data(draft, voter) || refused_by_peers || never_joined
}

/// Whether the guard refuses the member's volume because it was emptied.
pub(crate) fn guard_misses_data(draft: &Draft<'_>, voter: &MemberName) -> bool {
    let refused = draft.pod(voter).and_then(|pod| pod.guard.as_ref());
    refused.is_some_and(|(verdict, _)| *verdict == GuardVerdict::DataMissing)
}
