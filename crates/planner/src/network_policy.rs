//! K1: the NetworkPolicy, which says who reaches the members by the network.

use quorate_model::snapshot::Presence;
use quorate_model::{Effect, KubeEffect, ManagedObject, Step};

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
    // `halt` reports one of this name that the EtcdCluster does not own. It is never written.
    let is_foreign = draft.seen.foreign.contains_key(&ManagedObject::NetworkPolicy);
    match (policy.wanted, policy.presence, &policy.seen) {
        (true, Presence::Absent | Presence::Differs, _) if !is_foreign => {
            draft.propose(Effect::kube(Step::K1, KubeEffect::ApplyNetworkPolicy));
        }
        (false, _, Some(seen)) => {
            let delete = KubeEffect::DeleteNetworkPolicy { observed: seen.clone() };
            draft.propose(Effect::kube(Step::K1, delete));
        }
        (true, Presence::Absent | Presence::Differs | Presence::Matches, _) | (false, _, None) => {}
    }
}
