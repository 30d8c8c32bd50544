//! When a member is replaced (P1), and when it is given up for the one that takes its place (P3).

use quorate_model::MemberName;
use quorate_model::effect::Unsafe;
use quorate_model::quorum::has_quorum;
use quorate_model::record::{Leaving, Loss, Stage};

use super::{
    Fit, Judged, count_fit_others, forbid_if, forbid_unless, fresh_list, none_learns, none_leaves,
    progress_is_proven,
};
use crate::View;
use crate::view::voters_of;

/// P1: the data of this member are certainly lost or a person ordered it; the others are a quorum of the present membership, and each
/// of them is healthy or lost as well; no other change is outstanding.
pub fn may_replace(view: View<'_>, member: &MemberName, loss: Loss) -> Judged {
    let list = fresh_list(view)?;
    // Where it cannot be withdrawn any more, it is in force without its annotation.
    let outstanding = view.record.replacement.as_ref();
    let is_recorded = outstanding.is_some_and(|order| order.loss == loss && order.member == *member);
    let is_annotated = view.seen.is_ordered_to_be_replaced(member);
    let is_ordered = loss == Loss::Ordered && (is_annotated || is_recorded);
    // It was healthy when that was recorded, and was to be removed last.
    let is_moved = loss == Loss::ClaimTerminating && is_recorded && view.claim_is_terminating(member);
    forbid_unless(is_ordered || is_moved || view.is_lost(member), || Unsafe::NotLost(member.clone()))?;
    none_learns(view, list)?;
    none_leaves(view, Some(member))?;
    others_healthy_or_lost(view, member)?;
    // A full database does not keep its member from storing what the cluster commits.
    let (of, left) = (voters_of(list).count(), count_fit_others(view, Fit::ButForSpace, member));
    forbid_unless(has_quorum(left, of), || Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    progress_is_proven(view)
}

/// A member moves in place only of this many voters: without it the others elect a leader and store writes.
pub(crate) const MOVES_IN_PLACE: usize = 3;

/// P3: the gates of P1 but those of the member itself, which may not be lost any more.
pub(super) fn may_give_up(view: View<'_>, member: &MemberName) -> Judged {
    match view.stage_of(member) {
        Some(Stage::Leaving(Leaving::Lost)) => {
            forbid_unless(view.is_lost(member), || Unsafe::NotLost(member.clone()))?;
        }
        Some(Stage::Leaving(Leaving::Replaced)) => {
            let has_successor = view.record.voters().count() >= view.size();
            let lacks_one = view.is_healthy(member) && !has_successor && !may_move_in_place(view, member)?;
            forbid_if(lacks_one, || Unsafe::LacksSuccessor(member.clone()))?;
        }
        Some(
            Stage::Leaving(Leaving::Shrink | Leaving::RolledBack | Leaving::Stray | Leaving::Removed)
            | Stage::Bootstrap
            | Stage::Joining
            | Stage::Voter,
        )
        | None => return Ok(()),
    }
    others_healthy_or_lost(view, member)
}

/// Whether a healthy member may be removed before the next one joins: that is recorded, its claim is being deleted, so its data are to go and
/// nothing can be done with its Pod, and the others can do without another one. That each of them is healthy is asked of every removal.
fn may_move_in_place(view: View<'_>, member: &MemberName) -> Result<bool, Unsafe> {
    let recorded = view.record.replacement.as_ref();
    let is_recorded = recorded.is_some_and(|moved| moved.in_place && moved.member == *member);
    let voters = voters_of(fresh_list(view)?).count();
    Ok(is_recorded && view.claim_is_terminating(member) && voters >= MOVES_IN_PLACE)
}

fn others_healthy_or_lost(view: View<'_>, member: &MemberName) -> Judged {
    voters_of(fresh_list(view)?).try_for_each(|listed| {
        let name = view.name_of(listed);
        // It starts again when the member is gone from which it differs.
        let waits_for_it =
            || view.seen.is_kept_out(&name, view.now) && view.seen.differs_from_majority(member, view.now);
        let is_right = name == *member || view.is_sound(&name) || view.is_lost(&name) || waits_for_it();
        forbid_unless(is_right, || Unsafe::VoterUnhealthy(name.clone()))
    })
}
