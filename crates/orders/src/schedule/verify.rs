//! Restore tests: the newest good backup is restored by a Job, which starts etcd on it. One that cannot be restored is recorded: retention
//! does not rely on it, nor on later ones, until a test passes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt as _;
use quorate_api::job::{FailureKind, Task as _, VerifyOrder};
use quorate_api::schedule::{
    EtcdBackupScheduleStatus, FailedTest, RunningTest, ScheduleCondition, VerifiedBackup,
};
use quorate_api::{EtcdBackup, Explanation, Reason, conditions};
use quorate_manifests::backup::verify_order;
use quorate_model::Instant;

use super::cron::CronTimes;
use super::decide::{NextAct, Seen, at, cluster_id, good_here, scheduled};
use super::look::with_last_words;
use super::{catalog, compared};
use crate::outcome::{NOT_ASKED, Reply};
use crate::time::timestamp;

/// What is next for the restore tests.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) then: Option<NextAct>,
    pub(crate) wake: Option<Instant>,
}

/// What is next for the restore tests. A test is recorded before its Job is created.
pub(crate) fn decide(
    seen: Seen<'_>,
    status: &mut EtcdBackupScheduleStatus,
    times: Option<&CronTimes>,
    events: &mut Vec<(bool, Explanation)>,
) -> Next {
    let Some(times) = times else {
        status.test = None;
        status.conditions.retain(|condition| condition.type_ != ScheduleCondition::Verified.as_str());
        return delete_leftover(seen, status);
    };
    if let Some(test) = status.test.clone() {
        return running(seen, status, &test, events);
    }
    let left = delete_leftover(seen, status);
    if left.then.is_some() {
        return left;
    }
    if conditions::find(&status.conditions, ScheduleCondition::Verified.as_str()).is_none() {
        let why = Explanation::new(Reason::RestoreNotTested, "no restore test has ended yet");
        verified(seen, status, None, &why);
    }
    if seen.schedule.spec.suspend {
        return Next::default();
    }
    let now = seen.now;
    let created = seen.schedule.metadata.creation_timestamp.as_ref().map_or(now, at);
    let recorded = status.last_test.as_ref().map(at);
    let since = times.since(recorded, created, now);
    if recorded.is_some_and(|recorded| since < recorded) {
        status.last_test = Some(Time(timestamp(since)));
    }
    let wake = times.next_begin(since, now);
    let (Some(due), Some((_, newest))) = (times.due(since, now), good_here(&seen).first().copied()) else {
        return Next { then: None, wake };
    };
    let job_name =
        VerifyOrder::job_name(seen.schedule.metadata.uid.as_deref().unwrap_or_default(), due.0 / 1000);
    let test =
        RunningTest { backup: newest.name_any(), backup_uid: newest.uid().unwrap_or_default(), job_name };
    status.last_test = Some(Time(timestamp(due)));
    status.test = Some(test);
    Next { then: create(newest), wake }
}

/// A restore test is under way.
fn running(
    seen: Seen<'_>,
    status: &mut EtcdBackupScheduleStatus,
    test: &RunningTest,
    events: &mut Vec<(bool, Explanation)>,
) -> Next {
    let left = delete_leftover(seen, status);
    if left.then.is_some() {
        return left;
    }
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_ref() == Some(&test.job_name));
    let backup = seen.backups.iter().find(|backup| backup.uid().as_ref() == Some(&test.backup_uid));
    let Some((_, outcome)) = job else {
        // It was recorded and not created, or somebody deleted it: its name lets it exist once.
        let then = backup.and_then(|backup| create(backup));
        if then.is_none() {
            status.test = None;
        }
        return Next { then, wake: None };
    };
    let failed = |reason: Reason, message: &str| {
        Explanation::new(reason, format!("EtcdBackup {} failed its restore test: {message}", test.backup))
    };
    let (is, why) = match outcome.of::<VerifyOrder>() {
        Reply::Running(words) => {
            // Why its Pod cannot run is known only while the Job exists: what was said last stays.
            if let Some(words) = words {
                let (is, why) = beside_last(status, &stuck(test), words);
                verified(seen, status, is, &why);
            }
            return Next::default();
        }
        Reply::Done(result) => {
            let text = format!(
                "EtcdBackup {} was restored: revision {}, {} keys. {}",
                test.backup,
                result.revision,
                result.keys,
                compared::text(result)
            );
            status.last_verified = Some(VerifiedBackup {
                backup: test.backup.clone(),
                time: Time(timestamp(seen.now)),
                revision: result.revision,
                keys: result.keys,
                compared: result.compared.clone(),
            });
            let id = backup.map(|backup| cluster_id(backup));
            status.failed_tests.retain(|failed| Some(failed.cluster_id.as_str()) != id);
            (Some(true), Explanation::new(Reason::RestoreTested, text))
        }
        Reply::Failed(failure) => {
            if let Some(backup) = backup.filter(|_| is_fault_of_the_backup(failure.kind)) {
                record(seen, status, backup, failure.kind.into());
            }
            (Some(false), failed(failure.kind.into(), &failure.message))
        }
        Reply::NotAsked => (Some(false), failed(Reason::JobFailed, NOT_ASKED)),
        Reply::Lost(text) => {
            let said = conditions::find(&status.conditions, ScheduleCondition::Verified.as_str());
            let words = said.and_then(|said| Some(said.message.split_once(&stuck(test))?.1));
            (Some(false), failed(Reason::JobFailed, &with_last_words(text, words)))
        }
    };
    events.push((is == Some(false), why.clone()));
    verified(seen, status, is, &why);
    status.test = None;
    Next { then: Some(NextAct::DeleteJob(test.job_name.clone())), wake: None }
}

/// What is said before the words of who keeps the Pod of a test from running.
fn stuck(test: &RunningTest) -> String {
    format!("The restore test of EtcdBackup {} has not ended, and its Pod waited for this: ", test.backup)
}

/// What the last test said still holds. These words come after it.
fn beside_last(status: &EtcdBackupScheduleStatus, stuck: &str, words: &str) -> (Option<bool>, Explanation) {
    let last = conditions::find(&status.conditions, ScheduleCondition::Verified.as_str());
    let is = last.and_then(conditions::holds);
    let reason = last.and_then(|last| Reason::named(&last.reason));
    let said = last.and_then(|last| last.message.split(stuck).next()).unwrap_or_default();
    let said = said.trim_end().trim_end_matches('.');
    let text = if said.is_empty() { format!("{stuck}{words}") } else { format!("{said}. {stuck}{words}") };
    (is, Explanation::new(reason.unwrap_or(Reason::RestoreNotTested), text))
}

/// Whether the fault is in the backup. Other failures are of the Job or of the store, and say nothing about it.
fn is_fault_of_the_backup(kind: FailureKind) -> bool {
    match kind {
        FailureKind::NotInStore | FailureKind::Mismatch | FailureKind::CannotDecrypt | FailureKind::Unfit => {
            true
        }
        FailureKind::OrderRefused
        | FailureKind::NoBackup
        | FailureKind::Ambiguous
        | FailureKind::NoSource
        | FailureKind::SnapshotFailed
        | FailureKind::TooSlow
        | FailureKind::StoreUnavailable
        | FailureKind::StoreForbidden
        | FailureKind::LimitTooLow
        | FailureKind::NotOurs
        | FailureKind::NoSpace
        | FailureKind::Stale
        | FailureKind::InUse => false,
    }
}

/// Records that a backup cannot be restored. Of several the oldest counts: what came after it may have the same fault, such as a recipient
/// whose identity is lost.
fn record(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, backup: &EtcdBackup, why: Reason) {
    let Some(created_for) = scheduled(backup) else { return };
    let failed = FailedTest {
        cluster_id: cluster_id(backup).to_owned(),
        backup: backup.name_any(),
        scheduled: Time(timestamp(created_for)),
        time: Time(timestamp(seen.now)),
        reason: why.as_str().to_owned(),
    };
    match status.failed_tests.iter_mut().find(|known| known.cluster_id == failed.cluster_id) {
        Some(known) if known.scheduled <= failed.scheduled => {}
        Some(known) => *known = failed,
        None => status.failed_tests.push(failed),
    }
}

/// Whether a test found that a backup cannot be restored, or an earlier one of the same etcd cluster, and none has passed since.
pub(crate) fn is_doubtful(
    status: &EtcdBackupScheduleStatus,
    backup: &EtcdBackup,
    created_for: Instant,
) -> bool {
    let mut failed = status.failed_tests.iter();
    failed.any(|failed| failed.cluster_id == cluster_id(backup) && at(&failed.scheduled) <= created_for)
}

/// The Job of the test in the status is refused. It has failed: while it stays recorded, it is tried for ever, and nothing
/// else is done.
pub fn refused(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, text: &str) -> Explanation {
    let of = status.test.take().map(|test| format!(" of EtcdBackup {}", test.backup)).unwrap_or_default();
    let why =
        Explanation::new(Reason::WriteRefused, format!("the Job of the restore test{of} is refused: {text}"));
    verified(seen, status, Some(false), &why);
    why
}

fn create(backup: &EtcdBackup) -> Option<NextAct> {
    let etcd_version = backup.status.as_ref()?.result.as_ref()?.etcd_version.clone();
    Some(NextAct::Test { order: Box::new(verify_order(backup)?), etcd_version })
}

/// Jobs of tests, of looks and of lists whose answers are recorded.
fn delete_leftover(seen: Seen<'_>, status: &EtcdBackupScheduleStatus) -> Next {
    let test = status.test.as_ref().map(|test| &test.job_name);
    let look = status.look.as_ref().filter(|look| look.failed.is_none()).map(|look| &look.job_name);
    let list = catalog::job_name(seen.schedule, status);
    let kept = [test, look, list.as_ref()];
    let is_left = |name: Option<&String>| name.is_none() || !kept.contains(&name);
    let left = seen.jobs.iter().find(|(job, _)| is_left(job.metadata.name.as_ref()));
    let name = left.map(|(job, _)| job.metadata.name.clone().unwrap_or_default());
    Next { then: name.map(NextAct::DeleteJob), wake: None }
}

fn verified(seen: Seen<'_>, status: &mut EtcdBackupScheduleStatus, is: Option<bool>, why: &Explanation) {
    let generation = seen.schedule.metadata.generation;
    conditions::set(
        &mut status.conditions,
        ScheduleCondition::Verified.as_str(),
        is,
        why,
        generation,
        timestamp(seen.now),
    );
}
