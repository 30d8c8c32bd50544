//! R10 and R17: which volumes are deleted, and which are quarantined.

use quorate_model::effect::Unsafe;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Volume;
use quorate_model::target::Retention;
use quorate_model::{MemberName, Uid};

use super::{Fit, Judged, all_voters_fit, forbid_if, forbid_unless, is_gone_from_list, recorded};
use crate::View;

/// R10, R17.
pub(super) fn may_delete(view: View<'_>, member: &MemberName, volume: &Uid, version: &str) -> Judged {
    let seen = view.volume(member).ok_or_else(|| Unsafe::NotSeen(member.clone()))?;
    let is_seen = seen.uid == *volume && seen.resource_version == version;
    forbid_unless(is_seen, || Unsafe::NotSeen(member.clone()))?;
    forbid_unless(view.is_own(seen), || Unsafe::NotItsVolume(member.clone()))?;
    forbid_if(view.pod(member).is_some(), || Unsafe::PodNotGone(member.clone()))?;
    let never_served = view.seen.never_served(view.record);
    if view.seen.deleting {
        let kept = view.seen.keeps_data_when_deleted() && (!never_served || may_have_data(seen));
        return forbid_if(kept, || Unsafe::DataKept(member.clone()));
    }
    if never_served {
        // Data of an earlier incarnation are not part of the attempt.
        let decided = view.record.abandoned.is_some() && !may_have_data(seen);
        return forbid_unless(decided, || Unsafe::DataKept(member.clone()));
    }
    forbid_unless(is_decided(view, member, seen), || Unsafe::DataKept(member.clone()))?;
    let stage = view.stage_of(member);
    if view.record.hibernating && stage.is_none() {
        return forbid_unless(is_spare(view), || Unsafe::DataKept(member.clone()));
    }
    is_gone_from_list(view, member)?;
    // The data of a member that was removed may be the only copy of what a voter that lags still lacks. Of a learner nothing was
    // acknowledged.
    if may_have_data(seen) && stage != Some(Stage::Leaving(Leaving::RolledBack)) {
        all_voters_fit(view, Fit::Healthy, Some(member))
    } else {
        Ok(())
    }
}

/// R10 at size zero, when there is no list: the list did not have the member when its volume was quarantined, and its name is not used again. What was
/// acknowledged is on the volumes of the voters, as long as each of them is there and none is known to have other data.
fn is_spare(view: View<'_>) -> bool {
    let record = view.record;
    let is_kept = |voter: &MemberName| {
        view.seen.own_volume(record, voter).is_some_and(|volume| !volume.terminating && !volume.lost)
    };
    let all_agree = record.differ_since.is_none() && record.suspected.is_empty();
    all_agree && record.voters().next().is_some() && record.voters().all(is_kept)
}

/// R17: the volume of a member that etcd's list no longer has, and that the operator did not choose to remove.
pub(super) fn may_quarantine(view: View<'_>, member: &MemberName, volume: &Uid) -> Judged {
    let is_its = |seen: &Volume| seen.uid == *volume && view.is_own(seen);
    forbid_unless(view.volume(member).is_some_and(is_its), || Unsafe::NotItsVolume(member.clone()))?;
    let may_be = match recorded(view, member)?.stage {
        // Its Pod keeps the volume, and nobody knows until when.
        Stage::Leaving(why) => {
            why.quarantines_volume() || view.pod(member).is_some_and(|pod| pod.is_stuck(view.now))
        }
        Stage::Bootstrap | Stage::Joining | Stage::Voter => false,
    };
    forbid_unless(may_be, || Unsafe::NotRecorded(member.clone()))?;
    is_gone_from_list(view, member)
}

/// Whether the deletion of this volume follows from a decision: a person scaled in, growth was rolled back, or the volume was
/// quarantined for long enough.
fn is_decided(view: View<'_>, member: &MemberName, volume: &Volume) -> bool {
    match (view.stage_of(member), &volume.quarantine) {
        (Some(Stage::Leaving(why)), quarantine) => !why.quarantines_volume() && quarantine.is_none(),
        (Some(Stage::Bootstrap | Stage::Joining | Stage::Voter), _) => false,
        (None, Some(quarantine)) => {
            let retained = view.seen.target().storage.when_scaled == Retention::Retain;
            !retained && quarantine.is_over(view.seen.keep_volumes, view.earliest())
        }
        // A late call created it again for a member that was given up. It never had data.
        (None, None) => !may_have_data(volume),
    }
}

/// Whether a member may have run on it: then it has an identity annotation or is quarantined.
fn may_have_data(volume: &Volume) -> bool {
    volume.cluster_id.is_some() || volume.member_id.is_some() || volume.quarantine.is_some()
}
