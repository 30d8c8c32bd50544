//! The EtcdBackup that stands for what a restore names by its place: an object, or the newest backup of a store. The operator creates it, and
//! all that restores reads it like one that a person created. It goes with the EtcdCluster or EtcdRestore that it is for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use quorate_api::backup::{BackupSource, DEFAULT_RETRIES, EtcdBackupSpec, ExistingObject, JobTemplate};
use quorate_api::bootstrap::{RestoreSource, RestoreSpec, SnapshotOf};
use quorate_api::latest::LatestBackup;
use quorate_api::{Destination, EtcdBackup, EtcdCluster, EtcdRestore, keys};

use crate::job::template::as_members;

/// How long it looks: a year. A person may mend the store, or a backup come into it, long after the restore was ordered.
const DEADLINE: &str = "8760h";

/// Whether an EtcdBackup was created for the object with this metadata.
pub fn is_owned_by(backup: &EtcdBackup, meta: &ObjectMeta) -> bool {
    let mut owners = backup.metadata.owner_references.iter().flatten();
    meta.uid.is_some() && owners.any(|owner| Some(&owner.uid) == meta.uid.as_ref())
}

/// That of an EtcdCluster; `None` if its spec names an EtcdBackup.
pub(crate) fn for_cluster(cluster: &EtcdCluster) -> Option<EtcdBackup> {
    ordered(
        cluster.restore()?,
        "EtcdCluster",
        &cluster.metadata,
        cluster.metadata.name.as_deref()?,
        Some(cluster),
    )
}

/// That of an EtcdRestore; `None` if its spec names an EtcdBackup. Without the EtcdCluster it lacks what its Jobs have of that.
pub fn for_restore(restore: &EtcdRestore, cluster: Option<&EtcdCluster>) -> Option<EtcdBackup> {
    let spec = &restore.spec;
    ordered(&spec.snapshot, "EtcdRestore", &restore.metadata, &spec.cluster_name, cluster)
}

/// Its Jobs run where and as the members of the EtcdCluster do, which read the object next.
fn ordered(
    spec: &RestoreSpec,
    kind: &str,
    meta: &ObjectMeta,
    cluster_name: &str,
    cluster: Option<&EtcdCluster>,
) -> Option<EtcdBackup> {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let (destination, existing) = stands_for(spec, namespace)?;
    let of = existing.latest.as_ref().map_or(existing.key.as_str(), |_| "latest").to_owned();
    let owner = OwnerReference {
        api_version: format!("{}/{}", keys::GROUP, keys::VERSION),
        kind: kind.to_owned(),
        name: meta.name.clone()?,
        uid: meta.uid.clone()?,
        controller: Some(true),
        block_owner_deletion: None,
    };
    let metadata = ObjectMeta {
        name: spec.backup_name(meta),
        namespace: meta.namespace.clone(),
        annotations: Some([(keys::EXISTING_OBJECT.to_owned(), of)].into()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let template = cluster.map(as_members).filter(|template| *template != JobTemplate::default());
    let spec = EtcdBackupSpec {
        source: BackupSource { cluster: Some(cluster_name.to_owned()), endpoints: None },
        existing: Some(existing),
        destination: destination.clone(),
        deadline: DEADLINE.to_owned(),
        retries: DEFAULT_RETRIES,
        job_template: template.map(Box::new),
        ..EtcdBackupSpec::default()
    };
    Some(EtcdBackup { metadata, spec, status: None })
}

/// The store, and what of it.
fn stands_for<'a>(spec: &'a RestoreSpec, namespace: &str) -> Option<(&'a Destination, ExistingObject)> {
    if let Some(RestoreSource { destination, key, sha256, version_id }) = &spec.source {
        let existing = ExistingObject {
            key: key.clone(),
            sha256: sha256.clone(),
            version_id: version_id.clone(),
            without_manifest: true,
            ..ExistingObject::default()
        };
        return Some((destination, existing));
    }
    let LatestBackup { destination, cluster, cluster_namespace, cluster_id, before, allow_unsigned } =
        spec.latest.as_ref()?;
    let of_namespace = || cluster_namespace.clone().unwrap_or_else(|| namespace.to_owned());
    let latest = SnapshotOf {
        cluster: cluster.clone(),
        cluster_namespace: cluster.as_ref().map(|_| of_namespace()),
        cluster_id: cluster_id.clone(),
    };
    let existing = ExistingObject {
        latest: Some(latest),
        // As the API server stores it: without a fraction of a second.
        before: before
            .as_ref()
            .and_then(|before| Timestamp::from_second(before.0.as_second()).ok())
            .map(Time),
        allow_unsigned: *allow_unsigned,
        ..ExistingObject::default()
    };
    Some((destination, existing))
}

/// Whether an EtcdBackup is the one that was ordered, as far as data are concerned: who may create EtcdBackups may create one of its name, too.
pub(crate) fn is_as_ordered(ordered: &EtcdBackup, given: &EtcdBackup) -> bool {
    let owner = |backup: &EtcdBackup| {
        let owners = backup.metadata.owner_references.as_ref()?;
        owners.first().map(|owner| owner.uid.clone())
    };
    let of_data =
        |spec: &EtcdBackupSpec| (spec.source.clone(), spec.existing.clone(), spec.destination.clone());
    owner(given) == owner(ordered) && of_data(&given.spec) == of_data(&ordered.spec)
}
