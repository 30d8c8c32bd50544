//! The snapshot is read to its end before the EtcdCluster takes the order up: for one that is not in the store, or is damaged, no member is
//! stopped. A try is recorded before its Job is created, and a try that failed is repeated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::bootstrap::RestoreSource;
use quorate_api::job::{Answer, Manifest, ReadOrder, Source};
use quorate_api::restore::{EtcdRestoreStatus, ReadSnapshot, Reading};
use quorate_api::{Explanation, Reason};
use quorate_manifests::job::read_name;
use quorate_model::{Instant, Span};

use super::decide::Seen;
use crate::controllers::backup::JobOutcome;
use crate::runtime::clock::timestamp;

/// How long after a try that failed the next one begins. A person may have mended the cause.
const AGAIN_AFTER: Span = Span::seconds(60);

/// What is next for the Jobs of an EtcdRestore.
#[derive(Debug, Default, PartialEq)]
pub(super) enum NextAct {
    /// Nothing.
    #[default]
    Wait,
    /// A try is due, or its Job is missing.
    Read { attempt: u32, order: Box<ReadOrder> },
    /// The answer of this Job is recorded, or not needed any more.
    DeleteJob(String),
}

/// What is next, and why the order is pending for it; `None`: the snapshot was read, or is not known yet.
pub(super) fn decide(
    seen: &Seen<'_>,
    source: Option<RestoreSource>,
    status: &mut EtcdRestoreStatus,
) -> (NextAct, Option<Explanation>) {
    let Some(source) = source else { return (leftover(seen, None), None) };
    if status.snapshot.as_ref().is_some_and(|read| read.sha256 == source.sha256) {
        status.reading = None;
        return (leftover(seen, None), None);
    }
    status.snapshot = None;
    let under_way = status.reading.take().filter(|reading| reading.sha256 == source.sha256);
    let mut reading = under_way.unwrap_or_else(|| first(&source));
    if reading.failed.as_ref().is_some_and(|failed| is_over(failed, seen.now)) {
        // Why the last try failed stays until one succeeds: nothing else is known.
        (reading.attempt, reading.failed) = (reading.attempt + 1, None);
    }
    let name = read_name(seen.uid(), reading.attempt);
    let left = leftover(seen, Some(&name));
    let then = if reading.failed.is_some() {
        leftover(seen, None)
    } else if left == NextAct::Wait {
        match answer(seen, &name) {
            None => NextAct::Read { attempt: reading.attempt, order: Box::new(order(&source)) },
            Some(JobOutcome::Running(why)) => {
                if reading.reason.is_none() {
                    reading.message.clone_from(why);
                }
                NextAct::Wait
            }
            Some(JobOutcome::Answered(Answer::Read(manifest))) => {
                status.snapshot = Some(snapshot(&source, manifest));
                return (NextAct::DeleteJob(name), None);
            }
            Some(JobOutcome::Answered(Answer::Failed(failure))) => {
                fail(&mut reading, failure.kind.into(), &failure.message, seen.now);
                NextAct::DeleteJob(name)
            }
            Some(JobOutcome::Answered(
                Answer::BackedUp(_)
                | Answer::Removed
                | Answer::Verified(_)
                | Answer::Stored(_)
                | Answer::NothingStored(_),
            )) => {
                fail(&mut reading, Reason::JobFailed, "the Job answered what it was not asked", seen.now);
                NextAct::DeleteJob(name)
            }
            Some(JobOutcome::Lost(text)) => {
                fail(&mut reading, Reason::JobFailed, text, seen.now);
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

/// The API server refuses the Job of the try that is recorded.
pub(super) fn refused(status: &mut EtcdRestoreStatus, text: &str, now: Instant) {
    if let Some(reading) = &mut status.reading {
        let text = format!("the API server refuses the Job: {text}");
        fail(reading, Reason::WriteRefused, &text, now);
    }
}

/// Jobs that are not those of the present try.
pub(super) fn leftover(seen: &Seen<'_>, present: Option<&str>) -> NextAct {
    let names = seen.jobs.iter().filter_map(|(job, _)| job.metadata.name.as_deref());
    let left = names.into_iter().find(|name| Some(*name) != present);
    left.map_or(NextAct::Wait, |name| NextAct::DeleteJob(name.to_owned()))
}

fn first(source: &RestoreSource) -> Reading {
    Reading { sha256: source.sha256.clone(), attempt: 1, ..Reading::default() }
}

fn is_over(failed: &Time, now: Instant) -> bool {
    now - Instant(failed.0.as_millisecond()) >= AGAIN_AFTER
}

fn answer<'a>(seen: &'a Seen<'_>, name: &str) -> Option<&'a JobOutcome> {
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_deref() == Some(name));
    job.map(|(_, outcome)| outcome)
}

fn order(source: &RestoreSource) -> ReadOrder {
    let RestoreSource { destination, key, sha256 } = source.clone();
    ReadOrder { source: Source { destination, key, sha256: Some(sha256) } }
}

/// What the store has of it. The size is that of the database, which was counted.
fn snapshot(source: &RestoreSource, manifest: &Manifest) -> ReadSnapshot {
    ReadSnapshot {
        sha256: source.sha256.clone(),
        bytes: manifest.snapshot_bytes,
        etcd_version: Some(manifest.etcd_version.clone()).filter(|version| !version.is_empty()),
        revision: Some(manifest.revision).filter(|revision| *revision > 0),
    }
}

fn fail(reading: &mut Reading, reason: Reason, message: &str, now: Instant) {
    reading.failed = Some(Time(timestamp(now)));
    reading.reason = Some(reason.as_str().to_owned());
    reading.message = Some(message.to_owned());
}

fn explain(reading: &Reading) -> Explanation {
    let known = |reason: &str| Reason::ALL.iter().find(|known| known.as_str() == reason).copied();
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
    Explanation::new(known(reason).unwrap_or(Reason::JobFailed), text)
}
