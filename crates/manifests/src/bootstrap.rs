//! A bootstrap that begins with a snapshot: which one the spec means, how status records it, and what a member's Pod gets to restore it.

use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::SignedDuration;
use quorate_api::backup::{
    BackupCondition, BackupPhase, EtcdBackup, EtcdBackupStatus, ExistingObject, FailedLook,
};
use quorate_api::bootstrap::{DEFAULT_NOT_OLDER_THAN, RestoreSource, RestoreSpec, RestoreStatus};
use quorate_api::job::{CA_FILE, CREDENTIALS_DIR, IDENTITIES_DIR, ORDER, PVC_DIR, RestoreOrder, Source};
use quorate_api::{Destination, EtcdCluster, Reason, duration};
use quorate_model::Revision;
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use serde_json::{Value, json};

use crate::flags;
use crate::pod::member::Member;
use crate::restored;

/// What to do about a backup that cannot be restored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    /// Where it does not exist.
    pub(crate) absent: &'static str,
    /// Where another one has to be restored.
    pub(crate) other: &'static str,
}

/// For a cluster that is to begin with one.
const HINT: Hint =
    Hint { absent: "Create it, or correct spec.bootstrap", other: "Name another one in spec.bootstrap" };

/// What the spec has the cluster begin with; `None`: with nothing.
pub type Resolved = Option<Result<Restore, RestoreFailure>>;

/// The EtcdBackup that has to be read before the cluster can begin: its name.
pub fn backup_to_read(cluster: &EtcdCluster) -> Option<String> {
    let status = cluster.status.as_ref();
    let is_recorded = status.and_then(|status| status.bootstrap.as_ref()?.restore.as_ref()).is_some();
    let is_bootstrapped = status.is_some_and(|status| status.cluster_id.is_some());
    let name = cluster.restore()?.backup_name(&cluster.metadata)?;
    (!is_recorded && !is_bootstrapped).then_some(name)
}

/// What the spec says while the EtcdBackup is not read.
pub(crate) fn by_spec(cluster: &EtcdCluster) -> Resolved {
    cluster.restore().map(|spec| Err(unread(spec, &cluster.metadata)))
}

/// Why nothing is known of what it restores before the EtcdBackup is read.
pub(crate) fn unread(spec: &RestoreSpec, meta: &ObjectMeta) -> RestoreFailure {
    match spec.backup_name(meta) {
        Some(name) => not_ready(&name, "is not read yet"),
        // An older definition may have admitted it.
        None => RestoreFailure::new(
            RestoreCause::Refused,
            "a snapshot needs exactly one of backupRef, source and latest",
        ),
    }
}

/// What the spec says with the EtcdBackup: `None` if that does not exist, an error if it could not be read. A snapshot that is older than the
/// spec allows is refused: who applies a manifest again gets no data of long ago by it. By the clock of the API server alone, which has created
/// both the EtcdCluster and, as its manifest says, the EtcdBackup.
pub fn by_backup(cluster: &EtcdCluster, backup: Result<Option<&EtcdBackup>, &str>) -> Resolved {
    let spec = cluster.restore()?;
    let allowed = spec.not_older_than.as_deref().and_then(duration::seconds);
    let allowed = i64::try_from(allowed.unwrap_or(DEFAULT_NOT_OLDER_THAN)).unwrap_or(i64::MAX);
    let created = cluster.metadata.creation_timestamp.as_ref();
    let not_before =
        created.and_then(|created| created.0.checked_sub(SignedDuration::from_secs(allowed)).ok().map(Time));
    let ordered = restored::for_cluster(cluster);
    let found = of_backup(spec, &cluster.metadata, ordered.as_ref(), backup, HINT);
    Some(found.map(|status| read(&RestoreStatus { not_before, ..status })))
}

/// What the spec says with the EtcdBackup that it names, or that the operator has `ordered` for it.
pub(crate) fn of_backup(
    spec: &RestoreSpec,
    meta: &ObjectMeta,
    ordered: Option<&EtcdBackup>,
    backup: Result<Option<&EtcdBackup>, &str>,
    hint: Hint,
) -> Result<RestoreStatus, RestoreFailure> {
    let name = spec.backup_name(meta).ok_or_else(|| unread(spec, meta))?;
    let refused = |why: &str| {
        RestoreFailure::new(RestoreCause::Refused, format!("EtcdBackup {name} {why}. {}", hint.other))
    };
    let backup = match (backup, ordered) {
        (Ok(Some(backup)), _) => backup,
        (Ok(None), None) => return Err(not_ready(&name, &format!("does not exist. {}", hint.absent))),
        (Ok(None), Some(_)) => {
            let why = not_ready(&name, "is created, and finds what is to be restored");
            return Err(RestoreFailure { lacks: Some(name), ..why });
        }
        (Err(why), _) => return Err(not_ready(&name, &format!("could not be read: {why}"))),
    };
    if ordered.is_some() && backup.spec.existing.is_none() {
        let why = format!(
            "lacks spec.existing: the CustomResourceDefinition of EtcdBackups is older than the operator. Apply the definitions of the operator's \
             release: kubectl apply --server-side --force-conflicts -f config/crd. Then: kubectl delete etcdbackup {name}, and another one follows"
        );
        return Err(not_ready(&name, &why));
    }
    if ordered.is_some_and(|ordered| !restored::is_as_ordered(ordered, backup)) {
        let why = format!(
            "is not what the spec asks for now: its owner, source, destination or existing object. After an edit of the spec: kubectl delete \
             etcdbackup {name}, and another one follows"
        );
        return Err(not_ready(&name, &why));
    }
    let status = backup.status.clone().unwrap_or_default();
    let is_deleted = backup.metadata.deletion_timestamp.is_some();
    let result = match (status.phase, status.result.clone()) {
        // Its object stays until the restore is done, so the two would wait for each other. A removal that has begun is carried out.
        (_, Some(result)) if is_deleted && status.removals == 0 => result,
        (_, _) if is_deleted && ordered.is_some() => {
            return Err(not_ready(&name, "is being deleted, and another one follows"));
        }
        (_, _) if is_deleted => {
            return Err(not_ready(&name, &format!("is being deleted. {}", hint.other)));
        }
        (Some(BackupPhase::Complete), Some(result)) => result,
        (Some(BackupPhase::Failed), _) => {
            let again = if ordered.is_some() { "Delete it, and another one follows" } else { hint.other };
            let why = status.why(BackupCondition::Failed);
            return Err(not_ready(&name, &format!("has failed{why}. {again}")));
        }
        (_, _) => return Err(not_complete(&name, &status, hint)),
    };
    // One that an operator of before this field has taken for an order.
    let existing = backup.spec.existing.as_ref();
    if existing.is_some_and(|existing| !existing.is(&result.key, &result.stored_sha256)) {
        return Err(refused("stands for another object than the one in its status"));
    }
    if result.encrypted && spec.identities_secret.is_none() {
        return Err(refused(
            "is encrypted, and identitiesSecret names no Secret with an age identity for it",
        ));
    }
    let destination = backup.spec.destination.clone();
    let given = existing.and_then(|existing| existing.version_id.clone());
    // What is named by its place means what the key has: the mark may be of another store, and to read a version takes a right of its own.
    let is_by_place = existing.is_some_and(ExistingObject::is_by_place);
    // That of a claim is an inode.
    let is_version = destination.pvc.is_none() && !is_by_place;
    let marked = result.mark.and_then(|mark| mark.version_id).filter(|_| is_version);
    let (key, sha256) = (result.key, result.stored_sha256);
    let source = RestoreSource { destination, key, sha256, version_id: given.or(marked) };
    // What no manifest tells is not known before it is read.
    Ok(RestoreStatus {
        backup: Some(name),
        source,
        bump_revision: spec.bump_revision,
        identities_secret: spec.identities_secret.as_ref().map(|secret| secret.name.clone()),
        etcd_version: Some(result.etcd_version).filter(|version| !version.is_empty()),
        snapshot_bytes: Some(result.snapshot_bytes).filter(|bytes| *bytes > 0),
        revision: Some(result.revision).filter(|revision| *revision > 0),
        ..RestoreStatus::default()
    })
}

/// Why it is not complete: what the last look for its object has come to, or what it does.
fn not_complete(name: &str, status: &EtcdBackupStatus, hint: Hint) -> RestoreFailure {
    let Some(FailedLook { reason, message }) = &status.failed_look else {
        let says = [BackupCondition::Running, BackupCondition::Pending].map(|one| status.why(one)).concat();
        return not_ready(name, &format!("is not complete yet{says}"));
    };
    let message = format!(
        "EtcdBackup {name} does not find what is to be restored: {}. It looks again by itself. {}",
        message.trim_end_matches('.'),
        hint.other
    );
    RestoreFailure::new(Reason::named(reason).map_or(RestoreCause::Failed, cause), message)
}

fn not_ready(name: &str, why: &str) -> RestoreFailure {
    RestoreFailure::new(RestoreCause::NotReady, format!("EtcdBackup {name} {why}"))
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
pub(crate) fn cause(reason: Reason) -> RestoreCause {
    match reason {
        Reason::NoBackupFound => RestoreCause::NothingFound,
        Reason::BackupAmbiguous => RestoreCause::Ambiguous,
        Reason::NotInStore => RestoreCause::Gone,
        Reason::StoreForbidden => RestoreCause::Forbidden,
        Reason::SnapshotIncompatible | Reason::OrderRefused => RestoreCause::Refused,
        Reason::RestoreStale => RestoreCause::Stale,
        _ => RestoreCause::Failed,
    }
}
