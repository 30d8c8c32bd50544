//! Full databases: when an alarm may be disarmed, the history compacted, a member defragmented.

use std::collections::BTreeSet;

use quorate_model::record::Record;
use quorate_model::snapshot::{Alarm, AlarmKind, SPACE_REGAINED_PERCENT, Snapshot};
use quorate_model::{Instant, MemberId, MemberName, Revision};

use super::{
    Fit, Judged, Scene, Unsafe, all_voters_fit, fit_voters, forbid, fresh_list, none_defragments,
    progress_is_proven, reduces_redundancy,
};
use quorate_model::quorum::quorum;

/// N5. An alarm is all that keeps etcd from writing on into a full database, or with data that differ. NOSPACE: when every member has
/// room again. CORRUPT: when all voters are seen to have the same data, whichever member it names. A voter whose Pod a dead node keeps is not
/// waited for where a majority of all agrees: its kubelet ends that Pod when it is back, and etcd compares the data with its peers' before the
/// next process serves.
pub fn may_disarm(seen: &Snapshot, record: &Record, now: Instant, alarm: Alarm) -> Judged {
    fresh_list(seen, now)?;
    let is_gone = alarm.member != MemberId(0) && !seen.is_listed(alarm.member, now);
    match alarm.kind {
        AlarmKind::NoSpace => {
            // etcd 3.5 lifts every refusal of writes with the last alarm of either kind (`applierV3backend.Alarm`).
            let percent = if is_gone { 100 } else { SPACE_REGAINED_PERCENT };
            if seen.is_alarmed(now) || !seen.is_below_quota(record, percent, now) {
                forbid(Unsafe::AlarmHolds(alarm))?;
            }
            Ok(())
        }
        AlarmKind::Corrupt => {
            let does_not_run = |name: &MemberName| {
                seen.pods.get(name).is_some_and(|pod| pod.is_stuck(now))
                    && seen.status_of(name, now).is_none()
            };
            let compared = seen.comparison(now);
            let all_who_run_agree = compared.as_ref().is_some_and(|compared| {
                compared.is_complete
                    && !compared.majority.is_empty()
                    && compared.differ.is_empty()
                    && compared.unknown.iter().all(does_not_run)
            });
            // A learner is not compared, and the alarm may be about its data.
            let is_learner =
                |(name, _)| seen.listed(record, name, now).is_some_and(|listed| listed.is_learner);
            if !all_who_run_agree || record.joining().is_some_and(is_learner) {
                forbid(Unsafe::AlarmHolds(alarm))?;
            }
            let fit: BTreeSet<MemberName> = fit_voters(Fit::ButForSpace, seen, record, now).collect();
            let agreed = compared.map(|compared| compared.majority).unwrap_or_default();
            match agreed.iter().find(|voter| !fit.contains(*voter)) {
                Some(unfit) => forbid(Unsafe::VoterUnhealthy(unfit.clone())),
                None => Ok(()),
            }
        }
    }
}

/// N1. Only where etcd compacts by itself anyway: clients such as a kube-apiserver compact their history themselves, and read what
/// they have not compacted yet. Never beyond what was read.
pub(super) fn may_compact(scene: &Scene<'_>, revision: Revision) -> Judged {
    let (seen, now) = (scene.seen, scene.now);
    fresh_list(seen, now)?;
    let compacts = scene.record.target.as_ref().is_some_and(|target| target.pod.compacts);
    let is_full = seen.alarms(now).iter().any(|alarm| alarm.kind == AlarmKind::NoSpace);
    let mut answers = seen.etcd.answers.keys().filter_map(|member| seen.status_of(member, now));
    let is_read = answers.any(|status| status.revision >= revision);
    if compacts && is_full && is_read && !seen.is_alarmed(now) { Ok(()) } else { forbid(Unsafe::HistoryKept) }
}

/// N3, the first time: every voter takes part in raft, so that the others serve meanwhile, the volume has room for the copy, and no backup
/// reads a snapshot.
pub fn may_begin_defragmentation(
    seen: &Snapshot,
    record: &Record,
    now: Instant,
    member: &MemberName,
) -> Judged {
    let list = fresh_list(seen, now)?;
    none_defragments(record)?;
    let is_listed = |name: &MemberName| seen.listed(record, name, now).is_some();
    if let Some((joining, _)) = record.joining().filter(|(name, _)| is_listed(name)) {
        forbid(Unsafe::ChangeOutstanding(joining.clone()))?;
    }
    all_voters_fit(Fit::ButForSpace, seen, record, now, None)?;
    let of = list.members.iter().filter(|listed| !listed.is_learner).count();
    let left = fit_voters(Fit::ButForSpace, seen, record, now).filter(|fit| fit != member).count();
    // With one or two voters, any defragmentation interrupts service.
    if of > 2 && left < quorum(of) {
        forbid(Unsafe::WouldLoseQuorum { member: member.clone(), left, of })?;
    }
    if seen.is_alarmed(now) {
        forbid(Unsafe::VoterUnhealthy(member.clone()))?;
    }
    if !seen.has_room_to_defragment(member, now) {
        forbid(Unsafe::NoRoomToDefragment(member.clone()))?;
    }
    no_backup_reads(seen, now)?;
    progress_is_proven(seen, now)
}

/// Each call of a defragmentation, also one that is repeated.
fn no_backup_reads(seen: &Snapshot, now: Instant) -> Judged {
    match seen.backup_to_wait_for(now) {
        Some(backup) => forbid(Unsafe::BackupRuns(backup.to_owned())),
        None => Ok(()),
    }
}

/// N3. What was recorded already is asked for again without these gates, but for a backup: the member may be at it, and its copy take the room.
pub(super) fn may_defragment(scene: &Scene<'_>, member: &MemberName) -> Judged {
    let (seen, record, now) = (scene.seen, scene.record, scene.now);
    // R3
    if record.defragmenting.as_ref().is_none_or(|ordered| ordered.member != *member) {
        forbid(Unsafe::NotRecorded(member.clone()))?;
    }
    // R5
    if scene.before.iter().any(|effect| reduces_redundancy(scene, effect)) {
        forbid(Unsafe::SecondDisruption(member.clone()))?;
    }
    if seen.record.defragmenting == record.defragmenting {
        fresh_list(seen, now)?;
        no_backup_reads(seen, now)?;
        return all_voters_fit(Fit::ButForSpace, seen, record, now, Some(member));
    }
    let before = Record { defragmenting: None, ..record.clone() };
    may_begin_defragmentation(seen, &before, now, member)
}
