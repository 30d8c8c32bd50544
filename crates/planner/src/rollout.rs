//! Rollout: gives Pods the committed revision, one at a time. U1 the Pods of another revision; U2 the next one: unhealthy
//! first, then followers, the leader last; U3 all other voters are healthy; U4 move leadership away; U5 delete the Pod,
//! which W1 creates again on its volume; U6 wait until it is ready and in sync before the next.

use quorate_model::{MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{facts, upgrade};

/// How many raft entries a voter in sync may be behind: writes go on while members are asked one after the other. etcd keeps
/// 5000 entries for a follower (`SnapshotCatchUpEntries`).
const LAG: u64 = 5000;

pub(crate) fn next(draft: &mut Draft<'_>) -> Flow {
    let stale = draft.record.voters().filter(|voter| facts::is_stale(draft, voter));
    let next = stale.min_by_key(|voter| {
        (draft.seen.is_healthy(voter, draft.now), draft.is_leader(voter), draft.seen.cluster.ordinal(voter))
    });
    let Some(next) = next.cloned() else { return ON };
    if let Some(refused) = upgrade::goes_back(draft, &next) {
        draft.wait(refused);
        return DONE;
    }
    if let Some(other) = not_ready(draft, &next) {
        draft.wait(Waiting::PodStarting(other));
        return DONE;
    }
    if draft.move_leadership_away(Step::U4, &next).is_done() {
        let _ = draft.delete_pod(Step::U5, &next);
    }
    DONE
}

/// U6: another voter whose Pod is not ready, or that has not caught up yet.
fn not_ready(draft: &Draft<'_>, next: &MemberName) -> Option<MemberName> {
    let applied = |voter: &MemberName| draft.status_of(voter).map(|status| status.applied);
    let most = draft.record.voters().filter_map(applied).max().unwrap_or(0);
    let is_in_sync = |voter: &MemberName| applied(voter).is_some_and(|applied| applied + LAG >= most);
    let other = |voter: &&MemberName| {
        *voter != next && (draft.pod(voter).is_none_or(|pod| !pod.ready) || !is_in_sync(voter))
    };
    draft.record.voters().find(other).cloned()
}
