//! Full databases: when an alarm may be disarmed, the history compacted, a member defragmented.

use std::collections::BTreeSet;

use quorate_model::effect::Unsafe;
use quorate_model::quorum::quorum;
use quorate_model::snapshot::{Alarm, AlarmKind, SPACE_REGAINED_PERCENT};
use quorate_model::{MemberId, MemberName, Record, Revision};

use super::{
    Fit, Judged, Scene, all_voters_fit, count_fit_others, fit_voters, forbid, forbid_if, forbid_unless,
    fresh_list, is_only_disruption, none_defragments, none_joins, progress_is_proven,
};
use crate::View;
use crate::view::voters_of;

/// N5. An alarm is all that keeps etcd from writing on into a full database, or with data that differ. NOSPACE: when every member has
/// room again. CORRUPT: when all voters are seen to have the same data, whichever member it names. A voter whose Pod a dead node keeps is not
/// waited for where a majority of all agrees: its kubelet ends that Pod when it is back, and etcd compares the data with its peers' before the
/// next process serves.
pub fn may_disarm(view: View<'_>, alarm: Alarm) -> Judged {
    let View { seen, record, now } = view;
    fresh_list(view)?;
    let is_gone = alarm.member != MemberId(0) && !seen.is_listed(alarm.member, now);
    match alarm.kind {
        AlarmKind::NoSpace => {
            // etcd 3.5 lifts every refusal of writes with the last alarm of either kind (`applierV3backend.Alarm`).
            let percent = if is_gone { 100 } else { SPACE_REGAINED_PERCENT };
            let has_room = !seen.is_alarmed(now) && seen.is_below_quota(record, percent, now);
            forbid_unless(has_room, || Unsafe::AlarmHolds(alarm))
        }
        AlarmKind::Corrupt => {
            let does_not_run = |name: &MemberName| {
                view.pod(name).is_some_and(|pod| pod.is_stuck(now)) && view.status_of(name).is_none()
            };
            let compared = seen.comparison(now);
            let all_who_run_agree = compared.as_ref().is_some_and(|compared| {
                compared.is_complete
                    && !compared.majority.is_empty()
                    && compared.differ.is_empty()
                    && compared.unknown.iter().all(does_not_run)
            });
            // A learner is not compared, and the alarm may be about its data.
            let is_learner = |(name, _)| view.listed(name).is_some_and(|listed| listed.is_learner);
            let agree = all_who_run_agree && !record.joining().is_some_and(is_learner);
            forbid_unless(agree, || Unsafe::AlarmHolds(alarm))?;
            let fit: BTreeSet<MemberName> = fit_voters(view, Fit::ButForSpace).collect();
            let agreed = compared.map(|compared| compared.majority).unwrap_or_default();
            let unfit = agreed.iter().find(|voter| !fit.contains(*voter));
            unfit.map_or(Ok(()), |unfit| forbid(Unsafe::VoterUnhealthy(unfit.clone())))
        }
    }
}

/// N1. Only where etcd compacts by itself anyway: clients such as a kube-apiserver compact their history themselves, and read what
/// they have not compacted yet. Never beyond what was read.
pub(super) fn may_compact(view: View<'_>, revision: Revision) -> Judged {
    let View { seen, record, now } = view;
    fresh_list(view)?;
    let compacts = record.target.as_ref().is_some_and(|target| target.pod.compacts);
    let is_full = seen.alarms(now).iter().any(|alarm| alarm.kind == AlarmKind::NoSpace);
    let mut answers = seen.etcd.answers.keys().filter_map(|member| view.status_of(member));
    let is_read = answers.any(|status| status.revision >= revision);
    forbid_unless(compacts && is_full && is_read && !seen.is_alarmed(now), || Unsafe::HistoryKept)
}

/// N3, the first time: every voter takes part in raft, so that the others serve meanwhile, the volume has room for the copy, and no backup
/// reads a snapshot.
pub fn may_begin_defragmentation(view: View<'_>, member: &MemberName) -> Judged {
    let View { seen, record, now } = view;
    let list = fresh_list(view)?;
    none_defragments(record)?;
    none_joins(view)?;
    all_voters_fit(view, Fit::ButForSpace, None)?;
    let (of, left) = (voters_of(list).count(), count_fit_others(view, Fit::ButForSpace, member));
    // With one or two voters, any defragmentation interrupts service.
    let is_enough = of <= 2 || left >= quorum(of);
    forbid_unless(is_enough, || Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    forbid_if(seen.is_alarmed(now), || Unsafe::VoterUnhealthy(member.clone()))?;
    let has_room = seen.has_room_to_defragment(member, now);
    forbid_unless(has_room, || Unsafe::NoRoomToDefragment(member.clone()))?;
    no_backup_reads(view)?;
    progress_is_proven(view)
}

/// Each call of a defragmentation, also one that is repeated.
fn no_backup_reads(view: View<'_>) -> Judged {
    let backup = view.seen.backup_to_wait_for(view.now);
    backup.map_or(Ok(()), |backup| forbid(Unsafe::BackupRuns(backup.to_owned())))
}

/// N3. What was recorded already is asked for again without these gates, but for a backup: the member may be at it, and its copy take the room.
pub(super) fn may_defragment(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let view = scene.view();
    // R3
    let is_recorded = view.record.defragmenting.as_ref().is_some_and(|ordered| ordered.member == *member);
    forbid_unless(is_recorded, || Unsafe::NotRecorded(member.clone()))?;
    is_only_disruption(scene, member)?;
    if view.seen.record.defragmenting == view.record.defragmenting {
        fresh_list(view)?;
        no_backup_reads(view)?;
        return all_voters_fit(view, Fit::ButForSpace, Some(member));
    }
    let before = Record { defragmenting: None, ..view.record.clone() };
    may_begin_defragmentation(View { record: &before, ..view }, member)
}
