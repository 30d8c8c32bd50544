//! The EtcdBackup that the operator takes by itself before an upgrade, or before the end of a cluster: its name, the object, and how far it
//! is. [`in_place`]: the one before a restore in place.

pub mod in_place;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use quorate_api::backup::{
    BackupCondition, BackupPhase, BackupSource, Compression, DEFAULT_RETRIES, DeletionPolicy, EtcdBackupSpec,
    EtcdBackupStatus,
};
use quorate_api::cluster::{BackupBefore as Spec, DEFAULT_DELETION_DEADLINE, DEFAULT_UPGRADE_DEADLINE};
use quorate_api::{EtcdBackup, EtcdCluster, duration, keys};
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
    let (spec, before) = wanted(cluster, Some(now))?;
    let name = name(cluster, before);
    let state = match backup {
        Ok(None) => BackupState::Missing,
        Ok(Some(backup)) => state(cluster, &object(cluster, spec, before), backup, before, now),
        Err(why) => BackupState::Unknown(format!("EtcdBackup {name} could not be read: {why}")),
    };
    Some(BackupBefore { before, name, state })
}

/// The object as it is created.
pub(crate) fn backup(cluster: &EtcdCluster) -> Option<EtcdBackup> {
    wanted(cluster, None).map(|(spec, before)| object(cluster, spec, before))
}

/// It has no owner: it stays when the cluster is deleted.
fn object(cluster: &EtcdCluster, spec: &Spec, before: BackupPurpose) -> EtcdBackup {
    let Spec { destination, encryption, deadline, rate_limit, job_template } = spec;
    let spec = EtcdBackupSpec {
        destination: destination.clone(),
        encryption: encryption.clone(),
        deadline: deadline.clone().unwrap_or_else(|| default_deadline(before).to_owned()),
        rate_limit: rate_limit.clone(),
        job_template: crate::job::template_of_cluster(job_template.clone(), cluster).map(Box::new),
        ..EtcdBackupSpec::default()
    };
    ordered(cluster, name(cluster, before), spec)
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

/// What was ordered, by which an EtcdBackup of that name is judged: who may create EtcdBackups may create one of its name, too.
struct Order<'a> {
    /// The EtcdBackup as the operator creates it.
    object: &'a EtcdBackup,
    /// What asks for it.
    by: &'static str,
    /// What it comes after, and when that was. Whoever creates one beforehand, under the name that it will have, gives no backup of what is written
    /// until then.
    after: Option<(&'static str, Timestamp)>,
    /// The etcd cluster whose data are the present ones. A restore replaces it, and the uid of the EtcdCluster stays.
    present: Option<ClusterId>,
    /// How old a complete one is, if it is too old.
    too_old: &'a dyn Fn(&EtcdBackupStatus) -> Option<&'static str>,
    /// What can be done where it cannot be used.
    way_out: String,
}

impl Order<'_> {
    /// How far an EtcdBackup of this name is.
    fn judge(&self, given: &EtcdBackup) -> BackupState {
        let name = self.object.metadata.name.as_deref().unwrap_or_default();
        let text = |what: &str| format!("EtcdBackup {name} {what}");
        let failed = |why: &str| BackupState::Failed(text(why) + &self.way_out);
        let pending = |runs, what: &str| BackupState::Pending { runs, what: text(what) };
        let missing = "so what was written since would be missing in it";
        if given.metadata.deletion_timestamp.is_some() {
            return pending(false, "is being deleted, and another one follows");
        }
        let cluster = |backup: &EtcdBackup| {
            let uid = backup.metadata.annotations.as_ref()?.get(keys::CLUSTER_UID)?;
            Some((uid.clone(), backup.spec.source.cluster.clone()))
        };
        if cluster(given).is_none() || cluster(given) != cluster(self.object) {
            return failed("was not created for this EtcdCluster");
        }
        // Both times are the API server's.
        let created = given.metadata.creation_timestamp.as_ref();
        let is_late = |at| created.is_some_and(|created| created.0 + CLOCKS_DIFFER >= at);
        if let Some((what, _)) = self.after.filter(|(_, at)| !is_late(*at)) {
            return failed(&format!("was created before {what}, {missing}"));
        }
        if of_data(&self.object.spec) != of_data(&given.spec) {
            let by = self.by;
            return failed(&format!(
                "is not what {by} asks for: its source, its destination or its encryption"
            ));
        }
        let status = given.status.clone().unwrap_or_default();
        let said = |what: &str, type_| format!("{what}{}", status.why(type_));
        match status.phase {
            Some(BackupPhase::Failed) => failed(&said("has failed", BackupCondition::Failed)),
            Some(BackupPhase::Running) => pending(true, &said("runs", BackupCondition::Running)),
            Some(BackupPhase::Pending | BackupPhase::Deleting) | None => {
                pending(false, &said("has not begun", BackupCondition::Pending))
            }
            Some(BackupPhase::Complete) => match (self.present, (self.too_old)(&status)) {
                (None, _) => BackupState::Unknown(text(
                    "is complete, and status.clusterID is not recorded yet: it may be one of other data",
                )),
                (Some(present), _) if taken_of(&status) != Some(present) => failed(&format!(
                    "is not of the present data (cluster ID {present}), so what was written since they were replaced would be missing in it"
                )),
                (Some(_), Some(age)) => failed(&format!("{age}, {missing}")),
                (Some(_), None) => BackupState::Complete,
            },
        }
    }
}

/// The spec without what may differ: an edit of the order, or of its cluster, does not make the data others.
fn of_data(spec: &EtcdBackupSpec) -> EtcdBackupSpec {
    EtcdBackupSpec {
        compression: Compression::default(),
        deadline: String::new(),
        rate_limit: None,
        retries: 0,
        job_template: None,
        ..spec.clone()
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

fn state(
    cluster: &EtcdCluster,
    object: &EtcdBackup,
    given: &EtcdBackup,
    before: BackupPurpose,
    now: Instant,
) -> BackupState {
    let (by, way_out) = match before {
        BackupPurpose::Upgrade(_) => (
            "spec.upgrade.backupBefore",
            format!(
                ". Delete EtcdBackup {}, and another one is taken; or remove spec.upgrade.backupBefore to upgrade without a backup",
                name(cluster, before)
            ),
        ),
        BackupPurpose::Deletion { .. } => ("spec.deletion.finalBackup", String::new()),
    };
    let deleted = data_store::ends_since(cluster, Some(now));
    let after = deleted.map(|deleted| ("the EtcdCluster was deleted", deleted));
    let present = cluster.status.as_ref().and_then(|status| status.cluster_id.as_ref()?.parse().ok());
    Order { object, by, after, present, too_old: &|status| too_old(status, before, now), way_out }
        .judge(given)
}

/// The etcd cluster that a backup is of.
fn taken_of(status: &EtcdBackupStatus) -> Option<ClusterId> {
    status.result.as_ref()?.cluster_id.parse().ok()
}

/// How old a complete one is, if too much may have been written since.
fn too_old(status: &EtcdBackupStatus, before: BackupPurpose, now: Instant) -> Option<&'static str> {
    let result = status.result.as_ref();
    let (limit, since, age) = match before {
        BackupPurpose::Upgrade(_) => {
            (FRESH, result.and_then(|result| result.finished.as_ref()), "is more than a day old")
        }
        BackupPurpose::Deletion { .. } => {
            (FINAL_FRESH, result.and_then(|result| result.started.as_ref()), "began more than 30 minutes ago")
        }
    };
    let is_fresh = since.is_some_and(|since| now - instant(status.seen_by_then(since)) <= limit);
    (!is_fresh).then_some(age)
}

fn instant(time: &Time) -> Instant {
    Instant(time.0.as_millisecond())
}
