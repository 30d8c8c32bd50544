//! What Jobs are ordered to do for an EtcdBackup: orders from its spec and from the status of its cluster.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::backup::{BackupResult, BackupSource, Compression, Endpoints};
use quorate_api::bootstrap::SnapshotOf;
use quorate_api::cluster::TlsProvider;
use quorate_api::job::{
    BackupOrder, ClusterName, FindOrder, InspectOrder, LookOrder, Origin, RemoveOrder, SIGNING_KEY,
    SIGNING_KEY_BYTES, SIGNING_SECRET, Source, SourceEndpoint, StoredObject, VerifyOrder,
};
use quorate_api::status::Role;
use quorate_api::{EtcdBackup, EtcdCluster, keys, quantity};
use quorate_model::{ClusterRef, Leaf, MemberName};
use serde_json::{Value, json};

use crate::certificate::Certificate;
use crate::flags;
use crate::record;
use crate::service::CLIENT_PORT;
use crate::template::Template;

const MIB: u64 = 1 << 20;

/// What the trial etcd of a restore test has beside its database, in bytes: two files of its log of 64 MiB each, and what small file systems
/// keep for themselves.
const BESIDE_DATABASES: u64 = 512 * MIB;

/// The etcd that a backup is of, as it is now.
#[derive(Clone, Copy, Debug)]
pub enum Of<'a> {
    /// An EtcdCluster.
    Cluster(&'a EtcdCluster),
    /// Another etcd.
    Endpoints(&'a Endpoints),
}

/// The key of the object, without the prefix of the destination. It depends on nothing but the object, so that each attempt and the
/// removal have the same, and no two EtcdBackups ever share one.
pub fn key(backup: &EtcdBackup) -> String {
    let namespace = backup.metadata.namespace.as_deref().unwrap_or_default();
    let name = backup.metadata.name.as_deref().unwrap_or_default();
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    let BackupSource { cluster, endpoints: _ } = &backup.spec.source;
    let of = cluster.as_deref().unwrap_or("external");
    let compressed = match backup.spec.compression {
        Compression::Zstd => ".zst",
        Compression::None => "",
    };
    let encrypted = if backup.spec.encryption.is_some() { ".age" } else { "" };
    format!("{namespace}/{of}/{name}-{uid}.db{compressed}{encrypted}")
}

/// The order to take a backup. `None` if the cluster has no voter that could give one.
pub fn backup_order(backup: &EtcdBackup, of: Of<'_>) -> Option<BackupOrder> {
    let (endpoints, tls) = match of {
        Of::Cluster(cluster) => (members(cluster, backup.spec.without_quorum), has_tls(cluster)),
        Of::Endpoints(endpoints) => {
            let url = |url: &String| SourceEndpoint { member: url.clone(), url: url.clone() };
            (endpoints.urls.iter().map(url).collect(), endpoints.tls_secret.is_some())
        }
    };
    let spec = &backup.spec;
    let order = BackupOrder {
        destination: spec.destination.clone(),
        key: key(backup),
        endpoints,
        tls,
        origin: origin(backup, of),
        ordered: backup.metadata.creation_timestamp.as_ref().map(|created| created.0.to_string()),
        min_revision: None,
        without_quorum: spec.without_quorum,
        compress: spec.compression == Compression::Zstd,
        recipients: spec.encryption.as_ref().map(|to| to.recipients.clone()).unwrap_or_default(),
        spool: backup.status.as_ref().is_some_and(|status| status.scratch_bytes.is_some()),
        quota_bytes: match of {
            Of::Cluster(cluster) => quota(cluster),
            Of::Endpoints(_) => None,
        },
        rate_limit: spec.rate_limit.as_ref().and_then(quantity::bytes),
        seconds: None,
    };
    (!order.endpoints.is_empty()).then_some(order)
}

/// The key of the object that an EtcdBackup stands for: that which it writes, or the one that was there before. Empty while that is not found.
pub fn object_key(backup: &EtcdBackup) -> String {
    let found =
        || backup.status.as_ref().and_then(|status| status.result.as_ref()).map(|found| found.key.clone());
    match &backup.spec.existing {
        None => key(backup),
        Some(existing) if existing.latest.is_some() => found().unwrap_or_default(),
        Some(existing) => existing.key.clone(),
    }
}

/// The order to remove the object of a backup.
pub fn remove_order(backup: &EtcdBackup) -> RemoveOrder {
    RemoveOrder {
        destination: backup.spec.destination.clone(),
        key: key(backup),
        backup_uid: backup.metadata.uid.clone().unwrap_or_default(),
    }
}

/// What is asked about the object of an EtcdBackup that stands for an existing one.
#[derive(Clone, Debug, PartialEq)]
pub enum ExistingOrder {
    /// Whether that of a key is there.
    Inspect(InspectOrder),
    /// Which is the newest of a cluster.
    Find(FindOrder),
}

/// The order to see the object of an EtcdBackup that stands for an existing one. `None` if it does not, or names no EtcdCluster.
pub fn existing_order(backup: &EtcdBackup) -> Option<ExistingOrder> {
    let existing = backup.spec.existing.as_ref()?;
    let source = backup.spec.source.cluster.as_ref()?;
    let destination = backup.spec.destination.clone();
    let allow_unsigned = existing.allow_unsigned;
    let Some(SnapshotOf { cluster, cluster_namespace, cluster_id }) = existing.latest.clone() else {
        return Some(ExistingOrder::Inspect(InspectOrder {
            destination,
            key: existing.key.clone(),
            sha256: existing.sha256.clone(),
            version_id: existing.version_id.clone(),
            cluster: (!existing.without_manifest).then(|| source.clone()),
            allow_unsigned,
        }));
    };
    let namespace = cluster_namespace.or_else(|| backup.metadata.namespace.clone()).unwrap_or_default();
    Some(ExistingOrder::Find(FindOrder {
        destination,
        cluster: cluster.map(|name| ClusterName { namespace, name }),
        cluster_id,
        before: existing.before.as_ref().map(|before| before.0.to_string()),
        allow_unsigned,
    }))
}

/// The Secret of a namespace with a key that signs the manifests of its backups. It belongs to nobody: the backups outlive who took them.
pub fn signing_secret(namespace: &str, key: [u8; SIGNING_KEY_BYTES]) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(SIGNING_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(keys::MANAGED_BY.to_owned(), keys::MANAGED_BY_VALUE.to_owned())].into()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some([(SIGNING_KEY.to_owned(), ByteString(key.to_vec()))].into()),
        ..Secret::default()
    }
}

/// The order to look for the objects of backups, which all have the destination of the first. Those of the backups in `read` are read to
/// their end. `None` if none of them is complete.
pub fn look_order(backups: &[&EtcdBackup], read: &[String]) -> Option<LookOrder> {
    let object = |backup: &&EtcdBackup| {
        let status = backup.status.as_ref()?;
        let (result, name) = (status.result.as_ref()?, backup.metadata.name.clone()?);
        let last = status.last_look.as_ref().and_then(|look| look.mark.clone());
        Some(StoredObject {
            read: read.contains(&name),
            backup: name,
            key: result.key.clone(),
            bytes: result.stored_bytes,
            sha256: result.stored_sha256.clone(),
            mark: last.or_else(|| result.mark.clone()),
        })
    };
    let objects: Vec<StoredObject> = backups.iter().filter_map(object).collect();
    let destination = backups.first()?.spec.destination.clone();
    (!objects.is_empty()).then_some(LookOrder { destination, objects })
}

/// The order of a restore test. `None` if the backup is not complete.
pub fn verify_order(backup: &EtcdBackup) -> Option<VerifyOrder> {
    let result = backup.status.as_ref()?.result.as_ref()?;
    let destination = backup.spec.destination.clone();
    let sha256 = Some(result.stored_sha256.clone());
    // What the key has now: that somebody has written another object there is found.
    let source = Source { destination, key: result.key.clone(), sha256, version_id: None };
    Some(VerifyOrder { source, scratch_bytes: scratch_of_test(result) })
}

/// The bytes that a restore test writes at most. First the object and the unpacked database are there at the same time, then the database and
/// the restored copy of it. On top come an eighth, for pages that etcd adds and for the file system, and [`BESIDE_DATABASES`].
fn scratch_of_test(result: &BackupResult) -> Option<u64> {
    let database = Some(result.snapshot_bytes).filter(|bytes| *bytes > 0)?;
    let both = database.saturating_add(database.max(result.stored_bytes));
    let bytes = both.saturating_add(both / 8).saturating_add(BESIDE_DATABASES);
    Some(bytes.div_ceil(MIB).saturating_mul(MIB))
}

/// The Secret with `tls.crt`, `tls.key` and `ca.crt` for connections to etcd.
pub fn tls_secret(backup: &EtcdBackup, of: Of<'_>) -> Option<String> {
    match of {
        Of::Cluster(cluster) => {
            let leaf = Leaf::of_operator(has_auth(cluster));
            has_tls(cluster).then(|| Certificate::Leaf(leaf).secret_name(&at(backup, cluster)))
        }
        Of::Endpoints(endpoints) => endpoints.tls_secret.as_ref().map(|secret| secret.name.clone()),
    }
}

fn origin(backup: &EtcdBackup, of: Of<'_>) -> Origin {
    let metadata = &backup.metadata;
    let cluster = match of {
        Of::Cluster(cluster) => Some(cluster),
        Of::Endpoints(_) => None,
    };
    Origin {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        backup: metadata.name.clone().unwrap_or_default(),
        backup_uid: metadata.uid.clone().unwrap_or_default(),
        cluster: cluster.and_then(|cluster| cluster.metadata.name.clone()),
        cluster_uid: cluster.and_then(|cluster| cluster.metadata.uid.clone()),
        cluster_id: cluster.and_then(|cluster| cluster.status.as_ref()?.cluster_id.clone()),
    }
}

/// The voters, best first: healthy followers, the leader, and those that are not healthy now. A learner may lag far behind. One whose data
/// differ from a majority's gives no backup. While it is not known whose data are wrong, only those of a quorum that is seen to agree do, unless
/// a person orders to save what any of them has.
fn members(cluster: &EtcdCluster, without_quorum: bool) -> Vec<SourceEndpoint> {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let at = ClusterRef::new(namespace, cluster.metadata.name.as_deref().unwrap_or_default());
    let scheme = if has_tls(cluster) { "https" } else { "http" };
    let status = cluster.status.as_ref();
    let mut voters: Vec<_> = status.iter().flat_map(|status| &status.members).collect();
    let record = status.map(record::from_status).unwrap_or_default();
    let is_wrong = |name: &str| record.is_wrong(&MemberName::new(name));
    voters.retain(|member| member.role == Some(Role::Voter) && !member.is_learner && !is_wrong(&member.name));
    let agree =
        status.map(|status| &status.data_agreed_by).filter(|_| record.is_undecided() && !without_quorum);
    voters.retain(|member| agree.is_none_or(|agree| agree.is_empty() || agree.contains(&member.name)));
    voters.sort_by_key(|member| (!member.healthy, member.is_leader));
    let endpoint = |name: &str| SourceEndpoint {
        member: name.to_owned(),
        url: format!("{scheme}://{}:{CLIENT_PORT}", at.dns_name(&MemberName::new(name))),
    };
    voters.into_iter().map(|member| endpoint(&member.name)).collect()
}

/// The quota of the members, which etcd 3.5 does not report.
fn quota(cluster: &EtcdCluster) -> Option<u64> {
    let target = cluster.status.as_ref()?.target.as_ref()?;
    flags::quota(Template::read(&target.pod.template).flags.iter())
}

/// As the members run. An edit of the spec that came too late is not carried out.
fn has_tls(cluster: &EtcdCluster) -> bool {
    if let Some(target) = cluster.status.as_ref().and_then(|status| status.target.as_ref()) {
        return target.tls;
    }
    match cluster.spec.tls.provider {
        TlsProvider::Auto | TlsProvider::Secrets | TlsProvider::CertManager => true,
        TlsProvider::Disabled => false,
    }
}

/// Whether etcd's auth is on, or is being switched on: then the operator has a credential of its own.
fn has_auth(cluster: &EtcdCluster) -> bool {
    cluster.status.as_ref().and_then(|status| status.target.as_ref()).is_some_and(|target| target.auth)
}

fn at(backup: &EtcdBackup, cluster: &EtcdCluster) -> ClusterRef {
    let namespace = backup.metadata.namespace.as_deref().unwrap_or_default();
    ClusterRef::new(namespace, cluster.metadata.name.as_deref().unwrap_or_default())
}

/// What adds a key that signs to the Secret that is there; `None` if it has one. Only to the Secret as it was read.
pub fn signing_key(found: &Secret, key: [u8; SIGNING_KEY_BYTES]) -> Option<Value> {
    let is_there = found.data.as_ref().is_some_and(|data| data.contains_key(SIGNING_KEY));
    (!is_there).then(|| {
        json!({
            "metadata": { "uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version },
            "data": { SIGNING_KEY: ByteString(key.to_vec()) },
        })
    })
}
