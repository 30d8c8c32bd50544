//! An EtcdBackup: one backup of one etcd, taken once. Its spec is immutable; `status.result` describes what is in the store.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, PodSecurityContext, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::SnapshotOf;
use crate::cluster::Resources;
use crate::destination::{Destination, SecretName};
use crate::rules::{self, backup, rule};

mod status;

pub use status::{BackupCondition, BackupPhase, BackupResult, EtcdBackupStatus, FailedLook, LastLook};

/// The longest name of an EtcdBackup: labels carry it.
pub const MAX_BACKUP_NAME_LENGTH: usize = 63;

/// How long a backup may take in all, when the spec does not say.
pub const DEFAULT_DEADLINE: &str = "1h";

/// How often a failed backup is tried again, when the spec does not say.
pub const DEFAULT_RETRIES: u32 = 3;

/// One backup of one etcd.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operator.etcd.io",
    version = "v1alpha1",
    kind = "EtcdBackup",
    doc = "One backup of one etcd, taken once by a Job and verified. Its spec is immutable.",
    plural = "etcdbackups",
    shortname = "etcdbackup",
    shortname = "eb",
    namespaced,
    status = "EtcdBackupStatus",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{ "name": "Cluster", "type": "string", "jsonPath": ".spec.source.cluster",
        "description": "The EtcdCluster that it is of" }"#,
    printcolumn = r#"{ "name": "Phase", "type": "string", "jsonPath": ".status.phase",
        "description": "Pending, Running, Complete, Failed or Deleting" }"#,
    printcolumn = r#"{ "name": "Revision", "type": "integer", "jsonPath": ".status.result.revision",
        "description": "The revision of etcd that it has at least" }"#,
    printcolumn = r#"{ "name": "Size", "type": "string", "jsonPath": ".status.result.size",
        "description": "The size of the object in the store" }"#,
    printcolumn = r#"{ "name": "Taken", "type": "date", "jsonPath": ".status.result.started",
        "description": "When its snapshot was begun" }"#,
    printcolumn = r#"{ "name": "URL", "type": "string", "jsonPath": ".status.result.url", "priority": 1,
        "description": "Where it is" }"#,
    printcolumn = r#"{ "name": "Status", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "What matters most now" }"#,
    printcolumn = r#"{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }"#
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupSpec {
    /// The etcd that it is taken of: exactly one of cluster and endpoints.
    pub source: BackupSource,

    /// An object that is in the destination already. Nothing is taken then, and nothing of the store is ever removed: a Job looks for the
    /// object until `deadline`, and what its manifest says is in status, to be restored like any other. The operator creates such an EtcdBackup
    /// for each `source` and `latest` of a restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<ExistingObject>,

    /// Where it is kept: exactly one of s3, gcs, azure and pvc. A directory of a node (hostPath) is not among them: it is lost with
    /// the node, and the restricted Pod Security standard does not admit it.
    pub destination: Destination,

    /// How the object is compressed: Zstd (the default) or None.
    #[serde(default)]
    pub compression: Compression,

    /// To whom the object is encrypted. Absent: it is not encrypted by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,

    /// What becomes of the object in the store when the EtcdBackup is deleted: Retain (the default) or Delete.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,

    /// How long it may take in all, such as 1h (the default), from the creation of the first Job. After that it has failed.
    #[serde(default = "default_deadline")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(backup::DURATION, "deadline must be a duration such as 1h, 90m or 45s"),
    ]))]
    pub deadline: String,

    /// How many bytes a second are read from the member at most, such as 20Mi: writes suffer less, and the backup takes longer. The
    /// database file of the member grows by what is written meanwhile. Absent: as fast as the store takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "backup::rate")]
    pub rate_limit: Option<Quantity>,

    /// How often a failed attempt is tried again, where another try can help. With `existing`, it is tried again until `deadline`.
    #[serde(default = "default_retries")]
    #[schemars(with = "i32", extend("x-kubernetes-validations" = [
        rule("self >= 0 && self <= 100", "retries must be between 0 and 100"),
    ]))]
    pub retries: u32,

    /// Take what one member has while no quorum answers. Such a backup may lack acknowledged writes, and have some that were not; its
    /// result says so. A backup without this waits for the quorum.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_quorum: bool,

    /// What is added to the Pods of its Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_template: Option<Box<JobTemplate>>,
}

/// The etcd that a backup is taken of. Exactly one of the fields is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = backup::source()))]
pub struct BackupSource {
    /// The name of an EtcdCluster in this namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 52))]
    pub cluster: Option<String>,
    /// An etcd that the operator does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
}

/// An object that is in a store already: that of a key, or the newest backup of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = backup::existing()))]
pub struct ExistingObject {
    /// The key of the object, without the destination's prefix: `key` of the manifest beside it. Exactly one of `key` and `latest` is given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 900))]
    pub key: String,
    /// The SHA-256 that the object must have, in hexadecimal digits: `storedSha256` of the manifest beside it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-validations" = [
        rule(
            "self.matches('^[0-9a-f]{64}$')",
            "sha256 must be 64 hexadecimal digits in lower case: storedSha256 of the manifest of the object",
        ),
    ]))]
    pub sha256: String,
    /// The version of the object, in a bucket with versions.
    #[serde(rename = "versionID", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub version_id: Option<String>,
    /// The newest whole backup of this cluster that the destination has when it is looked for, instead of the object of a key. It is found
    /// once. Where backups of several etcd clusters have the name, the newest is taken only if the others end before it begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<SnapshotOf>,
    /// With `latest`: the newest backup that was finished before this time, such as 2026-11-24T02:00:00Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time", "maxLength" = 35))]
    pub before: Option<Time>,
    /// Believe what the manifest says, such as time, revision and cluster ID, although no key of this namespace has signed it. The SHA-256 of
    /// the object counts in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unsigned: bool,
    /// With `key`: take the object also where no manifest that can be believed describes it, whichever EtcdCluster it is of. Its SHA-256 is all
    /// that is known of it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_manifest: bool,
}

/// An etcd that the operator does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Endpoints {
    /// The client URLs of its members, best first: the first one that is healthy is used.
    #[schemars(schema_with = "backup::urls")]
    pub urls: Vec<String>,
    /// A Secret with tls.crt, tls.key and ca.crt for URLs with https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_secret: Option<SecretName>,
}

impl ExistingObject {
    /// Whether it is what a restore names by its place: the newest of a cluster, or an object that no manifest need describe.
    pub fn is_by_place(&self) -> bool {
        self.latest.is_some() || self.without_manifest
    }

    /// Whether what is in the store, by its manifest, is this object. What was found as the newest is whichever it is.
    pub fn is(&self, key: &str, sha256: &str) -> bool {
        self.latest.is_some() || (self.key == key && self.sha256 == sha256)
    }
}

/// How an object is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    /// With zstd.
    #[default]
    Zstd,
    /// Not at all.
    None,
}

/// To whom an object is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Encryption {
    /// Recipients of age (age-encryption.org), each of which begins with age1. Any one of their identities decrypts it. The operator
    /// never has an identity for a backup.
    #[schemars(schema_with = "backup::recipients")]
    pub recipients: Vec<String>,
}

/// What becomes of the object in the store when its EtcdBackup is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It stays.
    #[default]
    Retain,
    /// It is deleted first.
    Delete,
}

/// What is added to the Pods of Jobs. Its fields mean what they mean in a Pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct JobTemplate {
    /// Labels for the Pods, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the Pods, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::annotations")]
    pub annotations: BTreeMap<String, String>,
    /// Requests and limits of the container. Where neither a request nor a limit of a resource is given, the operator requests 50m of
    /// cpu and 64Mi of memory, and limits them to 1 and 256Mi, so that a quota admits the Pods. A restore test, in which etcd runs, takes
    /// its limits from the podTemplate of the EtcdCluster, and has none if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Environment variables of the container, such as HTTPS_PROXY and NO_PROXY. A proxy must be one that the operator admits
    /// (--allowed-proxies): it sees where a Job sends what.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "backup::environment")]
    pub env: Vec<EnvVar>,
    /// The user, groups and profiles of the Pods. A field that is given replaces that of the EtcdCluster's podTemplate, and that one the
    /// operator's. What the restricted Pod Security standard does not admit is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::security_context_of_jobs")]
    pub security_context: Option<PodSecurityContext>,
    /// Secrets of this namespace with credentials for the image registry. Absent: those of the EtcdCluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::secret_names")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// The volume of the Pods for what is too large for memory: a snapshot that is written there first, and restore tests. Absent: of the
    /// storage class that the EtcdCluster names, or an empty directory of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch: Option<Scratch>,
    /// Labels that a node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::node_selector")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that the Pods tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::of_kubernetes::<Vec<Toleration>>")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Node and Pod affinity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::of_kubernetes::<Affinity>")]
    pub affinity: Option<Affinity>,
    /// The name of the PriorityClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// The scheduler that places the Pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub scheduler_name: Option<String>,
    /// The name of the RuntimeClass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
    /// The ServiceAccount of the Pods. Its token is mounted only where the destination has no credentialsSecret, for an identity of the
    /// cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
}

/// A volume that lives as long as a Pod of a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Scratch {
    /// Its storage class. Absent: that of the EtcdCluster; if that names none, an empty directory of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
    /// Its least size, such as 20Gi. For a snapshot the operator asks for 1.2 times the database, if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::quantity")]
    pub size: Option<Quantity>,
}

/// An environment variable. It has no reference to a Secret: whoever writes an EtcdBackup need not have the right to read one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(default)]
    pub value: String,
}

fn default_deadline() -> String {
    DEFAULT_DEADLINE.to_owned()
}

fn default_retries() -> u32 {
    DEFAULT_RETRIES
}
