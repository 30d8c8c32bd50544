//! `Ready` and `Stalled` of an EtcdBackup, an EtcdBackupSchedule, an EtcdRestore and an EtcdUser: the conditions that tools read. They sum up the others,
//! so that they never contradict them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::backup::{BackupCondition, EtcdBackupStatus};
use quorate_api::restore::{EtcdRestoreStatus, RestorePhase};
use quorate_api::schedule::EtcdBackupScheduleStatus;
use quorate_api::{
    ConditionType, EtcdBackup, EtcdBackupSchedule, EtcdRestore, Explanation, Reason, conditions,
};
use quorate_model::Instant;

use crate::time::timestamp;

/// Ready: it is complete, and not gone from the store again. Stalled: it has failed, or its object cannot be removed.
pub(crate) fn backup(backup: &EtcdBackup, status: &mut EtcdBackupStatus, now: Instant) {
    let holds =
        |type_: &BackupCondition| Some((*type_, conditions::find_true(&status.conditions, type_.as_str())?));
    // Before it has any of them, the API server says that nobody has seen it.
    let Some((state, said)) = BackupCondition::STATES.iter().find_map(holds) else { return };
    let gone = conditions::find_false(&status.conditions, BackupCondition::InStore.as_str());
    let (is, says) = match (state, gone) {
        (BackupCondition::Complete, Some(gone)) => (Verdict::Stalled, gone),
        (BackupCondition::Complete, None) => (Verdict::Ready, said),
        (BackupCondition::Failed, _) => (Verdict::Stalled, said),
        (BackupCondition::Pending | BackupCondition::Running | BackupCondition::InStore, _) => {
            (Verdict::UnderWay, said)
        }
    };
    let Some(why) = conditions::explanation(says) else { return };
    status.observed_generation = backup.metadata.generation;
    sum_up(&mut status.conditions, is, &why, backup.metadata.generation, now);
}

/// Ready: it was carried out. Stalled: it is not, and never will be.
pub(crate) fn restore(restore: &EtcdRestore, status: &mut EtcdRestoreStatus, now: Instant) {
    let Some(phase) = status.phase else { return };
    let is = match phase {
        RestorePhase::Pending | RestorePhase::Running => Verdict::UnderWay,
        RestorePhase::Complete => Verdict::Ready,
        RestorePhase::Failed => Verdict::Stalled,
    };
    let Some(why) = conditions::find(&status.conditions, phase.as_str()).and_then(conditions::explanation)
    else {
        return;
    };
    status.observed_generation = restore.metadata.generation;
    sum_up(&mut status.conditions, is, &why, restore.metadata.generation, now);
}

/// Its own controller decides about Ready. Stalled: no backup is begun before its spec, or what refuses it, is changed.
pub(crate) fn schedule(schedule: &EtcdBackupSchedule, status: &mut EtcdBackupScheduleStatus, now: Instant) {
    let ready = conditions::find_false(&status.conditions, ConditionType::Ready.as_str());
    let edits = [Reason::ScheduleInvalid, Reason::TemplateRefused];
    let why = ready.and_then(conditions::explanation).filter(|why| edits.contains(&why.reason()));
    stalled(&mut status.conditions, why.as_ref(), schedule.metadata.generation, now);
}

/// What the two conditions are set by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ready,
    UnderWay,
    Stalled,
}

/// Sets both.
pub(crate) fn sum_up(
    conditions: &mut Vec<Condition>,
    verdict: Verdict,
    why: &Explanation,
    generation: Option<i64>,
    now: Instant,
) {
    let (ready, at) = (verdict == Verdict::Ready, timestamp(now));
    conditions::set(conditions, ConditionType::Ready.as_str(), ready, why, generation, at);
    // Where it is ready it says nothing, so a release with other words writes no status for it: objects that have ended are many.
    let stalled_before = conditions::find_false(&*conditions, ConditionType::Stalled.as_str());
    if !ready || stalled_before.is_none_or(|one| one.observed_generation != generation) {
        stalled(conditions, Some(why).filter(|_| verdict == Verdict::Stalled), generation, now);
    }
}

fn stalled(
    conditions: &mut Vec<Condition>,
    why: Option<&Explanation>,
    generation: Option<i64>,
    now: Instant,
) {
    let no = || Explanation::new(Reason::NotStalled, "nothing waits for a person");
    let (is, why) = (why.is_some(), why.cloned().unwrap_or_else(no));
    conditions::set(conditions, ConditionType::Stalled.as_str(), is, &why, generation, timestamp(now));
}

#[cfg(test)]
mod tests;
