//! An EtcdBackup that is being deleted: its Job stops, its object goes where the policy says so, then the finalizer.

use quorate_api::backup::{BackupCondition, BackupPhase, DeletionPolicy, EtcdBackupStatus};
use quorate_api::job::{Answer, FailureKind};
use quorate_api::{EtcdBackup, Explanation, Reason, keys};
use quorate_manifests::job::remove_name;
use quorate_model::Instant;

use super::decide::{Act, Decision, Seen, User, delay, has_finalizer, state};
use super::outcome::JobOutcome;

/// What is next.
pub(super) fn decide(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    if !has_finalizer(seen.backup) {
        return Decision { status, act: Act::Rest, event: None };
    }
    let uid = seen.backup.metadata.uid.as_deref().unwrap_or_default();
    let removal = (status.removals > 0).then(|| remove_name(uid, status.removals));
    // What takes the backup stops first: it would put the object back.
    let other = seen.jobs.iter().find(|(job, _)| job.metadata.name != removal);
    if let Some((job, _)) = other {
        let act = Act::DeleteJob(job.metadata.name.clone().unwrap_or_default());
        return Decision { status, act, event: None };
    }
    let annotation = seen.backup.metadata.annotations.iter().flatten();
    let is_abandoned = annotation
        .into_iter()
        .any(|(key, value)| key == keys::ABANDON_OBJECT && value == keys::ABANDON_OBJECT_VALUE);
    let has_object = status.attempts > 0 && seen.backup.spec.deletion_policy == DeletionPolicy::Delete;
    if !has_object || is_abandoned {
        return last(seen, status, has_object);
    }
    let Some(name) = removal else {
        if seen.running_pods > 0 {
            let text = "the Pod that takes it stops before its object is removed";
            return removing(seen, status, text, Act::Wait(None));
        }
        if let Some(user) = seen.used_by {
            let text = match user {
                User::Cluster(cluster) => {
                    format!("EtcdCluster {cluster} is restored from its object, which is removed after that")
                }
                User::Restore(restore) => format!(
                    "the removal of its object waits for EtcdRestore {restore}, which names it and is neither Complete nor Failed. To remove \
                     it now, delete EtcdRestore {restore}"
                ),
            };
            return removing(seen, status, &text, Act::Wait(None));
        }
        return next(seen, status);
    };
    match seen.jobs.first() {
        // Recorded and not created, or deleted after its failure was recorded.
        None => match status.next_attempt.as_ref().map(|next| next.0.as_millisecond()) {
            Some(at) if at > seen.now.0 => {
                Decision { status, act: Act::Wait(Some(Instant(at))), event: None }
            }
            Some(_) => next(seen, status),
            None => Decision { status, act: Act::Remove, event: None },
        },
        Some(_) if status.next_attempt.is_some() => {
            Decision { status, act: Act::DeleteJob(name), event: None }
        }
        Some((_, JobOutcome::Running(stuck))) => {
            let stuck = stuck.as_deref().map(|stuck| format!(". {stuck}")).unwrap_or_default();
            let text = format!("Job {name} removes its object{stuck}");
            removing(seen, status, &text, Act::Wait(None))
        }
        Some((_, JobOutcome::Answered(Answer::Removed))) => last(seen, status, false),
        Some((_, JobOutcome::Answered(Answer::Failed(failure)))) => match failure.kind {
            FailureKind::NotInStore => last(seen, status, false),
            FailureKind::NotOurs => {
                let text =
                    format!("the EtcdBackup was deleted, and its object was left: {}", failure.message);
                let event = Some((true, Explanation::new(Reason::ObjectAbandoned, text)));
                Decision { status, act: Act::RemoveFinalizer, event }
            }
            FailureKind::OrderRefused
            | FailureKind::NoSource
            | FailureKind::SnapshotFailed
            | FailureKind::StoreUnavailable
            | FailureKind::StoreForbidden
            | FailureKind::Mismatch
            | FailureKind::CannotDecrypt
            | FailureKind::NoSpace
            | FailureKind::InUse
            | FailureKind::Unfit => again(seen, status, failure.kind.into(), &failure.message),
        },
        Some((
            _,
            JobOutcome::Answered(
                Answer::BackedUp(_)
                | Answer::Read(_)
                | Answer::Verified(_)
                | Answer::Stored(_)
                | Answer::NothingStored(_),
            ),
        )) => {
            let text = "the Job answered what it was not asked: its image is not that of this operator";
            again(seen, status, Reason::JobFailed, text)
        }
        Some((_, JobOutcome::Lost(text))) => again(seen, status, Reason::JobFailed, text),
    }
}

/// How the deletion ends where the object cannot be removed.
pub(super) fn way_out() -> String {
    format!(
        "To delete the EtcdBackup and leave the object where it is, annotate it with {}={}",
        keys::ABANDON_OBJECT,
        keys::ABANDON_OBJECT_VALUE
    )
}

/// Whether the namespace is being deleted, by the refusal of a Job: then none is created here any more, and the object is left in the store.
/// Otherwise the namespace would never end, and its end would take the last backups of what was in it.
pub(super) fn is_of_namespace_in_deletion(refusal: &str) -> bool {
    refusal.contains("because it is being terminated")
}

/// The next removal.
fn next(seen: Seen<'_>, mut status: EtcdBackupStatus) -> Decision {
    status.removals += 1;
    status.next_attempt = None;
    let uid = seen.backup.metadata.uid.as_deref().unwrap_or_default();
    let text = format!("Job {} removes its object", remove_name(uid, status.removals));
    removing(seen, status, &text, Act::Remove)
}

/// The removal failed. It is tried again for ever, because a person may mend the store meanwhile; the message says how else it ends.
fn again(seen: Seen<'_>, mut status: EtcdBackupStatus, reason: Reason, message: &str) -> Decision {
    let next = Instant(seen.now.0.saturating_add(delay(status.removals)));
    status.next_attempt =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(crate::runtime::clock::timestamp(next)));
    let text = format!("its object cannot be removed: {message}. It is tried again. {}", way_out());
    let why = Explanation::new(reason, text);
    let status = state(seen, status, BackupPhase::Deleting, BackupCondition::Failed, &why);
    Decision { status, act: Act::Wait(Some(next)), event: Some((true, why)) }
}

fn removing(seen: Seen<'_>, status: EtcdBackupStatus, text: &str, act: Act) -> Decision {
    let why = Explanation::new(Reason::RemovingObject, text);
    let status = state(seen, status, BackupPhase::Deleting, BackupCondition::Running, &why);
    Decision { status, act, event: None }
}

fn last(seen: Seen<'_>, status: EtcdBackupStatus, leaves_object: bool) -> Decision {
    let event = leaves_object.then(|| (true, abandoned(seen.backup, "by order")));
    Decision { status, act: Act::RemoveFinalizer, event }
}

/// That the object is left.
pub(super) fn abandoned(backup: &EtcdBackup, how: &str) -> Explanation {
    let place = backup.spec.destination.url(&quorate_manifests::backup::key(backup));
    let text = format!("the EtcdBackup was deleted {how}, and {place} may still exist: remove it by hand");
    Explanation::new(Reason::ObjectAbandoned, text)
}
