//! R21: a claim that is being deleted lives only as long as a Pod names it. No effect ends that Pod while the data are those of a voter.

use quorate_model::effect::Unsafe;
use quorate_model::record::Stage;
use quorate_model::{Instant, MemberName, Record, Snapshot};

use super::{Judged, Scene, forbid};

/// Whether the member's Pod may be evicted or deleted.
pub(super) fn may_end_pod(scene: &Scene<'_>, member: &MemberName) -> Judged {
    if keeps_data(scene.seen, scene.record, scene.now, member) {
        forbid(Unsafe::ClaimTerminating(member.clone()))?;
    }
    let unread = scene.seen.claims_not_read.get(member);
    let unread = unread.filter(|_| would_keep_data(scene.seen, scene.record, scene.now, member));
    match unread {
        Some(why) => forbid(Unsafe::ClaimNotRead(member.clone(), why.clone())),
        None => Ok(()),
    }
}

/// Whether the member's Pod is all that keeps the data of a voter: its claim is being deleted. Also a Pod that has ended keeps its claim.
/// Who deletes a claim after the EtcdCluster knows what becomes of the data.
pub(crate) fn keeps_data(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> bool {
    let goes_with_the_cluster =
        seen.deleting && seen.volumes.get(member).is_some_and(|volume| volume.deleted_after_cluster);
    seen.claim_is_terminating(record, member)
        && !goes_with_the_cluster
        && would_keep_data(seen, record, now, member)
}

/// Whether the member's Pod would be all that keeps the data of a voter, were its claim being deleted.
pub fn would_keep_data(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> bool {
    if !seen.pods.contains_key(member) {
        return false;
    }
    if seen.deleting && (!seen.keeps_data_when_deleted() || seen.never_served(record)) {
        return false;
    }
    let Some(recorded) = record.members.get(member) else {
        return has_data_without_record(seen, record, now, member);
    };
    match recorded.stage {
        Stage::Voter => true,
        // Its promotion may have been carried out unobserved.
        Stage::Joining => {
            recorded.id.is_some()
                && (seen.list(now).is_none()
                    || seen.listed(record, member, now).is_some_and(|listed| !listed.is_learner))
        }
        Stage::Leaving(_) => {
            let list = seen.list_just_read(now);
            list.is_none() || seen.listed(record, member, now).is_some_and(|listed| !listed.is_learner)
        }
        // An attempt without a leader has served nobody.
        Stage::Bootstrap => record.cluster_id.is_some() || record.had_leader,
    }
}

/// Whether the claim says that its data are those of a member that served, and nothing says that it votes no more: status was lost. A claim that
/// is not known yet may say so.
fn has_data_without_record(seen: &Snapshot, record: &Record, now: Instant, member: &MemberName) -> bool {
    let volume = seen.volumes.get(member);
    let served = volume.is_none_or(|volume| volume.member_id.is_some() && volume.quarantine.is_none());
    let is_removed = seen.list_just_read(now).is_some()
        && seen.listed(record, member, now).is_none_or(|listed| listed.is_learner)
        && !volume.and_then(|volume| volume.member_id).is_some_and(|id| seen.is_listed(id, now));
    served && !is_removed
}
