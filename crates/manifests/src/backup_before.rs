//! The EtcdBackup that the operator takes by itself before an upgrade, or before the end of a cluster: its name, the object, and how far it
//! is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::backup::{
    BackupCondition, BackupPhase, BackupSource, Compression, DEFAULT_RETRIES, DeletionPolicy, EtcdBackupSpec,
    EtcdBackupStatus,
};
use quorate_api::cluster::{BackupBefore as Spec, DEFAULT_DELETION_DEADLINE, DEFAULT_UPGRADE_DEADLINE};
use quorate_api::{EtcdBackup, EtcdCluster, duration, keys};
use quorate_model::snapshot::{BackupBefore, BackupPurpose, BackupState};
use quorate_model::{ClusterId, Instant, Span, Version};

/// How old a backup before an upgrade may be: it is one of before this upgrade, and not of before an earlier one to the same version.
const FRESH: Span = Span::seconds(24 * 3600);

/// The EtcdBackup that has to be read: its name. That of an upgrade only while one waits to be committed.
pub fn to_read(cluster: &EtcdCluster) -> Option<String> {
    let (_, before) = wanted(cluster)?;
    let is_due = match before {
        BackupPurpose::Deletion { .. } => true,
        BackupPurpose::Upgrade(to) => {
            let status = cluster.status.as_ref()?;
            let committed: Version = status.target.as_ref()?.version.parse().ok()?;
            status.cluster_id.is_some() && committed.line() < to
        }
    };
    is_due.then(|| name(cluster, before))
}

/// What is known before it is read.
pub(crate) fn unread(cluster: &EtcdCluster) -> Option<BackupBefore> {
    let (_, before) = wanted(cluster)?;
    let name = name(cluster, before);
    let state = BackupState::Unknown(format!("EtcdBackup {name} is not read yet"));
    Some(BackupBefore { before, name, state })
}

/// What is known once it was read: `None` if it does not exist, an error if it could not be read.
pub fn read(
    cluster: &EtcdCluster,
    backup: Result<Option<&EtcdBackup>, &str>,
    now: Instant,
) -> Option<BackupBefore> {
    let (_, before) = wanted(cluster)?;
    let name = name(cluster, before);
    let state = match backup {
        Ok(None) => BackupState::Missing,
        Ok(Some(backup)) => state(cluster, backup, before, now),
        Err(why) => BackupState::Unknown(format!("EtcdBackup {name} could not be read: {why}")),
    };
    Some(BackupBefore { before, name, state })
}

/// The object as it is created. It has no owner: it stays when the cluster is deleted.
pub(crate) fn backup(cluster: &EtcdCluster) -> Option<EtcdBackup> {
    let (Spec { destination, encryption, deadline, job_template }, before) = wanted(cluster)?;
    let spec = EtcdBackupSpec {
        source: BackupSource { cluster: cluster.metadata.name.clone(), endpoints: None },
        destination: destination.clone(),
        compression: Compression::default(),
        encryption: encryption.clone(),
        deletion_policy: DeletionPolicy::Retain,
        deadline: deadline.clone().unwrap_or_else(|| default_deadline(before).to_owned()),
        retries: DEFAULT_RETRIES,
        without_quorum: false,
        job_template: job_template.clone(),
    };
    let uid = cluster.metadata.uid.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(name(cluster, before)),
        namespace: cluster.metadata.namespace.clone(),
        annotations: Some([(keys::CLUSTER_UID.to_owned(), uid)].into()),
        ..ObjectMeta::default()
    };
    Some(EtcdBackup { metadata, spec, status: None })
}

/// What the spec asks for.
fn wanted(cluster: &EtcdCluster) -> Option<(&Spec, BackupPurpose)> {
    let Some(deleted) = &cluster.metadata.deletion_timestamp else {
        let spec = cluster.spec.upgrade.as_ref()?.backup_before.as_deref()?;
        let desired: Version = cluster.spec.version.parse().ok()?;
        return Some((spec, BackupPurpose::Upgrade(desired.line())));
    };
    let spec = cluster.spec.deletion.as_ref()?.final_backup.as_deref()?;
    let given = spec.deadline.as_deref().and_then(duration::seconds);
    let seconds = given.or_else(|| duration::seconds(DEFAULT_DELETION_DEADLINE))?;
    let until = Instant(deleted.0.as_millisecond()) + Span::seconds(seconds);
    Some((spec, BackupPurpose::Deletion { until }))
}

/// Another EtcdCluster of the same name has another uid, and so other backups.
fn name(cluster: &EtcdCluster, before: BackupPurpose) -> String {
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    match before {
        BackupPurpose::Upgrade(to) => format!("before-{to}-{uid}"),
        BackupPurpose::Deletion { .. } => format!("final-{uid}"),
    }
}

fn default_deadline(before: BackupPurpose) -> &'static str {
    match before {
        BackupPurpose::Upgrade(_) => DEFAULT_UPGRADE_DEADLINE,
        BackupPurpose::Deletion { .. } => DEFAULT_DELETION_DEADLINE,
    }
}

fn state(cluster: &EtcdCluster, backup: &EtcdBackup, before: BackupPurpose, now: Instant) -> BackupState {
    let name = name(cluster, before);
    let way_out = match before {
        BackupPurpose::Upgrade(_) => format!(
            ". Delete EtcdBackup {name}, and another one is taken; or remove spec.upgrade.backupBefore to upgrade without a backup"
        ),
        BackupPurpose::Deletion { .. } => String::new(),
    };
    let failed = |why: &str| BackupState::Failed(format!("EtcdBackup {name} {why}{way_out}"));
    if backup.metadata.deletion_timestamp.is_some() {
        return BackupState::Pending(format!("EtcdBackup {name} is being deleted, and another one follows"));
    }
    if !is_of(cluster, backup) {
        return failed("was not created for this EtcdCluster");
    }
    let status = backup.status.clone().unwrap_or_default();
    match status.phase {
        Some(BackupPhase::Complete) => match present_id(cluster) {
            None => BackupState::Unknown(format!(
                "EtcdBackup {name} is complete, and status.clusterID is not recorded yet: it may be one of other data"
            )),
            Some(present) if taken_of(&status) != Some(present) => failed(&format!(
                "is not of the present data (cluster ID {present}), so what was written since they were replaced would be missing in it"
            )),
            Some(_) if is_fresh(&status, before, now) => BackupState::Complete,
            Some(_) => failed("is more than a day old, so what was written since would be missing in it"),
        },
        Some(BackupPhase::Failed) => failed(&format!("has failed{}", said(&status, BackupCondition::Failed))),
        Some(BackupPhase::Running) => {
            BackupState::Pending(format!("EtcdBackup {name} runs{}", said(&status, BackupCondition::Running)))
        }
        Some(BackupPhase::Pending | BackupPhase::Deleting) | None => {
            let why = said(&status, BackupCondition::Pending);
            BackupState::Pending(format!("EtcdBackup {name} has not begun{why}"))
        }
    }
}

fn is_of(cluster: &EtcdCluster, backup: &EtcdBackup) -> bool {
    let annotations = backup.metadata.annotations.as_ref();
    let uid = annotations.and_then(|annotations| annotations.get(keys::CLUSTER_UID));
    uid.is_some()
        && uid == cluster.metadata.uid.as_ref()
        && backup.spec.source.cluster == cluster.metadata.name
}

/// The etcd cluster whose data the EtcdCluster has now. A restore replaces it, and the uid of the EtcdCluster stays.
fn present_id(cluster: &EtcdCluster) -> Option<ClusterId> {
    cluster.status.as_ref()?.cluster_id.as_ref()?.parse().ok()
}

/// The etcd cluster that a backup is of.
fn taken_of(status: &EtcdBackupStatus) -> Option<ClusterId> {
    status.result.as_ref()?.cluster_id.parse().ok()
}

fn is_fresh(status: &EtcdBackupStatus, before: BackupPurpose, now: Instant) -> bool {
    let finished = status.result.as_ref().and_then(|result| result.finished.as_ref());
    match before {
        BackupPurpose::Upgrade(_) => finished.is_some_and(|at| now - Instant(at.0.as_millisecond()) <= FRESH),
        BackupPurpose::Deletion { .. } => true,
    }
}

/// The reason and the message of a condition that holds.
fn said(status: &EtcdBackupStatus, type_: BackupCondition) -> String {
    let mut conditions = status.conditions.iter();
    let holds = conditions.find(|condition| condition.type_ == type_.as_str() && condition.status == "True");
    holds.map_or_else(String::new, |holds| format!(" ({}: {})", holds.reason, holds.message))
}
