//! An EtcdBackup that is being deleted: its Job stops, its object goes where the policy says so, then the finalizer.

use quorate_api::backup::{BackupCondition, BackupPhase, EtcdBackupStatus};
use quorate_api::job::{FailureKind, RemoveOrder, Task as _};
use quorate_api::{EtcdBackup, Explanation, Reason, keys};
use quorate_model::{Backoff, Instant, Span};

use super::decide::{Act, DELAYS, Decision, Seen, User, has_finalizer, state};
use super::queue::{FIRST_MINUTES, is_held, longest_removal_delay};
use crate::gate::{self, Removal, Unsafe};
use crate::outcome::{NOT_ASKED, Reply};
use crate::time::timestamp;

/// The delays between two removals from a store that refuses them.
pub(super) const REMOVAL_DELAYS: Backoff = Backoff { longest: Span::seconds(4 * 3600), ..DELAYS };

/// What is next.
pub(crate) fn decide(seen: Seen<'_>, mut status: EtcdBackupStatus) -> Decision {
    if !has_finalizer(seen.backup) {
        return Decision { status, act: Act::Rest, event: None };
    }
    if status.phase != Some(BackupPhase::Deleting) {
        // It was the time of the next backup, and not of a removal.
        status.next_attempt = None;
    }
    let uid = seen.backup.metadata.uid.as_deref().unwrap_or_default();
    let removal = (status.removals > 0).then(|| RemoveOrder::job_name(uid, status.removals));
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
    let removal_of = Removal {
        backup: seen.backup,
        status: &status,
        running_pods: seen.running_pods,
        used_by: seen.used_by,
    };
    let judged = gate::may_remove(&removal_of);
    let has_object = !matches!(judged, Err(Unsafe::Retained | Unsafe::NotBegun));
    if judged == Err(Unsafe::NotBegun) && status.attempts > 0 {
        // A status that was lost and begun anew lacks the attempts of before.
        let place = seen.backup.spec.destination.url(&quorate_manifests::backup::key(seen.backup));
        let text = format!(
            "the EtcdBackup was deleted, and no attempt in its status has written an object, so none was removed. If its status was lost \
             once, {place} may exist: look there if it matters"
        );
        let event = Some((false, Explanation::new(Reason::ObjectAbandoned, text)));
        return Decision { status, act: Act::RemoveFinalizer, event };
    }
    if !has_object || is_abandoned {
        return last(seen, status, has_object);
    }
    let rests = status.next_attempt.as_ref().map(|next| next.0.as_millisecond());
    let rests = rests.filter(|next| is_held(*next, seen.now, seen.all_go));
    let Some(name) = removal else {
        if judged == Err(Unsafe::StillWritten) {
            let text = "the Pod that takes it stops before its object is removed";
            return removing(seen, status, text, Act::Wait(None));
        }
        if let (Some(user), Err(Unsafe::StillNeeded)) = (seen.used_by, judged) {
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
        return match rests {
            // The API server refused its Job.
            Some(at) => Decision { status, act: Act::Wait(Some(Instant(at))), event: None },
            None => next_in_turn(seen, status),
        };
    };
    let Some((_, outcome)) = seen.jobs.first() else {
        // Recorded and not created, or deleted after its failure was recorded.
        return match (rests, &status.next_attempt) {
            (Some(at), _) => Decision { status, act: Act::Wait(Some(Instant(at))), event: None },
            (None, Some(_)) => next_in_turn(seen, status),
            (None, None) => Decision { status, act: Act::Remove, event: None },
        };
    };
    if status.next_attempt.is_some() {
        return Decision { status, act: Act::DeleteJob(name), event: None };
    }
    match outcome.of::<RemoveOrder>() {
        Reply::Running(stuck) => {
            let stuck = stuck.map(|stuck| format!(". {stuck}")).unwrap_or_default();
            let text = format!("Job {name} removes its object{stuck}");
            removing(seen, status, &text, Act::Wait(None))
        }
        Reply::Done(()) => last(seen, status, false),
        Reply::Failed(failure) => match failure.kind {
            FailureKind::NotInStore => last(seen, status, false),
            FailureKind::NotOurs => {
                let text =
                    format!("the EtcdBackup was deleted, and its object was left: {}", failure.message);
                let event = Some((true, Explanation::new(Reason::ObjectAbandoned, text)));
                Decision { status, act: Act::RemoveFinalizer, event }
            }
            FailureKind::OrderRefused
            | FailureKind::NoBackup
            | FailureKind::Ambiguous
            | FailureKind::NoSource
            | FailureKind::SnapshotFailed
            | FailureKind::TooSlow
            | FailureKind::StoreUnavailable
            | FailureKind::StoreForbidden
            | FailureKind::Mismatch
            | FailureKind::CannotDecrypt
            | FailureKind::LimitTooLow
            | FailureKind::NoSpace
            | FailureKind::InUse
            | FailureKind::Stale
            | FailureKind::Unfit => again(seen, status, failure.kind.into(), &failure.message),
        },
        Reply::NotAsked => {
            let text = format!("{NOT_ASKED}: its image is not that of this operator");
            again(seen, status, Reason::JobFailed, &text)
        }
        Reply::Lost(text) => again(seen, status, Reason::JobFailed, text),
    }
}

/// How the deletion ends where the object cannot be removed.
pub fn way_out() -> String {
    format!(
        "To delete the EtcdBackup and leave the object where it is, annotate it with {}={}",
        keys::ABANDON_OBJECT,
        keys::ABANDON_OBJECT_VALUE
    )
}

/// Whether the namespace is being deleted, by the refusal of a Job: then none is created here any more, and the object is left in the store.
/// Otherwise the namespace would never end, and its end would take the last backups of what was in it.
pub fn is_of_namespace_in_deletion(refusal: &str) -> bool {
    refusal.contains("because it is being terminated")
}

/// The next removal, when it is its turn.
fn next_in_turn(seen: Seen<'_>, status: EtcdBackupStatus) -> Decision {
    let Some(other) = seen.waits_for else { return next(seen, status) };
    if status.removals > 0 {
        // Why the last one failed stays.
        return Decision { status, act: Act::Wait(None), event: None };
    }
    let text = format!("the object of EtcdBackup {other} in the same store is removed first. {}", way_out());
    removing(seen, status, &text, Act::Wait(None))
}

/// The next removal.
fn next(seen: Seen<'_>, mut status: EtcdBackupStatus) -> Decision {
    status.removals = status.removals.saturating_add(1);
    status.next_attempt = None;
    let uid = seen.backup.metadata.uid.as_deref().unwrap_or_default();
    let text = format!("Job {} removes its object", RemoveOrder::job_name(uid, status.removals));
    removing(seen, status, &text, Act::Remove)
}

/// The removal failed. It is tried again for ever, because a person may mend the store meanwhile; the message says how else it ends.
fn again(seen: Seen<'_>, status: EtcdBackupStatus, reason: Reason, message: &str) -> Decision {
    // It grows with every one that this store refuses.
    let delay = REMOVAL_DELAYS.after(status.removals.saturating_add(seen.failed_removals));
    at_later(seen, status, reason, message, delay.min(longest_removal_delay(seen.all_go)))
}

/// The Job of the removal in the status is refused: it rests, and others may be admitted meanwhile.
pub fn removal_refused(seen: Seen<'_>, status: EtcdBackupStatus, message: &str) -> Decision {
    at_later(seen, not_removed(status), Reason::WriteRefused, message, FIRST_MINUTES)
}

/// The gate refuses the removal in the status at the act, and its Job does not exist: it is not recorded any more, so that it holds up no
/// other one, and that who needs the object is asked again.
pub fn removal_held(status: EtcdBackupStatus) -> EtcdBackupStatus {
    not_removed(status)
}

/// The removal in the status has not begun, so nothing may be half gone. The first one is not counted then: who needs the object is asked
/// again. A later one counts, so that others come before it.
fn not_removed(mut status: EtcdBackupStatus) -> EtcdBackupStatus {
    if status.removals == 1 {
        status.removals = 0;
    }
    status
}

fn at_later(
    seen: Seen<'_>,
    mut status: EtcdBackupStatus,
    reason: Reason,
    message: &str,
    delay: Span,
) -> Decision {
    let next = seen.now + delay;
    status.next_attempt = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(timestamp(next)));
    let text = format!(
        "its object cannot be removed: {message}. It is tried again at {}. {}",
        timestamp(next),
        way_out()
    );
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
pub fn abandoned(backup: &EtcdBackup, how: &str) -> Explanation {
    let place = backup.spec.destination.url(&quorate_manifests::backup::key(backup));
    let text = format!("the EtcdBackup was deleted {how}, and {place} may still exist: remove it by hand");
    Explanation::new(Reason::ObjectAbandoned, text)
}
