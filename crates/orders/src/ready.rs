//! `Ready` and `Stalled` of an EtcdBackup, an EtcdBackupSchedule, an EtcdRestore and an EtcdUser: the conditions that tools read. They sum up the others,
//! so that they never contradict them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use quorate_api::backup::{BackupCondition, EtcdBackupStatus};
use quorate_api::restore::{EtcdRestoreStatus, RestorePhase};
use quorate_api::schedule::EtcdBackupScheduleStatus;
use quorate_api::{ConditionType, EtcdBackup, EtcdBackupSchedule, EtcdRestore, Explanation, Reason};
use quorate_model::Instant;

use crate::conditions::{ConditionValue, set};

/// Ready: it is complete, and not gone from the store again. Stalled: it has failed, or its object cannot be removed.
pub(crate) fn backup(backup: &EtcdBackup, status: &mut EtcdBackupStatus, now: Instant) {
    let holds = |type_: &BackupCondition| {
        let is = status.conditions.iter().any(|one| one.type_ == type_.as_str() && one.status == "True");
        is.then_some(*type_)
    };
    // Before it has any of them, the API server says that nobody has seen it.
    let Some(state) = BackupCondition::STATES.iter().find_map(holds) else { return };
    let in_store = BackupCondition::InStore.as_str();
    let gone = status.conditions.iter().find(|one| one.type_ == in_store && one.status == "False");
    let (is, says) = match (state, gone) {
        (BackupCondition::Complete, Some(gone)) => (Verdict::Stalled, Some(gone)),
        (BackupCondition::Complete, None) => (Verdict::Ready, said(&status.conditions, state.as_str())),
        (BackupCondition::Failed, _) => (Verdict::Stalled, said(&status.conditions, state.as_str())),
        (BackupCondition::Pending | BackupCondition::Running | BackupCondition::InStore, _) => {
            (Verdict::UnderWay, said(&status.conditions, state.as_str()))
        }
    };
    let Some(why) = says.and_then(explanation) else { return };
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
    let Some(why) = said(&status.conditions, phase.as_str()).and_then(explanation) else { return };
    status.observed_generation = restore.metadata.generation;
    sum_up(&mut status.conditions, is, &why, restore.metadata.generation, now);
}

/// Its own controller decides about Ready. Stalled: no backup is begun before its spec, or what refuses it, is changed.
pub(crate) fn schedule(schedule: &EtcdBackupSchedule, status: &mut EtcdBackupScheduleStatus, now: Instant) {
    let ready =
        said(&status.conditions, ConditionType::Ready.as_str()).filter(|ready| ready.status == "False");
    let edits = [Reason::ScheduleInvalid, Reason::TemplateRefused];
    let why = ready.and_then(explanation).filter(|why| edits.contains(&why.reason()));
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
    let is = if verdict == Verdict::Ready { ConditionValue::True } else { ConditionValue::False };
    set(conditions, ConditionType::Ready.as_str(), is, why, generation, now);
    // Where it is ready it says nothing, so a release with other words writes no status for it: objects that have ended are many.
    let stalled_before =
        said(conditions, ConditionType::Stalled.as_str()).filter(|one| one.status == "False");
    if verdict != Verdict::Ready || stalled_before.is_none_or(|one| one.observed_generation != generation) {
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
    let is = if why.is_some() { ConditionValue::True } else { ConditionValue::False };
    set(conditions, ConditionType::Stalled.as_str(), is, &why.cloned().unwrap_or_else(no), generation, now);
}

fn said<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// `None` for a reason of a newer operator, which sums up what it knows.
fn explanation(condition: &Condition) -> Option<Explanation> {
    let reason = *Reason::ALL.iter().find(|known| known.as_str() == condition.reason)?;
    Some(Explanation::new(reason, &*condition.message))
}

#[cfg(test)]
mod tests;
