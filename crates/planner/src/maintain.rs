//! Maintenance of databases. A full one (alarm NOSPACE) is given room again: N1 compact the history, only where its compaction is
//! this cluster's own policy; N2 move leadership away from the member that is next; N3 record the member, then defragment it; N4
//! record that this is over; N5 disarm the alarm when every member has room. The same steps N2 to N4 serve `maintenance.defrag`.
//!
//! etcd answers no read and applies nothing while it defragments, and goes on voting and storing. So it is done to one member after
//! another, the leader last, and nothing else that takes a member away runs beside it.

use quorate_model::record::Defragmenting;
use quorate_model::snapshot::{Alarm, AlarmKind, Database, SPACE_REGAINED_PERCENT};
use quorate_model::{EtcdCall, MemberId, MemberName, Step, Waiting};

use crate::draft::{DONE, Draft, Flow, ON, Progress};
use crate::{facts, leadership, safety};

/// N4. Until a defragmentation is over, nothing that takes a member away begins.
pub(crate) fn finish_defragmentation(draft: &mut Draft<'_>) -> Progress {
    let Some(ordered) = draft.record.defragmenting.clone() else { return Progress::Done };
    if !draft.seen.is_defragmenting(&ordered, draft.now) {
        draft.write_record(Step::N4, |record| record.defragmenting = None);
        return Progress::Done;
    }
    // The reply was lost, or went to an operator that is no more. etcd makes this call wait until the first one has ended, so its
    // reply answers for both.
    if draft.status_of(&ordered.member).is_some() {
        call_defragment(draft, &ordered.member);
    }
    draft.wait(Waiting::Defragmenting(ordered.member));
    Progress::Pending
}

/// N5: disarms alarms that have no ground any more, before anything waits for that: under CORRUPT no member is healthy, and NOSPACE holds
/// up the promotion of a learner. An alarm of a member that is gone is nobody's remedy: nothing else would ever disarm it.
pub(crate) fn disarm(draft: &mut Draft<'_>) {
    let mut alarms: Vec<Alarm> = draft.seen.alarms(draft.now).into_iter().collect();
    if draft.seen.has_unnamed_alarm(draft.now) {
        alarms.push(Alarm { member: MemberId(0), kind: AlarmKind::Corrupt });
    }
    for alarm in alarms {
        let is_gone = !draft.seen.is_listed(alarm.member, draft.now);
        let is_remedy = match alarm.kind {
            AlarmKind::NoSpace => draft.seen.maintenance.no_space_remedy,
            AlarmKind::Corrupt => true,
        };
        let Some(via) = draft.via().filter(|_| is_gone || is_remedy) else { continue };
        if safety::may_disarm(draft.view(), alarm).is_ok() {
            let Alarm { member, kind } = alarm;
            draft.call(Step::N5, via, EtcdCall::Disarm { member, kind });
        }
    }
}

/// Whether a full database gets room again only without a learner. Writes are refused until then, so the learner makes way at once: it is
/// not promoted beside the alarm, no Pod is restarted beside it, and a leader that still sends it a snapshot does not finish a
/// defragmentation.
pub(crate) fn needs_learner_gone(draft: &Draft<'_>) -> bool {
    let is_over = |alarm| safety::may_disarm(draft.view(), alarm).is_ok();
    let has_remedy = draft.seen.maintenance.no_space_remedy;
    let mut full = own_nospace(draft);
    (has_remedy || rollout_cures(draft)) && full.any(|alarm| !(has_remedy && is_over(alarm)))
}

/// Whether a member of the list has a full database.
pub(crate) fn is_full(draft: &Draft<'_>) -> bool {
    own_nospace(draft).next().is_some()
}

/// Gives members room again whose databases are full.
pub(crate) fn regain_space(draft: &mut Draft<'_>) -> Flow {
    if !is_full(draft) || !draft.seen.maintenance.no_space_remedy || rollout_cures(draft) {
        return ON;
    }
    let compacts = draft.record.target.as_ref().is_some_and(|target| target.pod.compacts);
    if compacts && !draft.seen.etcd.compacted {
        return compact(draft);
    }
    let full = |database: &Database| !database.is_below_quota(SPACE_REGAINED_PERCENT);
    // etcd 3.5 reports what a compaction freed on an idle member only after the next write.
    let compacted = draft.seen.etcd.compacted;
    let shrinks = |database: &Database| full(database) && (compacted || database.would_be_below_quota());
    if let Some(next) = next(draft, shrinks) {
        return defragment(draft, &next);
    }
    if let Some((member, database)) = databases(draft).into_iter().find(|(_, database)| full(database)) {
        draft.wait(Waiting::StillFull { member, database, compacts });
    }
    ON
}

/// `maintenance.defrag`: members with much free space in their files, on a calm cluster, in the daily window.
pub(crate) fn defragment_by_threshold(draft: &mut Draft<'_>) -> Flow {
    let threshold = draft.seen.maintenance.defrag.filter(|threshold| threshold.is_open(draft.now));
    let Some(threshold) = threshold else { return ON };
    let is_calm = draft.seen.alarms(draft.now).is_empty()
        && draft.record.voters().all(|voter| draft.view().is_healthy(voter));
    match next(draft, |database| threshold.is_reached(database)).filter(|_| is_calm) {
        Some(next) => defragment(draft, &next),
        None => ON,
    }
}

fn own_nospace(draft: &Draft<'_>) -> impl Iterator<Item = Alarm> {
    let is_own =
        |alarm: &Alarm| alarm.kind == AlarmKind::NoSpace && draft.seen.is_listed(alarm.member, draft.now);
    draft.seen.alarms(draft.now).into_iter().filter(is_own)
}

/// Whether Pods are about to be restarted with a larger quota: then that is the remedy.
fn rollout_cures(draft: &Draft<'_>) -> bool {
    let mut voters = draft.record.voters();
    voters.any(|voter| draft.view().is_stale(voter) && draft.seen.restart_raises_quota(&draft.record, voter))
}

/// N1, at the leader's revision. Under the alarm nothing but a deletion raises it.
fn compact(draft: &mut Draft<'_>) -> Flow {
    let Some(leader) = facts::leader(draft.view()).cloned() else { return ON };
    let Some(revision) = draft.status_of(&leader).map(|status| status.revision) else { return ON };
    if draft.call(Step::N1, &leader, EtcdCall::Compact { revision }) { DONE } else { ON }
}

/// The databases of the voters, as far as they are known.
fn databases(draft: &Draft<'_>) -> Vec<(MemberName, Database)> {
    let known = |voter: &MemberName| Some((voter.clone(), draft.seen.database_of(voter, draft.now)?));
    draft.record.voters().filter_map(known).collect()
}

/// The next member to defragment: the leader last. One that was defragmented of late is left alone, whatever came of it.
fn next(draft: &Draft<'_>, wanted: impl Fn(&Database) -> bool) -> Option<MemberName> {
    let all = databases(draft).into_iter();
    let candidates = all.filter(|(_, database)| wanted(database)).map(|(name, _)| name);
    let rested = candidates.filter(|name| !draft.seen.was_defragmented_lately(name, draft.now));
    rested.min_by_key(|name| (draft.view().is_leader(name), draft.seen.cluster.ordinal(name)))
}

/// N2 and N3.
fn defragment(draft: &mut Draft<'_>, member: &MemberName) -> Flow {
    if draft.wait_unless_safe(safety::may_begin_defragmentation(draft.view(), member)) {
        return ON;
    }
    if !leadership::move_away(draft, Step::N2, member).is_done() {
        return DONE;
    }
    let Some(pod) = draft.pod(member) else { return ON };
    let (pod, restarts, since) = (pod.uid.clone(), pod.restarts, draft.now);
    let ordered = Defragmenting { member: member.clone(), pod, restarts, since };
    draft.write_record(Step::N3, |record| record.defragmenting = Some(ordered));
    call_defragment(draft, member);
    draft.wait(Waiting::Defragmenting(member.clone()));
    DONE
}

fn call_defragment(draft: &mut Draft<'_>, member: &MemberName) {
    draft.call(Step::N3, member, EtcdCall::Defragment { member: member.clone() });
}
