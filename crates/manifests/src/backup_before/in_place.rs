//! The EtcdBackup that comes before a restore in place, of the data that are given up: to where the snapshot is, and encrypted as it is.

use k8s_openapi::jiff::Timestamp;
use quorate_api::backup::{BackupCondition, EtcdBackupSpec, EtcdBackupStatus};
use quorate_api::restore::{DEFAULT_STARTING_DEADLINE, TakenBefore};
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, conditions, duration};
use quorate_model::snapshot::BackupState;
use quorate_model::{Instant, Span};

use super::{Order, instant};

/// For how long it counts once it is complete: at least.
const COUNTS_AT_LEAST: Span = Span::seconds(30 * 60);
/// At most: what was written since is not in it. A reading that is tried twice fits.
const COUNTS_AT_MOST: Span = Span::seconds(2 * 3600);

/// What the names of all of them begin with.
const PREFIX: &str = "before-restore-";

/// The name of the EtcdBackup that was ordered for an EtcdRestore as the first one, or as a later one.
pub fn name(restore_uid: &str, number: u32) -> String {
    match number {
        0 | 1 => format!("{PREFIX}{restore_uid}"),
        2.. => format!("{PREFIX}{restore_uid}-{number}"),
    }
}

/// Whether an EtcdBackup has one of these names.
pub fn has_name_for(backup: &EtcdBackup, restore_uid: &str) -> bool {
    let name = backup.metadata.name.as_deref().unwrap_or_default();
    let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(restore_uid));
    !restore_uid.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Whether an EtcdBackup has such a name, for whichever EtcdRestore.
pub fn has_name_for_any(backup: &EtcdBackup) -> bool {
    backup.metadata.name.as_deref().is_some_and(|name| name.starts_with(PREFIX))
}

/// Until when a complete one counts: half of the time within which the order has to begin, within bounds. So a reading that follows can
/// end before, if it could at all.
pub fn counts_until(restore: &EtcdRestore, taken: &TakenBefore) -> Option<Instant> {
    let counts = limit(restore).max(COUNTS_AT_LEAST).min(COUNTS_AT_MOST);
    taken.complete.as_ref().map(|complete| Instant(complete.0.as_millisecond()) + counts)
}

/// How long it may take: half of the time within which the order has to begin.
pub fn limit(restore: &EtcdRestore) -> Span {
    let given = duration::seconds(&restore.spec.starting_deadline);
    let seconds = given.or_else(|| duration::seconds(DEFAULT_STARTING_DEADLINE)).unwrap_or_default();
    Span(Span::seconds(seconds).0 / 2)
}

/// The object as it is created. It has no owner: it stays when the EtcdRestore is deleted. `named` is the EtcdBackup that is restored. It
/// has no bound on the reading, whatever `named` has: the order waits for it. The data of a cluster are never written to where another one's
/// backups are, which may be encrypted for others. An error: why none can be ordered, and what to do.
pub fn backup(
    restore: &EtcdRestore,
    cluster: &EtcdCluster,
    named: Option<&EtcdBackup>,
    is_of_other: bool,
    taken: &TakenBefore,
) -> Result<EtcdBackup, String> {
    if is_of_other {
        return Err(
            "the snapshot is of another cluster, and the present data are not backed up to where that one's backups are. If they are needed, take \
             a backup by an EtcdBackup of your own; then give the order again with spec.backupBefore: Never"
                .to_owned(),
        );
    }
    let Some(named) = named else {
        return Err("the EtcdBackup that is to be restored is gone. Create it again".to_owned());
    };
    if named.spec.existing.is_some() && may_be_encrypted(named, restore) {
        return Err(format!(
            "the snapshot may be encrypted, and EtcdBackup {}, which stands for an object that was there before it, does not tell to whom: a \
             backup of the present data would not be encrypted. If they are needed, take one by an EtcdBackup of your own, with \
             spec.encryption; then give the order again with spec.backupBefore: Never",
            named.metadata.name.as_deref().unwrap_or_default()
        ));
    }
    let EtcdBackupSpec { destination, encryption, job_template, .. } = named.spec.clone();
    let job_template = crate::job::template_of_cluster(job_template.map(|template| *template), cluster);
    let spec = EtcdBackupSpec {
        destination,
        encryption,
        deadline: format!("{}s", (limit(restore).0 / 1000).max(1)),
        without_quorum: taken.without_quorum,
        job_template: job_template.map(Box::new),
        ..EtcdBackupSpec::default()
    };
    Ok(super::ordered(cluster, taken.name.clone(), spec))
}

/// Whether the object of an EtcdBackup is encrypted, as far as that is known.
fn may_be_encrypted(backup: &EtcdBackup, restore: &EtcdRestore) -> bool {
    let result = backup.status.as_ref().and_then(|status| status.result.as_ref());
    restore.spec.snapshot.identities_secret.is_some() || result.is_none_or(|result| result.encrypted)
}

/// How far `given` is, which has the name of `object`. How long it counts is told by [`counts_until`].
pub fn state(restore: &EtcdRestore, object: &EtcdBackup, given: &EtcdBackup) -> BackupState {
    let ordered = restore.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |created| created.0);
    let after = Some(("the EtcdRestore was", ordered));
    let present = restore.spec.cluster_id.parse().ok();
    // How long it counts is told by the time at which it was complete.
    let is_dated = seen_complete(given).is_some();
    let too_old = |_: &EtcdBackupStatus| (!is_dated).then_some("does not say when it was complete");
    Order { object, by: "the EtcdRestore", after, present, too_old: &too_old, way_out: String::new() }
        .judge(given)
}

/// When the operator saw that one is complete: by its own clock, whatever that of the Job's node is.
pub fn seen_complete(backup: &EtcdBackup) -> Option<Instant> {
    let status = backup.status.as_ref()?;
    let seen = conditions::find_true(&status.conditions, BackupCondition::Complete.as_str());
    seen.map(|seen| &seen.last_transition_time).or(status.completed()).map(instant)
}
