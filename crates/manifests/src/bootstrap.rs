//! A bootstrap that begins with a snapshot: which one the spec means, how status records it, and what a member's Pod gets to restore it.

use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::SignedDuration;
use quorate_api::backup::{BackupPhase, EtcdBackup, ExistingObject};
use quorate_api::bootstrap::{DEFAULT_NOT_OLDER_THAN, RestoreSource, RestoreSpec, RestoreStatus};
use quorate_api::job::{
    CA_FILE, CREDENTIALS_DIR, FailureKind, IDENTITIES_DIR, ORDER, PVC_DIR, RestoreOrder, Source,
};
use quorate_api::latest::LatestStatus;
use quorate_api::{Destination, EtcdCluster, duration};
use quorate_model::Revision;
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use serde_json::{Value, json};

use crate::flags;
use crate::latest;
use crate::pod::Member;

/// What to do about a backup that cannot be restored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    /// Where it does not exist.
    pub(crate) absent: &'static str,
    /// Where another one has to be restored.
    pub(crate) other: &'static str,
}

/// For a cluster that is to begin with one.
const HINT: Hint = Hint {
    absent: "Create it, or delete this EtcdCluster",
    other: "Restore another one: delete this EtcdCluster first",
};

/// What the spec has the cluster begin with; `None`: with nothing.
pub type Resolved = Option<Result<Restore, RestoreFailure>>;

/// The EtcdBackup that has to be read before the cluster can begin: its name.
pub fn backup_to_read(cluster: &EtcdCluster) -> Option<&str> {
    let status = cluster.status.as_ref();
    let is_recorded = status.and_then(|status| status.bootstrap.as_ref()?.restore.as_ref()).is_some();
    let is_bootstrapped = status.is_some_and(|status| status.cluster_id.is_some());
    let backup = cluster.restore()?.backup_ref.as_ref()?;
    (!is_recorded && !is_bootstrapped).then_some(backup.name.as_str())
}

/// What the spec says by itself. A backup that it names has still to be read.
pub(crate) fn by_spec(cluster: &EtcdCluster) -> Resolved {
    let status = cluster.status.as_ref().and_then(|status| status.latest_backup.as_ref());
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    cluster.restore().map(|spec| Ok(bounded(cluster, by_itself(spec, status, namespace, HINT)?)))
}

/// The same, refused where it is older than the spec allows: who applies a manifest again gets no data of long ago by it. By the clock of the
/// API server alone, which has created both the EtcdCluster and, as its manifest says, the EtcdBackup.
fn bounded(cluster: &EtcdCluster, restore: Restore) -> Restore {
    let allowed = cluster.restore().and_then(|spec| duration::seconds(spec.not_older_than.as_ref()?));
    let allowed = i64::try_from(allowed.unwrap_or(DEFAULT_NOT_OLDER_THAN)).unwrap_or(i64::MAX);
    let created = cluster.metadata.creation_timestamp.as_ref();
    let before =
        created.and_then(|created| created.0.checked_sub(SignedDuration::from_secs(allowed)).ok().map(Time));
    match write(&restore) {
        Some(status) => read(&RestoreStatus { not_before: before, ..status }),
        None => restore,
    }
}

/// What a source says by itself, or the newest backup once it was found.
pub(crate) fn by_itself(
    spec: &RestoreSpec,
    status: Option<&LatestStatus>,
    namespace: &str,
    hint: Hint,
) -> Result<Restore, RestoreFailure> {
    match (&spec.source, &spec.backup_ref, &spec.latest) {
        (Some(source), None, None) => Ok(read(&RestoreStatus { source: source.clone(), ..recorded(spec) })),
        (None, None, Some(newest)) => {
            latest::found(newest, status, namespace, hint, recorded(spec)).map(|found| read(&found))
        }
        (None, Some(backup), None) => Err(not_ready(&backup.name, "is not read yet")),
        // An older definition may have admitted it.
        (_, _, _) => Err(RestoreFailure::new(
            RestoreCause::Refused,
            "a snapshot needs exactly one of backupRef, source and latest",
        )),
    }
}

/// What the spec says with the EtcdBackup that it names: `None` if that does not exist, an error if it could not be read.
pub fn by_backup(cluster: &EtcdCluster, backup: Result<Option<&EtcdBackup>, &str>) -> Resolved {
    let spec = cluster.restore()?;
    let name = &spec.backup_ref.as_ref()?.name;
    Some(of_backup(spec, name, backup, HINT).map(|restore| bounded(cluster, restore)))
}

/// What the spec says with the EtcdBackup that it names.
pub(crate) fn of_backup(
    spec: &RestoreSpec,
    name: &str,
    backup: Result<Option<&EtcdBackup>, &str>,
    hint: Hint,
) -> Result<Restore, RestoreFailure> {
    let backup = match backup {
        Ok(Some(backup)) => backup,
        Ok(None) => return Err(not_ready(name, &format!("does not exist. {}", hint.absent))),
        Err(why) => return Err(not_ready(name, &format!("could not be read: {why}"))),
    };
    let status = backup.status.clone().unwrap_or_default();
    let is_deleted = backup.metadata.deletion_timestamp.is_some();
    let result = match (status.phase, status.result) {
        // Its object stays until the restore is done, so the two would wait for each other. A removal that has begun is carried out.
        (_, Some(result)) if is_deleted && status.removals == 0 => result,
        (_, _) if is_deleted => {
            return Err(not_ready(name, &format!("is being deleted. {}", hint.other)));
        }
        (Some(BackupPhase::Complete), Some(result)) => result,
        (Some(BackupPhase::Failed), _) => {
            return Err(not_ready(name, &format!("has failed. {}", hint.other)));
        }
        (_, _) => return Err(not_ready(name, "is not complete yet")),
    };
    // One that an operator of before this field has taken for an order.
    let is_other = |existing: &ExistingObject| !existing.is(&result.key, &result.stored_sha256);
    if backup.spec.existing.as_ref().is_some_and(is_other) {
        let why = format!("stands for another object than the one in its status. {}", hint.other);
        return Err(not_ready(name, &why));
    }
    let destination = backup.spec.destination.clone();
    // That of a claim is an inode.
    let version_id = result.mark.and_then(|mark| mark.version_id).filter(|_| destination.pvc.is_none());
    let source = RestoreSource { destination, key: result.key, sha256: result.stored_sha256, version_id };
    Ok(read(&RestoreStatus {
        backup: Some(name.to_owned()),
        source,
        etcd_version: Some(result.etcd_version),
        snapshot_bytes: Some(result.snapshot_bytes),
        revision: Some(result.revision),
        ..recorded(spec)
    }))
}

fn not_ready(name: &str, why: &str) -> RestoreFailure {
    RestoreFailure::new(RestoreCause::NotReady, format!("EtcdBackup {name} {why}"))
}

fn recorded(spec: &RestoreSpec) -> RestoreStatus {
    RestoreStatus {
        bump_revision: spec.bump_revision,
        identities_secret: spec.identities_secret.as_ref().map(|secret| secret.name.clone()),
        ..RestoreStatus::default()
    }
}

/// The recorded snapshot.
pub(crate) fn read(status: &RestoreStatus) -> Restore {
    let RestoreStatus {
        source,
        bump_revision,
        least_revision,
        etcd_version,
        snapshot_bytes,
        revision,
        auth_enabled,
        ..
    } = status;
    Restore {
        content: serde_json::to_string(&RestoreStatus {
            bump_revision: 0,
            least_revision: 0,
            ..status.clone()
        })
        .expect("it is plain data"),
        url: source.destination.url(&source.key),
        version: etcd_version.as_deref().and_then(|version| version.parse().ok()),
        bytes: *snapshot_bytes,
        revision: revision.map(Revision),
        auth: *auth_enabled,
        bump: *bump_revision,
        floor: Revision(*least_revision),
    }
}

/// As status has it.
pub(crate) fn write(restore: &Restore) -> Option<RestoreStatus> {
    let status: RestoreStatus = serde_json::from_str(&restore.content).ok()?;
    Some(RestoreStatus { bump_revision: restore.bump, least_revision: restore.floor.0, ..status })
}

/// The order to the agent, for the environments of etcd's container and of the one that fetches.
pub(crate) fn order(member: &Member<'_>, restore: &Restore) -> Option<Value> {
    let Member { target, token, name, .. } = member;
    let RestoreStatus { source, bump_revision, least_revision, not_before, .. } = write(restore)?;
    let RestoreSource { destination, key, sha256, version_id } = source;
    let order = RestoreOrder {
        source: Source { destination, key, sha256: Some(sha256), version_id },
        name: name.as_str().to_owned(),
        initial_cluster: flags::initial_cluster(member),
        token: token.to_string(),
        peer_url: flags::peer_url(member),
        bump_revision,
        least_revision,
        // A quota below zero is no limit to etcd.
        quota_bytes: target.pod.quota.unwrap_or(i64::MAX.unsigned_abs()),
        not_before: not_before.map(|time| time.0.to_string()),
    };
    let order = serde_json::to_string(&order).expect("it is plain data");
    Some(json!({ "name": ORDER, "value": order }))
}

/// What the container that fetches mounts to reach the store: each volume with its mount. A Secret that does not exist does not keep the Pod from starting:
/// the agent then reports what is missing, and the kubelet nothing that status could show.
pub(crate) fn volumes(restore: &Restore) -> Vec<(Value, Value)> {
    let Some(RestoreStatus { source: RestoreSource { destination, .. }, identities_secret, .. }) =
        write(restore)
    else {
        return Vec::new();
    };
    let ca_dir = Path::new(CA_FILE).parent().and_then(Path::to_str).unwrap_or_default();
    let secrets = [
        ("store-credentials", destination.credentials_secret(), CREDENTIALS_DIR),
        ("store-ca", destination.ca_secret(), ca_dir),
        ("store-identities", identities_secret.as_deref(), IDENTITIES_DIR),
    ];
    let secrets = secrets.into_iter().filter_map(|(volume, secret, dir)| {
        let secret = json!({ "secretName": secret?, "defaultMode": 0o440, "optional": true });
        Some((json!({ "name": volume, "secret": secret }), mount(volume, dir)))
    });
    let Destination { pvc, .. } = &destination;
    let claim = pvc.iter().map(|pvc| {
        let claim = json!({ "claimName": pvc.claim_name, "readOnly": true });
        (json!({ "name": "store", "persistentVolumeClaim": claim }), mount("store", PVC_DIR))
    });
    secrets.chain(claim).collect()
}

fn mount(volume: &str, dir: &str) -> Value {
    json!({ "name": volume, "mountPath": dir, "readOnly": true })
}

/// What has to be done about a failure of the agent.
pub(crate) fn cause(kind: FailureKind) -> RestoreCause {
    match kind {
        FailureKind::NotInStore => RestoreCause::Gone,
        FailureKind::StoreForbidden => RestoreCause::Forbidden,
        FailureKind::Unfit | FailureKind::OrderRefused => RestoreCause::Refused,
        FailureKind::Stale => RestoreCause::Stale,
        FailureKind::NoSource
        | FailureKind::NoBackup
        | FailureKind::Ambiguous
        | FailureKind::SnapshotFailed
        | FailureKind::TooSlow
        | FailureKind::StoreUnavailable
        | FailureKind::Mismatch
        | FailureKind::CannotDecrypt
        | FailureKind::LimitTooLow
        | FailureKind::NotOurs
        | FailureKind::InUse
        | FailureKind::NoSpace => RestoreCause::Failed,
    }
}
