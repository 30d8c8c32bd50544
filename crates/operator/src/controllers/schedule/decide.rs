//! What is next for an EtcdBackupSchedule: a pure function of what is observed.
//!
//! A backup is created before the status records its time. Its name is made of the schedule's uid and of that time, so the same time
//! never has two. A time that is recorded is never used again, and of the times that were missed only the last one is made up for.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt as _;
use quorate_api::backup::BackupPhase;
use quorate_api::job::VerifyOrder;
use quorate_api::schedule::{EtcdBackupScheduleStatus, Retention};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, Explanation, Reason, duration, keys};
use quorate_model::Instant;

use super::cron::CronTimes;
use super::retention::{GoodBackup, prunable};
use super::{report, verify};
use crate::controllers::backup::JobOutcome;
use crate::runtime::clock::timestamp;

/// What is observed of an EtcdBackupSchedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) schedule: &'a EtcdBackupSchedule,
    /// The EtcdBackups that it created.
    pub(super) backups: &'a [&'a EtcdBackup],
    /// The Jobs of its restore tests, with what they have come to.
    pub(super) jobs: &'a [(&'a Job, JobOutcome)],
    pub(super) now: Instant,
}

/// What is next.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// Done before the status is written. If it fails, the status is not written.
    pub(super) first: Option<FirstWrite>,
    /// The status as it is to be.
    pub(super) status: EtcdBackupScheduleStatus,
    /// Done when it is written.
    pub(super) then: NextAct,
    /// What is reported as events.
    pub(super) events: Vec<(bool, Explanation)>,
}

/// What is done before the status is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FirstWrite {
    Create(Box<EtcdBackup>),
}

/// What is done after the status is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NextAct {
    /// Deletes these EtcdBackups, if this one, the newest that is good as far as is known, exists.
    Prune {
        names: Vec<String>,
        floor: Option<String>,
    },
    /// The Job of the restore test in the status.
    Test {
        order: Box<VerifyOrder>,
        etcd_version: String,
    },
    DeleteJob(String),
    /// Nothing until then, or until a change in Kubernetes.
    Wait(Option<Instant>),
    /// Only an edit helps.
    Edit,
}

/// What is next.
pub(super) fn decide(seen: Seen<'_>) -> Decision {
    let Seen { schedule, now, .. } = seen;
    let spec = &schedule.spec;
    let mut status = report::figures(seen);
    let read = |text: &str| CronTimes::read(text, spec.time_zone.as_deref(), now);
    let times = match read(&spec.schedule) {
        Ok(times) => times,
        Err(text) => return invalid(seen, status, text),
    };
    let tests = match spec.verify.as_ref().map(|verify| read(&verify.schedule)).transpose() {
        Ok(tests) => tests,
        Err(text) => return invalid(seen, status, format!("spec.verify: {text}")),
    };
    let mut events = Vec::new();
    let mut first = None;
    let mut held_up = false;
    if spec.suspend {
        status.next = None;
    } else {
        let created = schedule.metadata.creation_timestamp.as_ref().map_or(now, at);
        // A clock that was ahead and was set back must not stop the schedule.
        let since = status.last_scheduled.as_ref().map_or(created, at).min(now);
        let due = times.last(since, now);
        match due {
            Some(due) if is_too_late(schedule, due, now) => {
                let text =
                    format!("the backup of {} is left out: spec.startingDeadline is over", timestamp(due));
                events.push((true, Explanation::new(Reason::BackupMissed, text)));
                status.last_scheduled = Some(Time(timestamp(due)));
            }
            // It waits for the one that is under way, and is made up for then.
            Some(_) if !status.active.is_empty() => held_up = true,
            Some(due) => {
                let exists = seen.backups.iter().any(|backup| backup.name_any() == name(schedule, due));
                first = (!exists).then(|| FirstWrite::Create(Box::new(child(schedule, due))));
                status.last_scheduled = Some(Time(timestamp(due)));
            }
            None => {}
        }
        status.next = times.next(now).map(|next| Time(timestamp(next)));
    }
    report::ready(seen, &mut status, held_up);
    let test = verify::decide(seen, &mut status, tests.as_ref(), &mut events);
    let wake = [status.next.as_ref().map(at), test.wake].into_iter().flatten().min();
    let then = test.then.or_else(|| prune(seen, &status, &times)).unwrap_or(NextAct::Wait(wake));
    Decision { first, status, then, events }
}

/// The time that a backup of the schedule was created for.
pub(super) fn scheduled(backup: &EtcdBackup) -> Option<Instant> {
    let written = backup.metadata.annotations.as_ref()?.get(keys::SCHEDULED_AT)?;
    Some(Instant(written.parse::<jiff::Timestamp>().ok()?.as_millisecond()))
}

/// The phase of a backup.
pub(super) fn phase(backup: &EtcdBackup) -> BackupPhase {
    backup.status.as_ref().and_then(|status| status.phase).unwrap_or(BackupPhase::Pending)
}

/// A time in status.
pub(super) fn at(time: &Time) -> Instant {
    Instant(time.0.as_millisecond())
}

/// The good backups, the newest first.
pub(super) fn good<'a>(seen: &Seen<'a>) -> Vec<(Instant, &'a EtcdBackup)> {
    in_phase(seen, BackupPhase::Complete)
}

/// The backups in a phase that are not being deleted, the newest first.
pub(super) fn in_phase<'a>(seen: &Seen<'a>, wanted: BackupPhase) -> Vec<(Instant, &'a EtcdBackup)> {
    let of_phase = seen.backups.iter().filter(|backup| phase(backup) == wanted && !is_going(backup));
    let mut found: Vec<_> = of_phase.filter_map(|backup| Some((scheduled(backup)?, *backup))).collect();
    found.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    found
}

/// The id of the etcd cluster that a good backup is of.
pub(super) fn cluster_id(backup: &EtcdBackup) -> &str {
    let result = backup.status.as_ref().and_then(|status| status.result.as_ref());
    result.map_or("", |result| result.cluster_id.as_str())
}

fn is_going(backup: &EtcdBackup) -> bool {
    backup.metadata.deletion_timestamp.is_some()
}

fn invalid(seen: Seen<'_>, mut status: EtcdBackupScheduleStatus, text: String) -> Decision {
    status.next = None;
    report::not_ready(seen, &mut status, &Explanation::new(Reason::ScheduleInvalid, text));
    Decision { first: None, status, then: NextAct::Edit, events: Vec::new() }
}

fn is_too_late(schedule: &EtcdBackupSchedule, due: Instant, now: Instant) -> bool {
    let deadline = schedule.spec.starting_deadline.as_deref().and_then(duration::seconds);
    deadline
        .and_then(|seconds| i64::try_from(seconds).ok())
        .is_some_and(|seconds| now.0 - due.0 > seconds * 1000)
}

/// The name of the backup of a time: the end of the schedule's uid, so that a schedule of the same name has others, and the minute.
pub(super) fn name(schedule: &EtcdBackupSchedule, due: Instant) -> String {
    let uid = schedule.uid().unwrap_or_default();
    let end = uid.get(uid.len().saturating_sub(4)..).unwrap_or_default();
    format!("{}-{end}{:08}", schedule.name_any(), due.0 / 60_000)
}

fn child(schedule: &EtcdBackupSchedule, due: Instant) -> EtcdBackup {
    let template = &schedule.spec.backup_template;
    let mut metadata = template.metadata.clone().unwrap_or_default();
    metadata.labels.insert(keys::SCHEDULE.to_owned(), schedule.name_any());
    metadata.annotations.insert(keys::SCHEDULE_UID.to_owned(), schedule.uid().unwrap_or_default());
    metadata.annotations.insert(keys::SCHEDULED_AT.to_owned(), timestamp(due).to_string());
    let metadata = ObjectMeta {
        name: Some(name(schedule, due)),
        namespace: schedule.namespace(),
        labels: Some(metadata.labels),
        annotations: Some(metadata.annotations),
        ..ObjectMeta::default()
    };
    EtcdBackup { metadata, spec: template.spec.clone(), status: None }
}

/// What no rule keeps. Failed ones are kept by number.
fn prune(seen: Seen<'_>, status: &EtcdBackupScheduleStatus, times: &CronTimes) -> Option<NextAct> {
    let spec = &seen.schedule.spec;
    if spec.suspend {
        return None;
    }
    let good = good(&seen);
    let tested = seen.schedule.status.as_ref().and_then(|status| status.test.as_ref());
    let rows: Vec<GoodBackup> = good
        .iter()
        .map(|(scheduled, backup)| {
            let result = backup.status.as_ref().and_then(|status| status.result.as_ref());
            GoodBackup {
                name: backup.name_any(),
                at: *scheduled,
                zoned: times.zoned(*scheduled),
                bytes: result.map_or(0, |result| result.stored_bytes),
                cluster_id: cluster_id(backup).to_owned(),
                is_in_use: backup.finalizers().iter().any(|finalizer| finalizer == keys::RESTORE_FINALIZER)
                    || tested.is_some_and(|test| test.backup == backup.name_any()),
                is_doubtful: verify::is_doubtful(status, backup, *scheduled),
            }
        })
        .collect();
    let mut names = prunable(spec.retention.as_ref().unwrap_or(&Retention::default()), &rows, seen.now);
    let failed = in_phase(&seen, BackupPhase::Failed);
    names.extend(failed.iter().skip(spec.history_limit.failed as usize).map(|(_, backup)| backup.name_any()));
    let floor = rows.iter().find(|good| !good.is_doubtful).or(rows.first()).map(|good| good.name.clone());
    (!names.is_empty()).then_some(NextAct::Prune { names, floor })
}
