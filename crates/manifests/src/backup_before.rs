//! The EtcdBackup that the operator takes by itself before an upgrade, or before the end of a cluster: its name, the object, and how far it
//! is. [`in_place`]: the one before a restore in place.

pub mod in_place;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::SignedDuration;
use quorate_api::backup::{
    BackupCondition, BackupPhase, BackupSource, Compression, DEFAULT_RETRIES, DeletionPolicy, EtcdBackupSpec,
    EtcdBackupStatus,
};
use quorate_api::cluster::{BackupBefore as Spec, DEFAULT_DELETION_DEADLINE, DEFAULT_UPGRADE_DEADLINE};
use quorate_api::{EtcdBackup, EtcdCluster, conditions, duration, keys};
use quorate_model::snapshot::{BackupBefore, BackupPurpose, BackupState};
use quorate_model::{ClusterId, Instant, Span, Version};

use crate::data_store;

/// How old a backup before an upgrade may be: it is one of before this upgrade, and not of before an earlier one to the same version.
const FRESH: Span = Span::seconds(24 * 3600);
/// How long ago the snapshot of a final backup may have begun when the members and their volumes go: clients write until then, and an operator
/// that was away in between comes back to a backup that lacks what they wrote. Longer than most snapshots, a few passes, and the stop of all
/// Pods take.
const FINAL_FRESH: Span = Span::seconds(30 * 60);
/// Two API servers may have clocks that differ by so much (as the operator's may differ from theirs).
const CLOCKS_DIFFER: SignedDuration = SignedDuration::from_secs(60);

/// The EtcdBackup that has to be read: its name. That of an upgrade only while one waits to be committed.
pub fn to_read(cluster: &EtcdCluster) -> Option<String> {
    let (_, before) = wanted(cluster, None)?;
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
    let (_, before) = wanted(cluster, None)?;
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
    let (_, before) = wanted(cluster, Some(now))?;
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
    let (Spec { destination, encryption, deadline, rate_limit, job_template }, before) =
        wanted(cluster, None)?;
    let spec = EtcdBackupSpec {
        destination: destination.clone(),
        encryption: encryption.clone(),
        deadline: deadline.clone().unwrap_or_else(|| default_deadline(before).to_owned()),
        rate_limit: rate_limit.clone(),
        job_template: crate::job::template_of_cluster(job_template.clone(), cluster).map(Box::new),
        ..EtcdBackupSpec::default()
    };
    Some(ordered(cluster, name(cluster, before), spec))
}

/// An EtcdBackup of this cluster that the operator orders: what its spec has beside is the same for all.
fn ordered(cluster: &EtcdCluster, name: String, spec: EtcdBackupSpec) -> EtcdBackup {
    let uid = cluster.metadata.uid.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: cluster.metadata.namespace.clone(),
        annotations: Some([(keys::CLUSTER_UID.to_owned(), uid)].into()),
        ..ObjectMeta::default()
    };
    let spec = EtcdBackupSpec {
        source: BackupSource { cluster: cluster.metadata.name.clone(), endpoints: None },
        deletion_policy: DeletionPolicy::Retain,
        retries: DEFAULT_RETRIES,
        ..spec
    };
    EtcdBackup { metadata, spec, status: None }
}

/// Whether an EtcdBackup is the one that was ordered, as far as data are concerned. Who may create EtcdBackups may create one of its name, too.
fn is_as_ordered(ordered: &EtcdBackup, given: &EtcdBackup) -> bool {
    let uid = |backup: &EtcdBackup| backup.metadata.annotations.as_ref()?.get(keys::CLUSTER_UID).cloned();
    // What may differ: an edit of the order, or of its cluster, does not make the data others.
    let of_data = |spec: &EtcdBackupSpec| EtcdBackupSpec {
        compression: Compression::default(),
        deadline: String::new(),
        rate_limit: None,
        retries: 0,
        job_template: None,
        ..spec.clone()
    };
    uid(given).is_some() && uid(given) == uid(ordered) && of_data(&ordered.spec) == of_data(&given.spec)
}

/// How far an EtcdBackup is that was ordered, for people.
enum Progress {
    Complete,
    Failed(String),
    Runs(String),
    Waits(String),
}

fn progress(name: &str, status: &EtcdBackupStatus) -> Progress {
    match status.phase {
        Some(BackupPhase::Complete) => Progress::Complete,
        Some(BackupPhase::Failed) => {
            Progress::Failed(format!("has failed{}", said(status, BackupCondition::Failed)))
        }
        Some(BackupPhase::Running) => {
            Progress::Runs(format!("EtcdBackup {name} runs{}", said(status, BackupCondition::Running)))
        }
        Some(BackupPhase::Pending | BackupPhase::Deleting) | None => {
            let why = said(status, BackupCondition::Pending);
            Progress::Waits(format!("EtcdBackup {name} has not begun{why}"))
        }
    }
}

/// What the spec asks for. Without the time, a deadline may be too late.
fn wanted(cluster: &EtcdCluster, now: Option<Instant>) -> Option<(&Spec, BackupPurpose)> {
    let Some(deleted) = data_store::ends_since(cluster, now) else {
        let spec = cluster.spec.upgrade.as_ref()?.backup_before.as_deref()?;
        let desired: Version = cluster.spec.version.parse().ok()?;
        return Some((spec, BackupPurpose::Upgrade(desired.line())));
    };
    let spec = cluster.spec.deletion.as_ref()?.final_backup.as_deref()?;
    let given = spec.deadline.as_deref().and_then(duration::seconds);
    let seconds = given.or_else(|| duration::seconds(DEFAULT_DELETION_DEADLINE))?;
    let until = Instant(deleted.as_millisecond()) + Span::seconds(seconds);
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
    if !is_after_the_order(cluster, backup, now) {
        return failed(
            "was created before the EtcdCluster was deleted, so what was written since would be missing in it",
        );
    }
    if !self::backup(cluster).is_some_and(|ordered| is_as_ordered(&ordered, backup)) {
        let field = field(before);
        return failed(&format!(
            "is not what {field} asks for: its source, its destination or its encryption"
        ));
    }
    let status = backup.status.clone().unwrap_or_default();
    match progress(&name, &status) {
        Progress::Complete => match present_id(cluster) {
            None => BackupState::Unknown(format!(
                "EtcdBackup {name} is complete, and status.clusterID is not recorded yet: it may be one of other data"
            )),
            Some(present) if taken_of(&status) != Some(present) => failed(&format!(
                "is not of the present data (cluster ID {present}), so what was written since they were replaced would be missing in it"
            )),
            Some(_) if is_fresh(&status, before, now) => BackupState::Complete,
            Some(_) => failed(match before {
                BackupPurpose::Upgrade(_) => {
                    "is more than a day old, so what was written since would be missing in it"
                }
                BackupPurpose::Deletion { .. } => {
                    "began more than 30 minutes ago, so what was written since would be missing in it"
                }
            }),
        },
        Progress::Failed(why) => failed(&why),
        Progress::Runs(what) | Progress::Waits(what) => BackupState::Pending(what),
    }
}

fn is_of(cluster: &EtcdCluster, backup: &EtcdBackup) -> bool {
    let annotations = backup.metadata.annotations.as_ref();
    let uid = annotations.and_then(|annotations| annotations.get(keys::CLUSTER_UID));
    uid.is_some()
        && uid == cluster.metadata.uid.as_ref()
        && backup.spec.source.cluster == cluster.metadata.name
}

/// Whether the API server stored a final backup after the deletion: whoever creates one beforehand, under the name that it will have, gives no
/// backup of what is written until then. Both times are the API server's.
fn is_after_the_order(cluster: &EtcdCluster, backup: &EtcdBackup, now: Instant) -> bool {
    let Some(deleted) = data_store::ends_since(cluster, Some(now)) else { return true };
    backup.metadata.creation_timestamp.as_ref().is_some_and(|created| created.0 + CLOCKS_DIFFER >= deleted)
}

/// The field that orders it.
fn field(before: BackupPurpose) -> &'static str {
    match before {
        BackupPurpose::Upgrade(_) => "spec.upgrade.backupBefore",
        BackupPurpose::Deletion { .. } => "spec.deletion.finalBackup",
    }
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
    let (limit, since) = match before {
        BackupPurpose::Upgrade(_) => {
            (FRESH, status.result.as_ref().and_then(|result| result.finished.as_ref()))
        }
        BackupPurpose::Deletion { .. } => {
            (FINAL_FRESH, status.result.as_ref().and_then(|result| result.started.as_ref()))
        }
    };
    since.is_some_and(|since| now - instant(status.seen_by_then(since)) <= limit)
}

/// When it was complete.
fn completed(status: &EtcdBackupStatus) -> Option<Instant> {
    status.completed().map(instant)
}

fn instant(time: &Time) -> Instant {
    Instant(time.0.as_millisecond())
}

/// When the operator saw that it was complete: by its own clock, whatever that of the Job's node is.
fn seen_complete(status: &EtcdBackupStatus) -> Option<Instant> {
    let finished = completed(status)?;
    let seen = conditions::find_true(&status.conditions, BackupCondition::Complete.as_str());
    Some(seen.map_or(finished, |seen| Instant(seen.last_transition_time.0.as_millisecond())))
}

/// The reason and the message of a condition that holds.
pub(crate) fn said(status: &EtcdBackupStatus, type_: BackupCondition) -> String {
    let holds = conditions::find_true(&status.conditions, type_.as_str());
    holds.map_or_else(String::new, |holds| format!(" ({}: {})", holds.reason, holds.message))
}
