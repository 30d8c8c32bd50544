//! The data that are given up are backed up before any member is stopped. It is ordered when the EtcdCluster asks for it: nothing else
//! holds the order up then. A cluster that has no quorum, which is what a restore in place often mends, is backed up from the member that
//! has most. Each EtcdBackup is recorded before it is created.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use quorate_api::restore::{BackupBefore, EtcdRestoreStatus, RestorePhase, TakenBefore};
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, Explanation, Reason, conditions};
use quorate_manifests::backup_before::in_place;
use quorate_manifests::record;
use quorate_model::Instant;
use quorate_model::snapshot::BackupState;

use super::backups::Quorum;
use super::decide::Seen;
use super::reading::NextAct;
use super::whose;
use crate::ready;
use crate::time::timestamp;

/// What is next, and why the order is pending for it.
pub(crate) fn decide(
    seen: &Seen<'_>,
    cluster: &EtcdCluster,
    status: &mut EtcdRestoreStatus,
) -> (NextAct, Explanation) {
    let before = status.backup_before.take().filter(|taken| counts(seen, taken));
    let number = status_number(seen);
    let mut taken =
        before.unwrap_or_else(|| ordered(seen, number.saturating_add(1), has_no_quorum(seen, cluster)));
    let is_of_other = status.snapshot.as_ref().is_some_and(|read| whose::is_of_other(cluster, read));
    let (then, why) = go_on(seen, cluster, is_of_other, &mut taken);
    status.backup_before = Some(taken);
    (then, why)
}

/// The API server refuses the EtcdBackup that is recorded.
pub fn backup_refused(restore: &EtcdRestore, status: &mut EtcdRestoreStatus, text: &str) {
    if let Some(taken) = &mut status.backup_before {
        let text = format!("the API server refuses EtcdBackup {}: {text}", taken.name);
        match restore.spec.backup_before {
            BackupBefore::IfPossible => taken.missing = Some(text),
            BackupBefore::Required | BackupBefore::Never => taken.refused = Some(text),
        }
    }
}

/// What was recorded of the backup was not stored, so nothing is ordered: the next pass would know nothing of it. What is reported instead.
pub fn backup_not_stored(restore: &EtcdRestore, stored: &mut EtcdRestoreStatus, now: Instant) -> Explanation {
    let text = "the API server does not store status.backupBefore: the CustomResourceDefinition of EtcdRestores is older than the operator, or \
                another program's. No member is stopped, and no backup is ordered. Apply the definitions of the operator's release: \
                kubectl apply --server-side --force-conflicts -f config/crd";
    let why = Explanation::new(Reason::CrdTooOld, text);
    let (pending, generation) = (RestorePhase::Pending.as_str(), restore.metadata.generation);
    conditions::set(&mut stored.conditions, pending, true, &why, generation, timestamp(now));
    ready::restore(restore, stored, now);
    why
}

fn go_on(
    seen: &Seen<'_>,
    cluster: &EtcdCluster,
    is_of_other: bool,
    taken: &mut TakenBefore,
) -> (NextAct, Explanation) {
    let name = &seen.restore.spec.cluster_name;
    if let Some(why) = &taken.missing {
        return (NextAct::Wait, without(why));
    }
    if taken.complete.is_some() {
        let text = format!(
            "EtcdBackup {} is complete, and EtcdCluster {name} takes the order up with its next look at it",
            taken.name
        );
        return (NextAct::Wait, Explanation::new(Reason::RestoreBackupFirst, text));
    }
    let object =
        |taken: &TakenBefore| in_place::backup(seen.restore, cluster, named(seen), is_of_other, taken);
    let asked = match object(taken) {
        Ok(asked) => asked,
        Err(why) => {
            taken.refused = Some(why.clone());
            return (NextAct::Wait, failed(seen, taken, &why, None));
        }
    };
    let given = found(seen, &taken.name);
    let state = given.map_or(BackupState::Missing, |given| in_place::state(seen.restore, &asked, given));
    let is_stuck = match &state {
        BackupState::Missing | BackupState::Complete => false,
        BackupState::Pending { runs, .. } => !runs,
        BackupState::Unknown(_) | BackupState::Failed(_) => true,
    };
    if given.is_some() {
        taken.refused = None;
    }
    if is_stuck && !taken.without_quorum && has_no_quorum(seen, cluster) {
        // The quorum was lost since. The other one goes on waiting, and is never completed from the new data.
        *taken = ordered(seen, taken.number.saturating_add(1), true);
        let why = first(
            seen,
            &format!("no quorum answers, so EtcdBackup {} is taken of what one member has", taken.name),
        );
        let then = object(taken).map_or(NextAct::Wait, |object| NextAct::Backup(Box::new(object)));
        return (then, why);
    }
    match state {
        // Recorded and not created, or deleted by a person, so that another one is taken. Its name lets it exist once.
        BackupState::Missing => {
            let why = match taken.refused.clone() {
                Some(why) => failed(seen, taken, &why, None),
                None => first(seen, &format!("EtcdBackup {} is created", taken.name)),
            };
            (NextAct::Backup(Box::new(asked)), why)
        }
        BackupState::Complete => {
            let at = given.and_then(in_place::seen_complete);
            taken.complete = at.map(|at| Time(timestamp(at.min(seen.now))));
            let text = format!("EtcdBackup {} is complete", taken.name);
            (NextAct::Wait, Explanation::new(Reason::RestoreBackupFirst, text))
        }
        BackupState::Unknown(why) | BackupState::Failed(why) => {
            let again = taken.name.clone();
            (NextAct::Wait, failed(seen, taken, &why, Some(&again)))
        }
        BackupState::Pending { what, .. } => {
            let since = given.and_then(|given| given.metadata.creation_timestamp.as_ref());
            let until = since.map(|since| Instant(since.0.as_millisecond()) + in_place::limit(seen.restore));
            let is_late = until.is_some_and(|until| seen.now >= until);
            if is_late && seen.restore.spec.backup_before == BackupBefore::IfPossible {
                let minutes = in_place::limit(seen.restore).0 / 60_000;
                let why = format!("it was not complete within {minutes} minutes: {what}");
                return (NextAct::Wait, failed(seen, taken, &why, None));
            }
            (NextAct::Wait, first(seen, &what))
        }
    }
}

/// It has failed: an order that can do without it goes on.
fn failed(seen: &Seen<'_>, taken: &mut TakenBefore, why: &str, again: Option<&str>) -> Explanation {
    match seen.restore.spec.backup_before {
        BackupBefore::IfPossible => {
            taken.missing = Some(why.to_owned());
            without(why)
        }
        BackupBefore::Required | BackupBefore::Never => {
            let again = again.map_or_else(String::new, |name| {
                format!("Mend that and delete EtcdBackup {name}, and another one is taken. ")
            });
            let why = why.trim_end_matches('.');
            let text = format!(
                "the data that are given up cannot be backed up, so no member is stopped: {why}. {again}{}",
                way_out(seen)
            );
            Explanation::new(Reason::RestoreBackupFailed, text)
        }
    }
}

fn without(why: &str) -> Explanation {
    let text = format!(
        "it begins without a backup of the data that are given up (spec.backupBefore: IfPossible): {}. The volumes of the members are kept \
         for spec.recovery.keepVolumes of the EtcdCluster",
        why.trim_end_matches('.')
    );
    Explanation::new(Reason::RestoreBackupFailed, text)
}

fn first(seen: &Seen<'_>, what: &str) -> Explanation {
    let what = what.trim_end_matches('.');
    let out = match seen.restore.spec.backup_before {
        BackupBefore::IfPossible => {
            let minutes = in_place::limit(seen.restore).0 / 60_000;
            format!("It begins without, {minutes} minutes after the EtcdBackup was created")
        }
        BackupBefore::Required | BackupBefore::Never => way_out(seen),
    };
    let text =
        format!("the data that are given up are backed up before any member is stopped: {what}. {out}");
    Explanation::new(Reason::RestoreBackupFirst, text)
}

/// How to do without. The spec is immutable, so the order is deleted and created again.
fn way_out(seen: &Seen<'_>) -> String {
    let metadata = &seen.restore.metadata;
    format!(
        "To restore without that backup: kubectl patch etcdrestore {name} -n {namespace} --type=merge -p \
         '{{\"spec\":{{\"backupBefore\":\"Never\"}}}}' --dry-run=client -o yaml | kubectl replace --force -f - (this deletes the EtcdRestore and \
         creates it again; the volumes of the present members are kept for spec.recovery.keepVolumes of the EtcdCluster)",
        name = metadata.name.as_deref().unwrap_or_default(),
        namespace = metadata.namespace.as_deref().unwrap_or_default(),
    )
}

/// Whether what was ordered is under way, or counts still.
fn counts(seen: &Seen<'_>, taken: &TakenBefore) -> bool {
    in_place::counts_until(seen.restore, taken).is_none_or(|until| seen.now < until)
}

/// The EtcdBackup whose object is restored: it tells to whom the backup is encrypted. One that stands for an object does not tell that; the one
/// that wrote the object does, if it is still here.
fn named<'a>(seen: &Seen<'a>) -> Option<&'a EtcdBackup> {
    let named = seen.backup?;
    let object = |backup: &EtcdBackup| Some(backup.status.as_ref()?.result.as_ref()?.stored_sha256.clone());
    let wrote_it = |backup: &&EtcdBackup| {
        backup.spec.existing.is_none()
            && backup.spec.destination.is_same_place(&named.spec.destination)
            && object(backup).is_some()
            && object(backup) == object(named)
    };
    // One that is not encrypted does not tell to whom where identities are given.
    let tells = |backup: &&EtcdBackup| {
        backup.spec.encryption.is_some() || seen.restore.spec.snapshot.identities_secret.is_none()
    };
    let writer = || seen.backups.iter().copied().find(wrote_it).filter(tells);
    Some(named).filter(|named| named.spec.existing.is_none()).or_else(writer).or(Some(named))
}

/// How many were ordered.
fn status_number(seen: &Seen<'_>) -> u32 {
    let status = seen.restore.status.as_ref();
    status.and_then(|status| status.backup_before.as_ref()).map_or(0, |taken| taken.number)
}

fn ordered(seen: &Seen<'_>, number: u32, without_quorum: bool) -> TakenBefore {
    TakenBefore { name: in_place::name(seen.uid(), number), number, without_quorum, ..TakenBefore::default() }
}

/// Whether a backup that needs a quorum would not begin: what the restore is for, often.
fn has_no_quorum(seen: &Seen<'_>, cluster: &EtcdCluster) -> bool {
    let status = cluster.status.as_ref();
    status.is_some_and(|status| {
        Quorum::of(status, seen.now) == Quorum::Lost || record::from_status(status).is_undecided()
    })
}

fn found<'a>(seen: &Seen<'a>, name: &str) -> Option<&'a EtcdBackup> {
    seen.backups.iter().copied().find(|backup| backup.metadata.name.as_deref() == Some(name))
}
