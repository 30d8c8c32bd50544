//! When a member is replaced (P1), and when it is given up for the one that takes its place (P3).

use quorate_model::effect::Unsafe;
use quorate_model::quorum::has_quorum;
use quorate_model::record::{Leaving, Loss, Stage};
use quorate_model::{Instant, MemberName, Record, Snapshot};

use super::{Fit, Judged, Scene, fit_voters, forbid, fresh_list, progress_is_proven};

/// P1: the data of this member are certainly lost or a person ordered it; the others are a quorum of the present membership, and each
/// of them is healthy or lost as well; no other change is outstanding.
pub fn may_replace(
    seen: &Snapshot,
    record: &Record,
    now: Instant,
    member: &MemberName,
    loss: Loss,
) -> Judged {
    let list = fresh_list(seen, now)?;
    // Where it cannot be withdrawn any more, it is in force without its annotation.
    let outstanding = record.replacement.as_ref();
    let is_recorded = outstanding.is_some_and(|order| order.loss == loss && order.member == *member);
    let is_annotated = seen.is_ordered_to_be_replaced(member);
    let is_ordered = loss == Loss::Ordered && (is_annotated || is_recorded);
    // It was healthy when that was recorded, and was to be removed last.
    let is_moved = loss == Loss::ClaimTerminating && is_recorded && seen.claim_is_terminating(record, member);
    if !(is_ordered || is_moved || seen.is_lost(record, member, now)) {
        forbid(Unsafe::NotLost(member.clone()))?;
    }
    if let Some(learner) = list.members.iter().find(|listed| listed.is_learner) {
        let name = seen.member_of(record, learner).unwrap_or_else(|| MemberName::new(&*learner.name));
        forbid(Unsafe::ChangeOutstanding(name))?;
    }
    let mut others = record.leaving().map(|(name, _)| name).filter(|name| *name != member);
    let listed_leaving = others.find(|name| seen.listed(record, name, now).is_some());
    if let Some(leaving) = listed_leaving {
        forbid(Unsafe::ChangeOutstanding(leaving.clone()))?;
    }
    others_healthy_or_lost(seen, record, now, member)?;
    let of = list.members.iter().filter(|listed| !listed.is_learner).count();
    // A full database does not keep its member from storing what the cluster commits.
    let left = fit_voters(Fit::ButForSpace, seen, record, now).filter(|fit| fit != member).count();
    if !has_quorum(left, of) {
        forbid(Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    }
    progress_is_proven(seen, now)
}

/// A member moves in place only of this many voters: without it the others elect a leader and store writes.
pub(crate) const MOVES_IN_PLACE: usize = 3;

/// P3: the gates of P1 but those of the member itself, which may not be lost any more.
pub(super) fn may_give_up(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let (seen, record, now) = (scene.seen, scene.record, scene.now);
    match record.members.get(member).map(|member| member.stage) {
        Some(Stage::Leaving(Leaving::Lost)) => {
            if !seen.is_lost(record, member, now) {
                forbid(Unsafe::NotLost(member.clone()))?;
            }
        }
        Some(Stage::Leaving(Leaving::Replaced)) => {
            let size = record.target.as_ref().map_or(0, |target| target.size);
            let has_successor = record.voters().count() >= size;
            if seen.is_healthy(member, now) && !has_successor && !may_move_in_place(scene, member)? {
                forbid(Unsafe::LacksSuccessor(member.clone()))?;
            }
        }
        Some(
            Stage::Leaving(Leaving::Shrink | Leaving::RolledBack | Leaving::Stray | Leaving::Removed)
            | Stage::Bootstrap
            | Stage::Joining
            | Stage::Voter,
        )
        | None => return Ok(()),
    }
    others_healthy_or_lost(seen, record, now, member)
}

/// Whether a healthy member may be removed before the next one joins: that is recorded, its claim is being deleted, so its data are to go and
/// nothing can be done with its Pod, and the others can do without another one. That each of them is healthy is asked of every removal.
fn may_move_in_place(scene: &Scene<'_>, member: &MemberName) -> Result<bool, Unsafe> {
    let (seen, record, now) = (scene.seen, scene.record, scene.now);
    let recorded = record.replacement.as_ref();
    let is_recorded = recorded.is_some_and(|moved| moved.in_place && moved.member == *member);
    let voters = fresh_list(seen, now)?.members.iter().filter(|listed| !listed.is_learner).count();
    Ok(is_recorded && seen.claim_is_terminating(record, member) && voters >= MOVES_IN_PLACE)
}

fn others_healthy_or_lost(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> Judged {
    let list = fresh_list(seen, now)?;
    for listed in list.members.iter().filter(|listed| !listed.is_learner) {
        let name = seen.member_of(record, listed).unwrap_or_else(|| MemberName::new(&*listed.name));
        if name == *member || seen.is_sound(&name, now) || seen.is_lost(record, &name, now) {
            continue;
        }
        // It starts again when the member is gone from which it differs.
        let waits_for_it = seen.is_kept_out(&name, now) && seen.differs_from_majority(member, now);
        if !waits_for_it {
            forbid(Unsafe::VoterUnhealthy(name))?;
        }
    }
    Ok(())
}
