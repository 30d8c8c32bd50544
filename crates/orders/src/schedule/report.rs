//! What the status of an EtcdBackupSchedule says about its backups.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupCondition, BackupPhase, DeletionPolicy};
use quorate_api::schedule::{EtcdBackupScheduleStatus, FailedTest, Retention, ScheduleCondition};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, Explanation, Reason, conditions, duration, keys};
use quorate_model::Instant;

use super::cron::CronTimes;
use super::decide::{
    HeldUp, Seen, at, cluster_id, complete, good_here, in_phase, is_to_come, name as name_of, phase,
};
use super::{look, order};
use crate::ready;
use crate::time::timestamp;

/// The status, with the figures as they are now.
pub(crate) fn figures(seen: Seen<'_>) -> EtcdBackupScheduleStatus {
    let mut status = seen.schedule.status.clone().unwrap_or_default();
    status.observed_generation = seen.schedule.metadata.generation;
    let good = good_here(&seen);
    let completed = |backup: &EtcdBackup| backup.status.as_ref()?.completed().cloned();
    let newest = good.iter().filter_map(|(_, backup)| completed(backup)).max();
    let complete = complete(&seen);
    let is_last = |backup: &EtcdBackup| look::is_gone(backup) && completed(backup) == status.last_success;
    // What was told once counts while no backup says better: one that is gone does not count any more, nor a time that is still to come.
    let is_gone = complete.iter().any(|(_, backup)| is_last(backup));
    let told = status.last_success.take().filter(|told| !is_gone && at(told) <= seen.now);
    status.last_success = newest.or(told);
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
    let going = seen.backups.iter().filter(|backup| backup.metadata.deletion_timestamp.is_some());
    status.deleting = u32::try_from(going.count()).unwrap_or(u32::MAX);
    // Of an etcd cluster without backups nothing is left to be kept.
    let is_of =
        |failed: &FailedTest| complete.iter().any(|(_, backup)| cluster_id(backup) == failed.cluster_id);
    status.failed_tests.retain(is_of);
    count_failures(seen, &mut status);
    status
}

/// Failures since the last good backup. Each counts once, also when retention has deleted it.
fn count_failures(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus) {
    let newest_good = good_here(&seen).first().map(|(at, _)| *at);
    // One of a clock that was ahead would hide those that come until then.
    let counted = status.last_failure.as_ref().map(at).filter(|at| !is_to_come(*at, seen.now));
    if newest_good > counted {
        status.consecutive_failures = 0;
    }
    let failed = in_phase(&seen, BackupPhase::Failed);
    // One of the second of a good one counts: which of them was ordered last, their times do not tell.
    let is_fresh = |at: Instant| Some(at) > counted && Some(at) >= newest_good;
    let fresh = failed.iter().filter(|(at, _)| is_fresh(*at)).count();
    status.consecutive_failures =
        status.consecutive_failures.saturating_add(u32::try_from(fresh).unwrap_or(u32::MAX));
    if let Some((newest, _)) = failed.first().filter(|(at, _)| Some(*at) > counted) {
        status.last_failure = Some(Time(timestamp(*newest)));
    }
}

/// The condition Ready. `held_up`: what the next time waits for, which has come.
pub(crate) fn ready(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, held_up: Option<HeldUp>) {
    let Seen { schedule, now, .. } = seen;
    let failed = status.consecutive_failures;
    let not_begun = seen
        .backups
        .iter()
        .find(|backup| matches!(held_up, Some(HeldUp::Active(_))) && has_not_begun(backup));
    let (is, why) = if schedule.spec.suspend {
        let text = "spec.suspend is true: no backup is begun, and none is deleted";
        (true, Explanation::new(Reason::Suspended, text))
    } else if let Some(why) = look::newest_is_gone(seen) {
        (false, why)
    } else if let Some(backup) = not_begun {
        let text =
            format!("the next backup is due, and the one before has not begun. {}", words(backup, "Pending"));
        (false, Explanation::new(Reason::BackupMissed, text.trim_end()))
    } else if let Some(HeldUp::Taken(due)) = held_up {
        (false, Explanation::new(Reason::BackupMissed, taken(schedule, due)))
    } else if failed > 0 {
        let newest = in_phase(&seen, BackupPhase::Failed).first().map(|(_, backup)| words(backup, "Failed"));
        let text = format!("{failed} backups failed since the last good one. {}", newest.unwrap_or_default());
        (false, Explanation::new(Reason::BackupFailing, text.trim_end()))
    } else if let Some(HeldUp::Active(due)) = held_up {
        (false, Explanation::new(Reason::BackupMissed, beside(seen, status, due)))
    } else if let Some(backup) = waiting_for_place(seen, status) {
        let text = format!(
            "EtcdBackup {} waits for its place, or has waited for it and runs now: more backups are due over all clusters than run at a \
             time. If that lasts, a higher --max-backups-running of the operator, or spec.spread in the schedules",
            backup.name_any()
        );
        (true, Explanation::new(Reason::BackupLimitReached, text))
    } else if status.last_success.is_none() {
        // What is applied together with it must not wait for the first night.
        (true, Explanation::new(Reason::NoBackupYet, "no backup has ended yet"))
    } else {
        (true, Explanation::new(Reason::BackupsHealthy, "the last backup is in the store"))
    };
    let notes = [
        held_by_clock(seen, status),
        schedule.spec.backup_template.spec.without_quorum.then(|| {
            "spec.backupTemplate.spec.withoutQuorum is true, and counts for nothing: backups of a schedule wait for the quorum. Remove it"
                .to_owned()
        }),
        what_stays(schedule).map(str::to_owned),
        too_long(schedule),
    ];
    let said = [why.message().trim_end_matches('.').to_owned()];
    let said: Vec<String> = said.into_iter().chain(notes.into_iter().flatten()).collect();
    let why = if said.len() > 1 { Explanation::new(why.reason(), said.join(". ")) } else { why };
    conditions::set(
        &mut status.conditions,
        ScheduleCondition::Ready.as_str(),
        is,
        &why,
        schedule.metadata.generation,
        timestamp(now),
    );
    ready::schedule(schedule, status, now);
}

/// What does not happen while the operator's clock differs. Without the difference: it changes, and the message would be written each time.
fn held_by_clock(seen: Seen<'_>, status: &EtcdBackupScheduleStatus) -> Option<String> {
    let spec = &seen.schedule.spec;
    let held = [
        spec.retention.is_some().then(|| "No good backup is deleted by spec.retention".to_owned()),
        order::waits(seen, status).then(|| format!("The backup by {} waits", keys::BACKUP_NOW)),
    ];
    let held: Vec<String> = held.into_iter().flatten().collect();
    let is_held = seen.clock.is_some() && !held.is_empty() && !spec.suspend;
    is_held.then(|| {
        format!(
            "{} meanwhile: the operator's clock differs from the API server's. Set the wrong one: compare date -u on their nodes, and check \
             NTP there",
            held.join(". ")
        )
    })
}

/// What retention leaves where a person may expect otherwise.
fn what_stays(schedule: &EtcdBackupSchedule) -> Option<&'static str> {
    let spec = &schedule.spec;
    let rules = spec.retention.as_ref().filter(|_| !spec.suspend)?;
    match spec.backup_template.spec.deletion_policy {
        _ if *rules == Retention::default() => {
            Some("spec.retention has no rule, so it deletes no good backup: give it one, such as keepLast")
        }
        DeletionPolicy::Retain => Some(
            "spec.retention deletes EtcdBackups, and their objects stay in the store: spec.backupTemplate.spec.deletionPolicy is Retain",
        ),
        DeletionPolicy::Delete => None,
    }
}

/// Whether a backup may take longer than until the next one: then times pass without one.
fn too_long(schedule: &EtcdBackupSchedule) -> Option<String> {
    let spec = &schedule.spec;
    let deadline = &spec.backup_template.spec.deadline;
    let interval = CronTimes::parse(&spec.schedule, spec.time_zone.as_deref()).ok()?.interval()? / 1000;
    let seconds = i64::try_from(duration::seconds(deadline)?).ok()?;
    (seconds > interval && !spec.suspend).then(|| {
        format!(
            "spec.backupTemplate.spec.deadline ({deadline}) is longer than the {interval} s between two backups: for as long as one takes, no other one is begun"
        )
    })
}

/// That a time waits because another EtcdBackup has the name of its backup.
fn taken(schedule: &EtcdBackupSchedule, due: Instant) -> String {
    let (name, namespace) = (name_of(schedule, due), schedule.namespace().unwrap_or_default());
    format!(
        "the backup of {} is not taken: EtcdBackup {name} has its name, and is not of this schedule. Find out who created it (kubectl get \
         etcdbackup {name} -n {namespace} -o yaml --show-managed-fields), and delete it. Until then no backup is taken before the next time",
        timestamp(due)
    )
}

/// That a time waits for a backup that has begun.
fn beside(seen: Seen<'_>, status: &EtcdBackupScheduleStatus, due: Instant) -> String {
    let active = status.active.first().cloned().unwrap_or_default();
    let backup = seen.backups.iter().find(|backup| backup.name_any() == active);
    let words = backup.map(|backup| words(backup, "Running")).unwrap_or_default();
    let text = format!(
        "the backup of {} waits: EtcdBackup {active} has not ended (kubectl describe etcdbackup {active} -n {}). {words}",
        timestamp(due),
        seen.schedule.namespace().unwrap_or_default()
    );
    text.trim_end().to_owned()
}

/// The condition Ready, where no backup can be begun.
pub fn not_ready(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, why: &Explanation) {
    let Seen { schedule, now, .. } = seen;
    conditions::set(
        &mut status.conditions,
        ScheduleCondition::Ready.as_str(),
        false,
        why,
        schedule.metadata.generation,
        timestamp(now),
    );
    ready::schedule(schedule, status, now);
}

/// The backup that waits for its place in the bound over all clusters, or that runs after it has waited for that.
fn waiting_for_place<'a>(seen: Seen<'a>, status: &EtcdBackupScheduleStatus) -> Option<&'a EtcdBackup> {
    let reason = Reason::BackupLimitReached.as_str();
    let says = |conditions: &[Condition], type_: &str| {
        let found = conditions::find(conditions, type_);
        found.is_some_and(|one| conditions::holds(one) != Some(false) && one.reason == reason)
    };
    let has_waited = says(&status.conditions, ScheduleCondition::Ready.as_str());
    let mut backups = seen.backups.iter().copied();
    backups.find(|backup| {
        let conditions =
            backup.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        backup.metadata.deletion_timestamp.is_none()
            && match phase(backup) {
                BackupPhase::Pending => says(conditions, BackupCondition::Pending.as_str()),
                BackupPhase::Running => has_waited,
                BackupPhase::Complete | BackupPhase::Failed | BackupPhase::Deleting => false,
            }
    })
}

/// Whether a backup waits for its first attempt.
fn has_not_begun(backup: &EtcdBackup) -> bool {
    phase(backup) == BackupPhase::Pending
        && backup.metadata.deletion_timestamp.is_none()
        && backup.status.as_ref().is_none_or(|status| status.started.is_none())
}

/// What the condition of a backup says that holds.
fn words(backup: &EtcdBackup, type_: &str) -> String {
    let all = backup.status.iter().flat_map(|status| &status.conditions);
    let holds = conditions::find_true(all, type_);
    holds.map_or_else(String::new, |holds| {
        format!("EtcdBackup {}: {}: {}", backup.name_any(), holds.reason, holds.message)
    })
}
