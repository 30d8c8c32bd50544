//! What the status of an EtcdBackupSchedule says about its backups.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use quorate_api::backup::BackupPhase;
use quorate_api::schedule::{EtcdBackupScheduleStatus, FailedTest, ScheduleCondition};
use quorate_api::{EtcdBackup, Explanation, Reason};

use super::decide::{Seen, at, cluster_id, good, in_phase, phase};
use crate::controllers::backup::{ConditionValue, set};
use crate::runtime::clock::timestamp;

/// The status, with the figures as they are now.
pub(super) fn figures(seen: Seen<'_>) -> EtcdBackupScheduleStatus {
    let mut status = seen.schedule.status.clone().unwrap_or_default();
    status.observed_generation = seen.schedule.metadata.generation;
    let good = good(&seen);
    let finished = |backup: &EtcdBackup| backup.status.as_ref()?.result.as_ref()?.finished.clone();
    let newest = good.first().and_then(|(_, backup)| finished(backup));
    status.last_success = status.last_success.max(newest);
    status.active = seen
        .backups
        .iter()
        .filter(|backup| match phase(backup) {
            BackupPhase::Pending | BackupPhase::Running => backup.metadata.deletion_timestamp.is_none(),
            BackupPhase::Complete | BackupPhase::Failed | BackupPhase::Deleting => false,
        })
        .map(|backup| backup.name_any())
        .collect();
    status.active.sort();
    // Of an etcd cluster without backups nothing is left to be kept.
    let is_of = |failed: &FailedTest| good.iter().any(|(_, backup)| cluster_id(backup) == failed.cluster_id);
    status.failed_tests.retain(is_of);
    count_failures(seen, &mut status);
    status
}

/// Failures since the last good backup. Each counts once, also when retention has deleted it.
fn count_failures(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus) {
    let newest_good = good(&seen).first().map(|(at, _)| *at);
    let counted = status.last_failure.as_ref().map(at);
    if newest_good > counted {
        status.consecutive_failures = 0;
    }
    let failed = in_phase(&seen, BackupPhase::Failed);
    let since = newest_good.max(counted);
    let fresh = failed.iter().filter(|(at, _)| Some(*at) > since).count();
    status.consecutive_failures =
        status.consecutive_failures.saturating_add(u32::try_from(fresh).unwrap_or(u32::MAX));
    if let Some((newest, _)) = failed.first().filter(|(at, _)| Some(*at) > counted) {
        status.last_failure = Some(Time(timestamp(*newest)));
    }
}

/// The condition Ready. `held_up`: the next time has come while a backup is still active.
pub(super) fn ready(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, held_up: bool) {
    let Seen { schedule, now, .. } = seen;
    let failed = status.consecutive_failures;
    let not_begun = seen.backups.iter().find(|backup| held_up && has_not_begun(backup));
    let (is, why) = if schedule.spec.suspend {
        let text = "spec.suspend is true: no backup is begun, and none is deleted";
        (ConditionValue::False, Explanation::new(Reason::Suspended, text))
    } else if let Some(backup) = not_begun {
        let text =
            format!("the next backup is due, and the one before has not begun. {}", words(backup, "Pending"));
        (ConditionValue::False, Explanation::new(Reason::BackupMissed, text.trim_end()))
    } else if failed > 0 {
        let newest = in_phase(&seen, BackupPhase::Failed).first().map(|(_, backup)| words(backup, "Failed"));
        let text = format!("{failed} backups failed since the last good one. {}", newest.unwrap_or_default());
        (ConditionValue::False, Explanation::new(Reason::BackupFailing, text.trim_end()))
    } else if status.last_success.is_none() {
        (ConditionValue::Unknown, Explanation::new(Reason::NoBackupYet, "no backup has ended yet"))
    } else {
        (ConditionValue::True, Explanation::new(Reason::BackupsHealthy, "the last backup is in the store"))
    };
    set(
        &mut status.conditions,
        ScheduleCondition::Ready.as_str(),
        is,
        &why,
        schedule.metadata.generation,
        now,
    );
}

/// The condition Ready, where no backup can be begun.
pub(super) fn not_ready(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, why: &Explanation) {
    let Seen { schedule, now, .. } = seen;
    set(
        &mut status.conditions,
        ScheduleCondition::Ready.as_str(),
        ConditionValue::False,
        why,
        schedule.metadata.generation,
        now,
    );
}

/// Whether a backup waits for its first attempt.
fn has_not_begun(backup: &EtcdBackup) -> bool {
    phase(backup) == BackupPhase::Pending
        && backup.metadata.deletion_timestamp.is_none()
        && backup.status.as_ref().is_none_or(|status| status.started.is_none())
}

/// What the condition of a backup says that holds.
fn words(backup: &EtcdBackup, type_: &str) -> String {
    let mut conditions = backup.status.iter().flat_map(|status| &status.conditions);
    let holds = conditions.find(|condition| condition.type_ == type_ && condition.status == "True");
    holds.map_or_else(String::new, |holds| {
        format!("EtcdBackup {}: {}: {}", backup.name_any(), holds.reason, holds.message)
    })
}
