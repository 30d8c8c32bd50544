//! A cluster that begins with the data of a snapshot: `spec.bootstrap.restore`, and what status records of it.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backup::EtcdBackup;
use crate::cluster::EtcdCluster;
use crate::destination::{Destination, SecretName};
use crate::latest::LatestBackup;
use crate::restore::{EtcdRestore, RestorePhase};
use crate::rules::{self, rule};

/// By how much revisions are raised where the spec does not say: more than a cluster writes in months, so that every client that knows
/// the old cluster notices that its revisions are gone.
pub const DEFAULT_BUMP_REVISION: u64 = 1_000_000_000;

/// How old a snapshot may be where the spec does not say, in seconds: seven days. A restore that is meant follows a loss within days; a manifest
/// that was forgotten is older.
pub const DEFAULT_NOT_OLDER_THAN: u64 = 7 * 86_400;

/// What the name of an EtcdBackup begins with that the operator creates for a restore.
pub const RESTORED_PREFIX: &str = "restored-";

impl EtcdBackup {
    /// Whether the operator has created it for a restore.
    pub fn is_for_restore(&self) -> bool {
        let has_name = self.metadata.name.as_deref().is_some_and(|name| name.starts_with(RESTORED_PREFIX));
        let mut owners = self.metadata.owner_references.iter().flatten();
        has_name && owners.any(|owner| matches!(owner.kind.as_str(), "EtcdCluster" | "EtcdRestore"))
    }
}

/// What the cluster begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapSpec {
    /// A snapshot whose data the cluster begins with. Absent: it begins empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::restore()))]
    pub restore: Option<RestoreSpec>,
}

/// The snapshot that a cluster begins with. All members restore the same one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSpec {
    /// An EtcdBackup of this namespace. Exactly one of `backupRef`, `source` and `latest` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_ref: Option<BackupRef>,

    /// An object in a store, such as one that another Kubernetes wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<RestoreSource>,

    /// The newest backup that a store has of a cluster. An EtcdBackup that the operator creates finds it once, and has it in its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<LatestBackup>,

    /// By how much the revisions of keys are raised, so that clients of the old cluster, such as a kube-apiserver, read everything anew.
    /// 0 leaves them: then no client may have seen the old cluster after the snapshot was taken.
    #[serde(default = "default_bump_revision")]
    #[schemars(with = "i64", extend("x-kubernetes-validations" = [
        rule("self >= 0 && self <= 1000000000000", "bumpRevision must be a number from 0 to 1000000000000"),
    ]))]
    pub bump_revision: u64,

    /// A Secret of this namespace with age identities, for a snapshot that is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identities_secret: Option<SecretName>,

    /// How old the snapshot may be when the EtcdCluster is created, such as 720h or 90m. Absent: 168h (seven days). A manifest that is applied again long after
    /// its restore would bring the data of then back; so an older one is refused with the reason RestoreStale. Nothing is compared where the
    /// object has no manifest that says when it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(rules::backup::DURATION, "notOlderThan must be a duration such as 720h, 90m or 45s"),
    ]))]
    pub not_older_than: Option<String>,

    /// Whose data the snapshot has, where they are not those of the EtcdCluster that an EtcdRestore replaces. Without it an EtcdRestore of
    /// another cluster's data fails with the reason OtherCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<SnapshotOf>,
}

/// The cluster that a snapshot was taken of, as its manifest has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::snapshot_of()))]
pub struct SnapshotOf {
    /// The name of the EtcdCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 52))]
    pub cluster: Option<String>,

    /// The namespace of that EtcdCluster, when the snapshot was taken. Absent: this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub cluster_namespace: Option<String>,

    /// The cluster ID, up to 16 hexadecimal digits in lower case.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = [
        rule("self.matches('^[0-9a-f]{1,16}$')", "clusterID must be up to 16 hexadecimal digits in lower case"),
    ]))]
    pub cluster_id: Option<String>,
}

/// Names an EtcdBackup of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// An object in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreSource {
    /// The store.
    pub destination: Destination,

    /// The key of the object, without the destination's prefix.
    #[schemars(length(min = 1, max = 900))]
    pub key: String,

    /// The SHA-256 that the object in the store must have, in hexadecimal digits: what `sha256sum` prints for the object, or
    /// `storedSha256` of the manifest beside it. Recorded before anything starts, so that no two members restore different objects.
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [
        rule(
            "self.matches('^[0-9a-f]{64}$')",
            "sha256 must be 64 hexadecimal digits in lower case: sha256sum of the object, or storedSha256 of its manifest",
        ),
    ]))]
    pub sha256: String,

    /// The version of the object, in a bucket with versions: it is restored also after another object was written under the key, or the key was
    /// deleted. Absent: what the key has now. A version that the store does not know counts as absent.
    #[serde(rename = "versionID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub version_id: Option<String>,
}

/// What the members of the bootstrap begin, or began, with. Recorded with the first attempt, and the same in every attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreStatus {
    /// The EtcdBackup that it was resolved from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,

    /// The object, with the fields that `source` of a snapshot has in a spec.
    #[schemars(schema_with = "rules::recorded")]
    pub source: RestoreSource,

    /// By how much revisions are raised, to `leastRevision` at least.
    pub bump_revision: u64,

    /// To what revisions are raised at least: what time gives, so that no two restores share revisions. 0: no less than by `bumpRevision`.
    #[serde(default, skip_serializing_if = "crate::bootstrap::is_zero")]
    pub least_revision: i64,

    /// The Secret with age identities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identities_secret: Option<String>,

    /// The version of the etcd that the snapshot is of, where a backup has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,

    /// Bytes of its database, where a backup has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_bytes: Option<u64>,

    /// The least revision that it has, where a backup has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// Whether auth is enabled in it, where it was read before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_enabled: Option<bool>,

    /// A snapshot that was ordered before this time is refused: `notOlderThan` before the creation of the EtcdCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
}

/// What a restore still needs: it is neither pruned nor deleted meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed<'a> {
    /// The namespace of the EtcdCluster or EtcdRestore.
    namespace: Option<&'a str>,
    /// The EtcdBackup of that namespace. One that stands for an object needs that object.
    pub backup: Option<Cow<'a, str>>,
    /// The SHA-256 of the object, once it is known.
    sha256: Option<&'a str>,
}

impl Needed<'_> {
    /// Whether it is this EtcdBackup, or its object, which a restore of any namespace may name by its place. A copy elsewhere has the same
    /// SHA-256, and is kept as well. `stands_for` tells by namespace and name which object an EtcdBackup stands for.
    pub fn is(&self, backup: &EtcdBackup, stands_for: impl FnOnce(&str, &str) -> Option<String>) -> bool {
        let (namespace, name) = (self.namespace.unwrap_or_default(), self.backup.as_deref());
        let is_here = self.namespace == backup.metadata.namespace.as_deref();
        if is_here && name.is_some() && name == backup.metadata.name.as_deref() {
            return true;
        }
        let Some(own) = backup.object() else { return false };
        match (self.sha256, name) {
            (Some(needed), _) => needed == own,
            (None, Some(name)) => stands_for(namespace, name).is_some_and(|needed| needed == own),
            (None, None) => false,
        }
    }
}

impl EtcdBackup {
    /// The SHA-256 of its object, once that is in the store.
    fn object(&self) -> Option<&str> {
        Some(self.status.as_ref()?.result.as_ref()?.stored_sha256.as_str())
    }

    /// The SHA-256 of the object that it stands for, and that another EtcdBackup may have written; `None` while it is not found.
    pub fn stands_for(&self) -> Option<&str> {
        self.spec.existing.as_ref()?;
        self.object()
    }
}

impl RestoreSpec {
    /// The EtcdBackup that it reads: that which it names, or that which the operator creates for what it names by its place. `meta` is of the
    /// EtcdCluster or EtcdRestore. `None` if it names nothing.
    pub fn backup_name(&self, meta: &ObjectMeta) -> Option<String> {
        match (&self.backup_ref, &self.source, &self.latest) {
            (Some(backup), None, None) => Some(backup.name.clone()),
            (None, Some(_), None) | (None, None, Some(_)) => {
                Some(format!("{RESTORED_PREFIX}{}", meta.uid.as_deref().unwrap_or_default()))
            }
            (_, _, _) => None,
        }
    }

    /// What it names. Which object an EtcdBackup has is not known here.
    fn needed<'a>(&'a self, meta: &'a ObjectMeta) -> Needed<'a> {
        let backup = self.backup_name(meta).map(Cow::Owned);
        let sha256 = self.source.as_ref().map(|source| source.sha256.as_str());
        Needed { namespace: meta.namespace.as_deref(), backup, sha256 }
    }
}

impl RestoreStatus {
    fn needed<'a>(&'a self, namespace: Option<&'a str>) -> Needed<'a> {
        let backup = self.backup.as_deref().map(Cow::Borrowed);
        Needed { namespace, backup, sha256: Some(&self.source.sha256) }
    }
}

impl EtcdCluster {
    /// The snapshot that it is to begin with, if any.
    pub fn restore(&self) -> Option<&RestoreSpec> {
        self.spec.bootstrap.as_ref()?.restore.as_ref()
    }

    /// What its restore still needs. Members may restore when the others are a cluster already, so it is needed until each of them has
    /// reported its version once.
    pub fn needs(&self) -> Option<Needed<'_>> {
        let (status, namespace) = (self.status.as_ref(), self.metadata.namespace.as_deref());
        if let Some(replacing) = status.and_then(|status| status.replacing.as_ref()) {
            return Some(replacing.restore.needed(namespace));
        }
        let is_restored = status.is_some_and(|status| {
            status.cluster_id.is_some() && status.members.iter().all(|member| member.version.is_some())
        });
        if is_restored {
            return None;
        }
        // What is recorded, since the spec may be edited once there is a cluster ID.
        if let Some(restored) = status.and_then(|status| status.bootstrap.as_ref()?.restore.as_ref()) {
            return Some(restored.needed(namespace));
        }
        Some(self.restore()?.needed(&self.metadata))
    }
}

impl EtcdRestore {
    /// What it still needs: from its creation on, so that the snapshot that somebody has just ordered is neither pruned nor deleted before the
    /// EtcdCluster takes the order up.
    pub fn needs(&self) -> Option<Needed<'_>> {
        let phase = self.status.as_ref().and_then(|status| status.phase);
        let has_ended = matches!(phase, Some(RestorePhase::Complete | RestorePhase::Failed));
        if has_ended || self.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let needed = self.spec.snapshot.needed(&self.metadata);
        // What was read is known by its SHA-256, however the spec names it.
        let status = self.status.as_ref();
        let read = status.and_then(|status| status.snapshot.as_ref()).map(|read| read.sha256.as_str());
        let is_read = status.and_then(|status| status.reading.as_ref()).map(|read| read.sha256.as_str());
        Some(Needed { sha256: read.or(is_read).or(needed.sha256), ..needed })
    }
}

fn default_bump_revision() -> u64 {
    DEFAULT_BUMP_REVISION
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(number: &i64) -> bool {
    *number == 0
}
