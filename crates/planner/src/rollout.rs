//! Brings Pods to the committed shape, one at a time: U2 sick first, then followers, the leader last; U3 all other
//! voters healthy; U4 move leadership away; U5 delete the Pod, which is then made again on its volume; U6 wait until it
//! is ready before the next.

use quorate_model::{MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{restart, shrink};

pub(crate) fn next(draft: &mut Draft<'_>) -> Flow {
    let stale = draft.record.voters().filter(|voter| restart::is_stale(draft, voter));
    let next = stale.min_by_key(|voter| {
        (draft.seen.is_healthy(voter, draft.now), draft.is_leader(voter), draft.seen.cluster.ordinal(voter))
    });
    let Some(next) = next.cloned() else { return ON };
    if let Some(other) = not_ready(draft, &next) {
        draft.wait(Waiting::PodStarting(other));
        return DONE;
    }
    if shrink::does_not_lead(draft, Step::U4, &next) {
        draft.clear_pod(Step::U5, &next);
    }
    DONE
}

/// U6: another voter whose Pod is not ready.
fn not_ready(draft: &Draft<'_>, next: &MemberName) -> Option<MemberName> {
    let other = |voter: &&MemberName| *voter != next && draft.pod(voter).is_none_or(|pod| !pod.ready);
    draft.record.voters().find(other).cloned()
}
