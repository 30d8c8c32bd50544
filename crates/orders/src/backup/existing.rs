//! What is next for an EtcdBackup that stands for an object which another EtcdBackup wrote (`spec.existing`): a Job looks for that object, by
//! its manifest and size, and what it finds is the status. Nothing is written to the store, nothing is removed from it, and it holds up no backup:
//! it has no finalizer, and its Job goes with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupCondition, BackupPhase, BackupResult, EtcdBackupStatus, ExistingObject};
use quorate_api::job::{Answer, InspectOrder, Manifest};
use quorate_api::{EtcdBackup, Explanation, Reason, keys};
use quorate_manifests::backup::inspect_order;
use quorate_manifests::job::inspect_name;
use quorate_model::Instant;

use super::decide::{
    Act, Decision, Seen, before_the_next, claim_refused, deadline, failed, has_finalizer, late, out_of_time,
    start, state, try_again,
};
use super::queue::{is_stuck, order, phase, rests};
use crate::outcome::JobOutcome;
use crate::time::timestamp;

/// How many EtcdBackups of a namespace look for such an object at a time.
const AT_A_TIME: usize = 4;

/// What is next.
pub(super) fn decide(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    match status.phase {
        Some(BackupPhase::Complete | BackupPhase::Failed) => {
            let act = match seen.jobs.first() {
                Some((job, _)) => Act::DeleteJob(job.metadata.name.clone().unwrap_or_default()),
                None if has_finalizer(seen.backup) => Act::RemoveFinalizer,
                None => Act::Rest,
            };
            Decision { status, act, event: None }
        }
        Some(BackupPhase::Pending | BackupPhase::Running | BackupPhase::Deleting) | None => {
            let Some(order) = inspect_order(seen.backup) else {
                // The definition refuses it; this also covers one that was edited.
                let text = "spec.existing needs source.cluster. Create another EtcdBackup with it";
                return failed(seen, status, Explanation::new(Reason::OrderRefused, text));
            };
            let is_under_way = status.attempts > 0 && status.next_attempt.is_none();
            if is_under_way { attempt(seen, status, order) } else { begin(seen, status, order) }
        }
    }
}

/// Why nothing is taken for one that the operator created with `spec.existing`, and that lost it to an older definition.
pub(super) fn lost(backup: &EtcdBackup, status: &EtcdBackupStatus) -> Option<Explanation> {
    let has_ended = matches!(status.phase, Some(BackupPhase::Complete | BackupPhase::Failed));
    let text = "the API server does not store spec.existing: the CustomResourceDefinition of EtcdBackups is older than the operator, or another \
                program's. No backup is taken. Apply the definitions of the operator's release: kubectl apply --server-side --force-conflicts -f \
                config/crd. Then delete this EtcdBackup, and order the list of the store by another word";
    let is_lost = !has_ended && backup.annotations().contains_key(keys::EXISTING_OBJECT);
    is_lost.then(|| Explanation::new(Reason::CrdTooOld, text))
}

/// The EtcdBackup that this one waits for: so many look for their object, or are older and have not. `None`: it may begin.
pub fn inspects_before<'a>(
    own: &EtcdBackup,
    others: impl Iterator<Item = &'a EtcdBackup>,
    now: Instant,
) -> Option<&'a EtcdBackup> {
    let counts = |other: &&EtcdBackup| {
        other.spec.existing.is_some()
            && other.uid() != own.uid()
            && other.namespace() == own.namespace()
            && other.metadata.deletion_timestamp.is_none()
            && match phase(other) {
                BackupPhase::Running => !is_stuck(other, now),
                BackupPhase::Pending => order(other) < order(own) && !rests(other, now),
                BackupPhase::Complete | BackupPhase::Failed | BackupPhase::Deleting => false,
            }
    };
    let mut before: Vec<&EtcdBackup> = others.filter(counts).collect();
    before.sort_by_key(|other| order(other));
    if before.len() < AT_A_TIME { None } else { before.first().copied() }
}

/// No try is under way: the next one begins, or it is waited.
fn begin(seen: Seen<'_>, mut status: EtcdBackupStatus, order: InspectOrder) -> Decision {
    if let Some(act) = before_the_next(seen, &status) {
        return Decision { status, act, event: None };
    }
    if let Some(why) = claim_refused(seen) {
        return failed(seen, status, why);
    }
    if let Some(other) = seen.waits_for {
        let text = format!("EtcdBackup {other} comes first: {AT_A_TIME} at a time look for their object");
        let why = Explanation::new(Reason::BackupQueued, text);
        let status = state(seen, status, BackupPhase::Pending, BackupCondition::Pending, &why);
        return Decision { status, act: Act::Wait(None), event: None };
    }
    start(seen, &mut status);
    if deadline(seen.backup, &status, seen.now) <= seen.now.0 {
        return out_of_time(seen, status);
    }
    let name = inspect_name(seen.backup.metadata.uid.as_deref().unwrap_or_default(), status.attempts);
    let mut status = looks(seen, EtcdBackupStatus { job_name: Some(name), ..status }, None);
    // What has started is of an earlier try.
    status.not_started_since = Some(Time(timestamp(seen.now)));
    let act = inspect(seen, &status, order);
    Decision { status, act, event: None }
}

/// A try is under way.
fn attempt(seen: Seen<'_>, status: EtcdBackupStatus, order: InspectOrder) -> Decision {
    let name = status.job_name.clone().unwrap_or_default();
    let job = seen.jobs.iter().find(|(job, _)| job.metadata.name.as_deref() == Some(&name));
    let is_late = deadline(seen.backup, &status, seen.now) <= seen.now.0;
    let Some((_, outcome)) = job else {
        if is_late {
            return out_of_time(seen, status);
        }
        // It was recorded and not created, or somebody deleted it: its name lets it exist once.
        let act = inspect(seen, &status, order);
        return Decision { status, act, event: None };
    };
    if let (JobOutcome::Running(stuck), true) = (outcome, is_late) {
        let waited = stuck.as_deref().map(|stuck| format!(". {stuck}")).unwrap_or_default();
        return late(seen, status, &waited);
    }
    if let JobOutcome::Running(stuck) = outcome {
        let ends = Instant(deadline(seen.backup, &status, seen.now));
        let status = looks(seen, status, stuck.as_deref());
        return Decision { status, act: Act::Wait(Some(ends)), event: None };
    }
    if let JobOutcome::Answered(Answer::Failed(failure)) = outcome {
        let why = Explanation::new(failure.kind.into(), failure.message.clone());
        return if failure.kind.may_pass() {
            try_again(seen, status, &why)
        } else {
            failed(seen, status, why)
        };
    }
    let found =
        |answer: &Answer| if let Answer::Inspected(found) = answer { Some(found.clone()) } else { None };
    match outcome.ended(found) {
        Some(Ok(manifest)) => complete(seen, status, &manifest),
        Some(Err((reason, text))) => try_again(seen, status, &Explanation::new(reason, text)),
        None => Decision { status, act: Act::Wait(None), event: None },
    }
}

/// The object is there. The Job has compared it: what its image makes of an order is not known here.
fn complete(seen: Seen<'_>, mut status: EtcdBackupStatus, manifest: &Manifest) -> Decision {
    let spec = &seen.backup.spec;
    let is_it = |existing: &ExistingObject| existing.is(&manifest.key, &manifest.stored_sha256);
    if !spec.existing.as_ref().is_some_and(is_it) || manifest.origin.cluster != spec.source.cluster {
        let text =
            format!("the object {} is not the one that spec.existing and spec.source name", manifest.key);
        return failed(seen, status, Explanation::new(Reason::ChecksumMismatch, text));
    }
    let url = spec.destination.url(&manifest.key);
    let unsigned = match manifest.signature {
        Some(_) => "",
        None => ". No key of this namespace has signed that manifest",
    };
    let text = format!(
        "{url} is in the store, by its manifest and size: begun at {}, revision {} of etcd {}{unsigned}",
        manifest.started, manifest.revision, manifest.etcd_version
    );
    let why = Explanation::new(Reason::BackupComplete, text);
    status.result = Some(BackupResult::new(manifest, url));
    let status = state(seen, status, BackupPhase::Complete, BackupCondition::Complete, &why);
    Decision { status, act: Act::Wait(Some(seen.now)), event: Some((false, why)) }
}

/// The status while a Job looks for it.
fn looks(seen: Seen<'_>, status: EtcdBackupStatus, stuck: Option<&str>) -> EtcdBackupStatus {
    let name = status.job_name.as_deref().unwrap_or_default();
    let stuck = stuck.map(|stuck| format!(". {stuck}")).unwrap_or_default();
    let text = format!("Job {name} looks for the object, attempt {}{stuck}", status.attempts);
    let why = Explanation::new(Reason::BackupRunning, text);
    state(seen, status, BackupPhase::Running, BackupCondition::Running, &why)
}

fn inspect(seen: Seen<'_>, status: &EtcdBackupStatus, order: InspectOrder) -> Act {
    let seconds = (deadline(seen.backup, status, seen.now) - seen.now.0) / 1000;
    Act::Inspect { order: Box::new(order), seconds: seconds.min(LONGEST_LOOK) }
}

/// How many seconds a Job has for it: a Pod that hangs does not hold it up until the deadline.
const LONGEST_LOOK: i64 = 600;
