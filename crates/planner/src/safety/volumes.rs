//! R10 and R17: which volumes are deleted, and which are quarantined.

use quorate_model::effect::Unsafe;
use quorate_model::record::{Leaving, Stage};
use quorate_model::snapshot::Volume;
use quorate_model::target::Retention;
use quorate_model::{MemberName, Uid};

use super::{Judged, Scene, all_voters_healthy, forbid, is_gone_from_list, recorded};

/// R10, R17.
pub(super) fn may_delete(scene: &Scene<'_>, member: &MemberName, volume: &Uid, version: &str) -> Judged {
    let Some(seen) = scene.seen.volumes.get(member) else { return Err(Unsafe::NotSeen(member.clone())) };
    if seen.uid != *volume || seen.resource_version != version {
        forbid(Unsafe::NotSeen(member.clone()))?;
    }
    if seen.cluster_uid.as_ref() != Some(&scene.seen.uid) {
        forbid(Unsafe::NotItsVolume(member.clone()))?;
    }
    if scene.seen.pods.contains_key(member) {
        forbid(Unsafe::PodNotGone(member.clone()))?;
    }
    let never_served = scene.seen.never_served(scene.record);
    if scene.seen.deleting {
        let kept = scene.seen.keeps_data_when_deleted() && (!never_served || may_have_data(seen));
        return if kept { forbid(Unsafe::DataKept(member.clone())) } else { Ok(()) };
    }
    if never_served {
        // Data of an earlier incarnation are not part of the attempt.
        let decided = scene.record.abandoned.is_some() && !may_have_data(seen);
        return if decided { Ok(()) } else { forbid(Unsafe::DataKept(member.clone())) };
    }
    is_decided(scene, member, seen)?;
    if scene.record.hibernating && !scene.record.members.contains_key(member) {
        return is_spare(scene, member);
    }
    is_gone_from_list(scene, member)?;
    // The data of a member that was removed may be the only copy of what a voter that lags still lacks. Of a learner nothing was
    // acknowledged.
    let stage = scene.record.members.get(member).map(|recorded| recorded.stage);
    if may_have_data(seen) && stage != Some(Stage::Leaving(Leaving::RolledBack)) {
        all_voters_healthy(scene.seen, scene.record, scene.now, Some(member))
    } else {
        Ok(())
    }
}

/// R10 at size zero, when there is no list: the list did not have the member when its volume was quarantined, and its name is not used again. What was
/// acknowledged is on the volumes of the voters, as long as each of them is there and none is known to have other data.
fn is_spare(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let (seen, record) = (scene.seen, scene.record);
    let is_kept = |voter: &MemberName| {
        seen.own_volume(record, voter).is_some_and(|volume| !volume.terminating && !volume.lost)
    };
    let all_agree = record.differ_since.is_none() && record.suspected.is_empty();
    let has_voters = record.voters().next().is_some();
    if all_agree && has_voters && record.voters().all(is_kept) {
        Ok(())
    } else {
        forbid(Unsafe::DataKept(member.clone()))
    }
}

/// R17: the volume of a member that etcd's list no longer has, and that the operator did not choose to remove.
pub(super) fn may_quarantine(scene: &Scene<'_>, member: &MemberName, volume: &Uid) -> Judged {
    let seen = scene.seen.volumes.get(member);
    let is_own = |seen: &Volume| seen.uid == *volume && seen.cluster_uid.as_ref() == Some(&scene.seen.uid);
    if !seen.is_some_and(is_own) {
        forbid(Unsafe::NotItsVolume(member.clone()))?;
    }
    match recorded(scene, member)?.stage {
        // Its Pod keeps the volume, and nobody knows until when.
        Stage::Leaving(why) if why.quarantines_volume() || is_stuck(scene, member) => {}
        Stage::Leaving(_) | Stage::Bootstrap | Stage::Joining | Stage::Voter => {
            forbid(Unsafe::NotRecorded(member.clone()))?;
        }
    }
    is_gone_from_list(scene, member)
}

fn is_stuck(scene: &Scene<'_>, member: &MemberName) -> bool {
    scene.seen.pods.get(member).is_some_and(|pod| pod.is_stuck(scene.now))
}

/// Whether the deletion of this volume follows from a decision: a person scaled in, growth was rolled back, or the volume was
/// quarantined for long enough.
fn is_decided(scene: &Scene<'_>, member: &MemberName, volume: &Volume) -> Judged {
    let decided = match scene.record.members.get(member).map(|recorded| recorded.stage) {
        Some(Stage::Leaving(why)) => !why.quarantines_volume() && volume.quarantine.is_none(),
        Some(Stage::Bootstrap | Stage::Joining | Stage::Voter) => false,
        None => match &volume.quarantine {
            Some(quarantine) => {
                let retained = scene.seen.target().storage.when_scaled == Retention::Retain;
                !retained
                    && quarantine.is_over(scene.seen.keep_volumes, scene.seen.present(scene.now).earliest)
            }
            // A late call created it again for a member that was given up. It never had data.
            None => !may_have_data(volume),
        },
    };
    if decided { Ok(()) } else { forbid(Unsafe::DataKept(member.clone())) }
}

/// Whether a member may have run on it: then it has an identity annotation or is quarantined.
fn may_have_data(volume: &Volume) -> bool {
    volume.cluster_id.is_some() || volume.member_id.is_some() || volume.quarantine.is_some()
}
