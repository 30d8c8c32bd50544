//! R21: a claim that is being deleted lives only as long as a Pod names it. No effect ends that Pod while the data are those of a voter.

use quorate_model::effect::Unsafe;
use quorate_model::record::Stage;
use quorate_model::{Instant, MemberName, Record, Snapshot};

use super::{Judged, forbid, forbid_if, may_vote};
use crate::View;

/// Whether the member's Pod may be evicted or deleted.
pub(super) fn may_end_pod(view: View<'_>, member: &MemberName) -> Judged {
    forbid_if(keeps_data(view, member), || Unsafe::ClaimTerminating(member.clone()))?;
    let unread = view.seen.claims_not_read.get(member).filter(|_| is_all_of_a_voter(view, member));
    unread.map_or(Ok(()), |why| forbid(Unsafe::ClaimNotRead(member.clone(), why.clone())))
}

/// Whether the member's Pod is all that keeps the data of a voter: its claim is being deleted. Also a Pod that has ended keeps its claim.
/// Who deletes a claim after the EtcdCluster knows what becomes of the data.
pub(crate) fn keeps_data(view: View<'_>, member: &MemberName) -> bool {
    let goes_with_the_cluster =
        view.seen.deleting && view.volume(member).is_some_and(|volume| volume.deleted_after_cluster);
    view.claim_is_terminating(member) && !goes_with_the_cluster && is_all_of_a_voter(view, member)
}

/// Whether the member's Pod would be all that keeps the data of a voter, were its claim being deleted.
pub fn would_keep_data(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> bool {
    is_all_of_a_voter(View { seen, record, now }, member)
}

fn is_all_of_a_voter(view: View<'_>, member: &MemberName) -> bool {
    let View { seen, record, now } = view;
    if view.pod(member).is_none() {
        return false;
    }
    if seen.deleting && (!seen.keeps_data_when_deleted() || seen.never_served(record)) {
        return false;
    }
    let Some(recorded) = view.recorded(member) else { return has_data_without_record(view, member) };
    match recorded.stage {
        Stage::Voter => true,
        // Its promotion may have been carried out unobserved.
        Stage::Joining => recorded.id.is_some() && may_vote(view, member),
        Stage::Leaving(_) => seen.list_just_read(now).is_none() || view.is_listed_voter(member),
        // An attempt without a leader has served nobody.
        Stage::Bootstrap => record.cluster_id.is_some() || record.had_leader,
    }
}

/// Whether the claim says that its data are those of a member that served, and nothing says that it votes no more: status was lost. A claim that
/// is not known yet may say so.
fn has_data_without_record(view: View<'_>, member: &MemberName) -> bool {
    let volume = view.volume(member);
    let served = volume.is_none_or(|volume| volume.member_id.is_some() && volume.quarantine.is_none());
    let is_listed = |id| view.seen.is_listed(id, view.now);
    let is_removed = view.seen.list_just_read(view.now).is_some()
        && !view.is_listed_voter(member)
        && !volume.and_then(|volume| volume.member_id).is_some_and(is_listed);
    served && !is_removed
}
