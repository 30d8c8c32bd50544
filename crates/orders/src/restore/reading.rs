//! The snapshot is read to its end before the EtcdCluster takes the order up: for one that is not in the store, or is damaged, no member is
//! stopped. What was read counts for ten minutes, since the object may be gone later: then it is read again, once nothing else holds the order
//! up. A try is recorded before its Job is created, and a try that failed is repeated. The tries are counted over all readings, so that no
//! Job has the name of one before.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::bootstrap::RestoreSource;
use quorate_api::job::{Manifest, ReadOrder, Source, Task as _};
use quorate_api::restore::{EtcdRestoreStatus, ReadSnapshot, Reading};
use quorate_api::status::WaitingOrder;
use quorate_api::{EtcdBackup, Explanation, Reason};
use quorate_manifests::restore::READING_COUNTS;
use quorate_model::{Instant, Span};

use super::decide::Seen;
use crate::outcome::JobOutcome;
use crate::time::timestamp;

/// How long after a try that failed the next one begins. A person may have mended the cause.
const AGAIN_AFTER: Span = Span::seconds(60);

/// What is next for the Jobs and the backup of an EtcdRestore.
#[derive(Debug, Default, PartialEq)]
pub enum NextAct {
    /// Nothing.
    #[default]
    Wait,
    /// A try is due, or its Job is missing.
    Read {
        /// The number of the try.
        attempt: u32,
        /// The order.
        order: Box<ReadOrder>,
    },
    /// The EtcdBackup of the data that are given up, or of the object that is restored, does not exist yet.
    Backup(Box<EtcdBackup>),
    /// The answer of this Job is recorded, or not needed any more.
    DeleteJob(String),
}

/// What is next, and why the order is pending for it; `None`: the snapshot was read, or is not known yet.
pub(crate) fn decide(
    seen: &Seen<'_>,
    source: Option<RestoreSource>,
    status: &mut EtcdRestoreStatus,
) -> (NextAct, Option<Explanation>) {
    let Some(source) = source else { return (leftover(seen, None), None) };
    let before = status.snapshot.as_ref().filter(|read| read.sha256 == source.sha256);
    if before.is_some_and(|read| counts(read, seen.now) || is_held(seen)) {
        status.reading = None;
        return (leftover(seen, None), None);
    }
    // The Job of the last reading may still be seen, with its answer.
    let next = last_attempt(status).saturating_add(1);
    status.snapshot = None;
    let under_way = status.reading.take().filter(|reading| reading.sha256 == source.sha256);
    let mut reading = under_way.unwrap_or_else(|| begun(&source, next));
    if reading.failed.as_ref().is_some_and(|failed| is_over(failed, seen.now)) {
        // Why the last try failed stays until one succeeds: nothing else is known.
        (reading.attempt, reading.failed) = (reading.attempt.saturating_add(1), None);
    }
    let name = ReadOrder::job_name(seen.uid(), reading.attempt);
    let left = leftover(seen, Some(&name));
    let then = if reading.failed.is_some() {
        leftover(seen, None)
    } else if left == NextAct::Wait {
        let found = found(seen, &name);
        match found.map(|(_, outcome)| (outcome, outcome.of::<ReadOrder>().ended())) {
            None => NextAct::Read { attempt: reading.attempt, order: Box::new(order(&source)) },
            Some((outcome, None)) => {
                if let (JobOutcome::Running(why), None) = (outcome, &reading.reason) {
                    reading.message.clone_from(why);
                }
                NextAct::Wait
            }
            Some((_, Some(Ok(manifest)))) => {
                let time = found.and_then(|(job, _)| ended(job)).map_or(seen.now, |over| over.min(seen.now));
                status.snapshot = Some(snapshot(&source, manifest, time, reading.attempt));
                return (NextAct::DeleteJob(name), None);
            }
            Some((_, Some(Err((reason, text))))) => {
                fail(&mut reading, reason, &text, seen.now);
                NextAct::DeleteJob(name)
            }
        }
    } else {
        left
    };
    let why = explain(&reading);
    status.reading = Some(reading);
    (then, Some(why))
}

/// What was read does not count while something else comes first: until it is read again the EtcdCluster does not take the order up. A
/// reading that is under way goes on.
pub(crate) fn hold(seen: &Seen<'_>, status: &mut EtcdRestoreStatus) -> NextAct {
    let next = last_attempt(status).saturating_add(1);
    if let Some(read) = status.snapshot.take() {
        status.reading = Some(Reading { sha256: read.sha256, attempt: next, ..Reading::default() });
    }
    let under_way = status.reading.as_ref().filter(|reading| reading.failed.is_none());
    let present = under_way.map(|reading| ReadOrder::job_name(seen.uid(), reading.attempt));
    leftover(seen, present.as_deref())
}

/// The Job of the try that is recorded is refused.
pub fn refused(status: &mut EtcdRestoreStatus, text: &str, now: Instant) {
    if let Some(reading) = &mut status.reading {
        let text = format!("the Job is refused: {text}");
        fail(reading, Reason::WriteRefused, &text, now);
    }
}

/// Jobs that are not those of the present try.
pub(crate) fn leftover(seen: &Seen<'_>, present: Option<&str>) -> NextAct {
    let names = seen.jobs.iter().filter_map(|(job, _)| job.metadata.name.as_deref());
    let left = names.into_iter().find(|name| Some(*name) != present);
    left.map_or(NextAct::Wait, |name| NextAct::DeleteJob(name.to_owned()))
}

fn begun(source: &RestoreSource, attempt: u32) -> Reading {
    Reading { sha256: source.sha256.clone(), attempt, ..Reading::default() }
}

/// Counts the tries of all readings.
fn last_attempt(status: &EtcdRestoreStatus) -> u32 {
    let read = status.snapshot.as_ref().map(|read| read.attempt);
    let reading = status.reading.as_ref().map(|reading| reading.attempt);
    read.max(reading).unwrap_or_default()
}

/// When a Job ended. kube-controller-manager says so by its clock, which may be behind: then what counts is how long it took by that
/// clock, since it was created by that of the API server.
fn ended(job: &Job) -> Option<Instant> {
    let millis = |time: Option<&Time>| Some(time?.0.as_millisecond());
    let of_job = job.status.as_ref()?;
    let completed = millis(of_job.completion_time.as_ref())?;
    let took = completed - millis(of_job.start_time.as_ref()).unwrap_or(completed);
    let since_created = millis(job.metadata.creation_timestamp.as_ref()).map(|created| created + took.max(0));
    Some(Instant(since_created.map_or(completed, |at| at.max(completed))))
}

/// Whether what was read still counts.
fn counts(read: &ReadSnapshot, now: Instant) -> bool {
    let time = read.time.as_ref().map(|time| Instant(time.0.as_millisecond()));
    time.is_some_and(|time| now < time + READING_COUNTS)
}

/// Whether something else holds the order up. What was read long ago is read again once that is over: the EtcdCluster says so, for it alone
/// knows what it would wait for next.
fn is_held(seen: &Seen<'_>) -> bool {
    let Some(cluster) = seen.cluster else { return false };
    let status = cluster.status.as_ref();
    let mut waiting = status.into_iter().flat_map(|status| &status.waiting_orders);
    let is_ours = |waiting: &&WaitingOrder| {
        waiting.ordered_by.etcd_restore.as_ref().is_some_and(|by| by.uid == seen.uid())
    };
    let reads_again =
        waiting.find(is_ours).is_some_and(|own| own.reason == Reason::RestoreReadAgain.as_str());
    let is_replacing = status.is_some_and(|status| status.replacing.is_some());
    cluster.spec.paused || is_replacing || !reads_again
}

fn is_over(failed: &Time, now: Instant) -> bool {
    now - Instant(failed.0.as_millisecond()) >= AGAIN_AFTER
}

fn found<'a>(seen: &Seen<'a>, name: &str) -> Option<&'a (&'a Job, JobOutcome)> {
    seen.jobs.iter().find(|(job, _)| job.metadata.name.as_deref() == Some(name))
}

fn order(source: &RestoreSource) -> ReadOrder {
    let RestoreSource { destination, key, sha256, version_id } = source.clone();
    ReadOrder { source: Source { destination, key, sha256: Some(sha256), version_id } }
}

/// What the store has of it. The size is that of the database, which was counted.
fn snapshot(source: &RestoreSource, manifest: &Manifest, time: Instant, attempt: u32) -> ReadSnapshot {
    ReadSnapshot {
        sha256: source.sha256.clone(),
        bytes: manifest.snapshot_bytes,
        etcd_version: Some(manifest.etcd_version.clone()).filter(|version| !version.is_empty()),
        revision: Some(manifest.revision).filter(|revision| *revision > 0),
        auth_enabled: manifest.auth_enabled,
        cluster: manifest.origin.cluster.as_ref().map(|name| format!("{}/{name}", manifest.origin.namespace)),
        cluster_id: Some(manifest.cluster_id.clone()).filter(|id| !id.is_empty()),
        taken: manifest.started.parse().ok().map(Time),
        time: Some(Time(timestamp(time))),
        attempt,
    }
}

fn fail(reading: &mut Reading, reason: Reason, message: &str, now: Instant) {
    reading.failed = Some(Time(timestamp(now)));
    reading.reason = Some(reason.as_str().to_owned());
    reading.message = Some(message.to_owned());
}

fn explain(reading: &Reading) -> Explanation {
    let message = reading.message.as_deref().unwrap_or_default();
    let Some(reason) = &reading.reason else {
        let text = "the snapshot is read from beginning to end before any member is stopped";
        let text = if message.is_empty() { text.to_owned() } else { format!("{text}: {message}") };
        return Explanation::new(Reason::OrderPending, text);
    };
    let text = format!(
        "the snapshot cannot be read, so no member is stopped: {message}. It is tried again every {} s; to end that, delete this EtcdRestore",
        AGAIN_AFTER.0 / 1000
    );
    Explanation::new(Reason::named(reason).unwrap_or(Reason::JobFailed), text)
}
