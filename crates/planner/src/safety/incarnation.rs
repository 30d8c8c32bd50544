//! R1 beyond the first incarnation: another one begins only by the recorded order, and only once every container of the one before it is
//! seen stopped.

use quorate_model::effect::{Boot, Unsafe};
use quorate_model::incarnation::NextIncarnation;
use quorate_model::snapshot::Volume;
use quorate_model::{MemberName, Record, Snapshot, Uid};

use super::{Judged, forbid, forbid_if, forbid_unless};
use crate::View;

/// J4: whether the new incarnation may be recorded.
pub fn may_begin_incarnation(view: View<'_>) -> Judged {
    is_stopped(view)?;
    let open = left_volumes(view).next();
    open.map_or(Ok(()), |member| forbid(Unsafe::NotQuarantined(member.clone())))
}

/// J3: the members whose volumes are still to be quarantined: of members, of those that were joining or leaving, and of those that left.
pub(crate) fn left_volumes(view: View<'_>) -> impl Iterator<Item = &MemberName> {
    let is_left = move |(member, volume): &(&MemberName, &Volume)| {
        is_of_cluster(view, member, volume) && volume.quarantine.is_none() && !volume.terminating
    };
    view.seen.volumes.iter().filter(is_left).map(|(member, _)| member)
}

/// J3: whether the volume of a stopped member may be quarantined.
pub(super) fn may_quarantine(view: View<'_>, member: &MemberName, volume: &Uid) -> Judged {
    is_stopped(view)?;
    let is_its = |seen: &Volume| seen.uid == *volume && is_of_cluster(view, member, seen);
    forbid_unless(view.volume(member).is_some_and(is_its), || Unsafe::NotItsVolume(member.clone()))
}

/// Whether a Pod may be deleted because its incarnation makes way, or has made way, for another one.
pub(super) fn may_stop(view: View<'_>, member: &MemberName) -> bool {
    names_present(view.record).is_some() || view.seen.is_superseded(member)
}

/// Whether a member may be started as far as incarnations are concerned: none of one that makes way, and no new one beside a Pod of an
/// earlier one.
pub(super) fn may_start(view: View<'_>, member: &MemberName, boot: Boot) -> Judged {
    match boot {
        Boot::New | Boot::Restore => {
            may_change(view.record, member)?;
            no_other_pods(view.seen, |pod| !view.seen.is_superseded(pod))
        }
        Boot::Join | Boot::Resume => may_change(view.record, member),
        // etcd does not start in it.
        Boot::Read | Boot::Extract => Ok(()),
    }
}

/// Whether the members of this incarnation may change.
pub(super) fn may_change(record: &Record, member: &MemberName) -> Judged {
    let terminates = record.next_incarnation.is_some() || record.quorum_recovery.is_some();
    forbid_if(terminates, || Unsafe::BeingReplaced(member.clone()))
}

/// Whether every member is stopped for the next incarnation, as it was ordered.
fn is_stopped(view: View<'_>) -> Judged {
    forbid_unless(names_present(view.record).is_some_and(|next| next.stopped), || Unsafe::NotOrdered)?;
    no_other_pods(view.seen, |_| false)
}

/// The recorded order, if it names the present incarnation.
fn names_present(record: &Record) -> Option<&NextIncarnation> {
    record.next_incarnation.as_ref().filter(|next| record.cluster_id == Some(next.replaces))
}

fn no_other_pods(seen: &Snapshot, may_stay: impl Fn(&MemberName) -> bool) -> Judged {
    let other = seen.pods.keys().find(|pod| !may_stay(pod));
    other.map_or(Ok(()), |pod| forbid(Unsafe::OldMemberRuns(pod.clone())))
}

/// Whether a volume was created for this EtcdCluster, or is recorded as its member's.
fn is_of_cluster(view: View<'_>, member: &MemberName, volume: &Volume) -> bool {
    let recorded = view.recorded(member).and_then(|recorded| recorded.volume.as_ref());
    view.is_own(volume) || recorded == Some(&volume.uid)
}
