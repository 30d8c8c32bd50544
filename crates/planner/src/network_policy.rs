//! K1: the NetworkPolicy, which says who reaches the members by the network.

use quorate_model::snapshot::Presence;
use quorate_model::{AppliedObject, DeletedObject, Step};

use crate::draft::Draft;

/// Creates it, corrects it, or deletes it where the spec wants none.
///
/// It needs no quorum, and comes before all that rests on what the operator reaches: a policy that somebody changed, or that an operator in
/// another namespace wrote, may be what keeps peers from each other, and this operator from them. In a new cluster it is there before the
/// first Pod. While the cluster is paused it stays as it is, like all else that the spec says.
pub(crate) fn keep_up(draft: &mut Draft<'_>) {
    if draft.seen.paused {
        return;
    }
    let policy = &draft.seen.network_policy;
    match (policy.wanted, &policy.seen) {
        (true, _) if policy.presence != Presence::Matches => {
            draft.apply(Step::K1, AppliedObject::NetworkPolicy);
        }
        (false, Some(seen)) => draft.delete(Step::K1, DeletedObject::NetworkPolicy, seen),
        (true, _) | (false, None) => {}
    }
}
