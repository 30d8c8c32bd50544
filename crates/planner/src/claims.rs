//! Claims that somebody deleted while their Pods run (R21): told at once, whatever else is under way. `replace` moves such a member to a new
//! claim.

use quorate_model::effect::ClaimOutlook;
use quorate_model::{MemberName, Waiting};

use crate::draft::Draft;
use crate::safety;

/// Reports every Pod that is all that keeps the data of a voter.
pub(crate) fn report(draft: &mut Draft<'_>) {
    let members: Vec<MemberName> = keeping_data(draft).cloned().collect();
    for member in members {
        let outlook = outlook(draft, &member);
        draft.wait(Waiting::ClaimTerminating { member, outlook });
    }
}

/// Whether a quorum can move the members whose claims are being deleted, before every member is stopped.
pub(crate) fn come_first(draft: &Draft<'_>) -> bool {
    draft.via().is_some() && keeping_data(draft).next().is_some()
}

/// Whether a member's Pod and its claim go together, and neither is gone yet.
pub(crate) fn outlive_no_stop(draft: &Draft<'_>) -> bool {
    let mut members = draft.record.members.keys();
    members.any(|member| draft.pod(member).is_some() && draft.view().claim_is_terminating(member))
}

/// The members whose Pods are all that keeps their data, also those that no record names.
pub(crate) fn keeping_data<'a>(draft: &'a Draft<'_>) -> impl Iterator<Item = &'a MemberName> {
    draft.seen.pods.keys().filter(|member| safety::keeps_data(draft.view(), member))
}

fn outlook(draft: &Draft<'_>, member: &MemberName) -> ClaimOutlook {
    let record = &draft.record;
    // Nothing else is done under these.
    let is_halted = draft.seen.paused || draft.seen.record_doubt.is_some();
    if draft.seen.deleting {
        ClaimOutlook::Deleted
    } else if record.quorum_recovery.is_some() {
        ClaimOutlook::Stays
    } else if record.next_incarnation.is_some() {
        ClaimOutlook::Ordered
    } else if !draft.seen.replacement_policy.enabled {
        ClaimOutlook::MovesOnOrder
    } else if record.hibernating {
        ClaimOutlook::AtSizeZero
    } else if is_halted || draft.via().is_none() || !draft.view().is_healthy(member) {
        ClaimOutlook::Stays
    } else if record.replacement.as_ref().is_some_and(|moved| moved.in_place && moved.member == *member) {
        ClaimOutlook::MovesInPlace
    } else if record.voters().count() == 1 {
        ClaimOutlook::MovesAlone
    } else {
        ClaimOutlook::Moves
    }
}
