//! R1 beyond the first incarnation: another one begins only by the recorded order, and only once every container of the one before it is
//! seen stopped.

use quorate_model::effect::{Boot, Unsafe};
use quorate_model::incarnation::NextIncarnation;
use quorate_model::snapshot::Volume;
use quorate_model::{MemberName, Record, Snapshot, Uid};

use super::{Judged, Scene, forbid};

/// J4: whether the new incarnation may be recorded.
pub fn may_begin_incarnation(seen: &Snapshot, record: &Record) -> Judged {
    is_ordered(record, |next| next.stopped)?;
    no_other_pods(seen, |_| false)?;
    let keeps_open = |(member, volume): &(&MemberName, &Volume)| {
        let is_own = volume.cluster_uid.as_ref() == Some(&seen.uid) || is_recorded(record, member, volume);
        is_own && volume.quarantine.is_none() && !volume.terminating
    };
    match seen.volumes.iter().find(keeps_open) {
        Some((member, _)) => forbid(Unsafe::NotQuarantined(member.clone())),
        None => Ok(()),
    }
}

/// J3: whether the volume of a stopped member may be quarantined.
pub(super) fn may_quarantine(scene: &Scene<'_>, member: &MemberName, volume: &Uid) -> Judged {
    is_ordered(scene.record, |next| next.stopped)?;
    no_other_pods(scene.seen, |_| false)?;
    let is_its = |seen: &Volume| {
        let is_own = seen.cluster_uid.as_ref() == Some(&scene.seen.uid);
        seen.uid == *volume && (is_own || is_recorded(scene.record, member, seen))
    };
    if scene.seen.volumes.get(member).is_some_and(is_its) {
        Ok(())
    } else {
        forbid(Unsafe::NotItsVolume(member.clone()))
    }
}

/// Whether a Pod may be deleted because its incarnation makes way, or has made way, for another one.
pub(super) fn may_stop(scene: &Scene<'_>, member: &MemberName) -> bool {
    names_present(scene.record).is_some() || scene.seen.is_superseded(member)
}

/// Whether a member may be started as far as incarnations are concerned: none of one that makes way, and no new one beside a Pod of an
/// earlier one.
pub(super) fn may_start(scene: &Scene<'_>, member: &MemberName, boot: Boot) -> Judged {
    match boot {
        Boot::New | Boot::Restore | Boot::Join | Boot::Resume => may_change(scene.record, member)?,
        // etcd does not start in it.
        Boot::Read | Boot::Extract => {}
    }
    match boot {
        Boot::New | Boot::Restore => no_other_pods(scene.seen, |pod| !scene.seen.is_superseded(pod)),
        Boot::Join | Boot::Resume | Boot::Read | Boot::Extract => Ok(()),
    }
}

/// Whether the members of this incarnation may change.
pub(super) fn may_change(record: &Record, member: &MemberName) -> Judged {
    let terminates = record.next_incarnation.is_some() || record.quorum_recovery.is_some();
    if terminates { forbid(Unsafe::BeingReplaced(member.clone())) } else { Ok(()) }
}

fn is_ordered(record: &Record, far_enough: impl Fn(&NextIncarnation) -> bool) -> Judged {
    if names_present(record).is_some_and(far_enough) { Ok(()) } else { forbid(Unsafe::NotOrdered) }
}

/// The recorded order, if it names the present incarnation.
fn names_present(record: &Record) -> Option<&NextIncarnation> {
    record.next_incarnation.as_ref().filter(|next| record.cluster_id == Some(next.replaces))
}

fn no_other_pods(seen: &Snapshot, may_stay: impl Fn(&MemberName) -> bool) -> Judged {
    match seen.pods.keys().find(|pod| !may_stay(pod)) {
        Some(pod) => forbid(Unsafe::OldMemberRuns(pod.clone())),
        None => Ok(()),
    }
}

fn is_recorded(record: &Record, member: &MemberName, volume: &Volume) -> bool {
    record.members.get(member).is_some_and(|recorded| recorded.volume.as_ref() == Some(&volume.uid))
}
