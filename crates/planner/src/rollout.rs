//! Rollout: gives Pods the committed revision, one at a time. U1 the Pods of another revision; U2 the next one: unhealthy
//! first, then followers, the leader last; U3 all other voters are healthy; U4 move leadership away; U5 evict the Pod,
//! which W1 creates again on its volume; U6 wait until it is ready and in sync before the next.

use quorate_model::effect::Unsafe;
use quorate_model::{MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON};
use crate::{leadership, safety, upgrade, waves};

pub(crate) fn next(draft: &mut Draft<'_>) -> Flow {
    waves::tell_parked(draft);
    let view = draft.view();
    let stale: Vec<_> = view.record.voters().filter(|voter| view.is_stale(voter)).collect();
    // R21: one that keeps data gets the new shape when it moves, and holds up no other.
    let may_restart = stale.iter().copied().filter(|voter| !safety::keeps_data(view, voter));
    if let (Some(keeper), None) = (stale.first().copied().cloned(), may_restart.clone().next()) {
        draft.wait(Waiting::Unsafe(Unsafe::ClaimTerminating(keeper)));
        return ON;
    }
    let rank = |voter: &&_| (view.is_healthy(voter), view.is_leader(voter), view.seen.cluster.ordinal(voter));
    let next = may_restart.min_by_key(rank);
    let Some(next) = next.cloned() else {
        waves::end_turn(draft);
        return ON;
    };
    if let Some(refused) = upgrade::goes_back(draft, &next) {
        draft.wait(refused);
        return DONE;
    }
    if let Some(other) = not_ready(draft, &next) {
        draft.wait(Waiting::PodStarting(other));
        return DONE;
    }
    if lacks_room(draft, &next) {
        draft.wait(Waiting::VolumeGrowing(next));
        return DONE;
    }
    if leadership::move_away(draft, Step::U4, &next).is_done() {
        let _ = draft.restart_pod(Step::U5, &next);
    }
    DONE
}

/// U6: another voter whose Pod is not ready. Whether it has caught up, its health says.
fn not_ready(draft: &Draft<'_>, next: &MemberName) -> Option<MemberName> {
    let other = |voter: &&MemberName| *voter != next && draft.pod(voter).is_none_or(|pod| !pod.ready);
    draft.record.voters().find(other).cloned()
}

/// Whether the restart would give a member a larger quota than its volume can carry by now: then the disk would be full before the
/// database is, and a full disk stops the member. A volume whose file system grows when it is mounted needs the restart.
fn lacks_room(draft: &Draft<'_>, member: &MemberName) -> bool {
    let Some(target) = &draft.record.target else { return false };
    let is_small = |quota| draft.seen.lacks_room(member, quota, target.storage.bytes);
    target.pod.quota.is_some_and(is_small) && draft.seen.restart_raises_quota(&draft.record, member)
}
