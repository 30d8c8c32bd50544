//! An EtcdRestore: the order to replace the data of a running EtcdCluster by those of a snapshot, once. Its spec is immutable.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::RestoreSpec;
use crate::rules::rule;
use crate::status::if_known;

/// The order to replace the data of a running EtcdCluster by those of a snapshot, once.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operator.etcd.io",
    version = "v1alpha1",
    kind = "EtcdRestore",
    doc = "The order to replace the data of a running EtcdCluster by those of a snapshot, once. Every write after the snapshot is given up. \
           Its spec is immutable.",
    plural = "etcdrestores",
    shortname = "etcdrestore",
    shortname = "er",
    namespaced,
    status = "EtcdRestoreStatus",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{ "name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName",
        "description": "The EtcdCluster whose data are replaced" }"#,
    printcolumn = r#"{ "name": "Phase", "type": "string", "jsonPath": ".status.phase",
        "description": "Pending, Running, Complete or Failed" }"#,
    printcolumn = r#"{ "name": "Old", "type": "string", "jsonPath": ".spec.clusterID", "priority": 1,
        "description": "The cluster ID before it" }"#,
    printcolumn = r#"{ "name": "New", "type": "string", "jsonPath": ".status.newClusterID", "priority": 1,
        "description": "The cluster ID after it" }"#,
    printcolumn = r#"{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }"#
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreSpec {
    /// The EtcdCluster of this namespace whose data are replaced.
    #[schemars(length(min = 1, max = 52))]
    pub cluster_name: String,

    /// The cluster ID whose data are given up, as `status.clusterID` of the EtcdCluster has it. It confirms the order: once it is carried
    /// out the ID is another one, so the same order, applied again, changes nothing.
    #[serde(rename = "clusterID")]
    #[schemars(length(max = 16), extend("x-kubernetes-validations" = [
        rule(
            "self.matches('^[0-9a-f]{1,16}$')",
            "clusterID must be status.clusterID of the EtcdCluster: up to 16 hexadecimal digits in lower case",
        ),
    ]))]
    pub cluster_id: String,

    /// The snapshot, as in `bootstrap.restore` of an EtcdCluster.
    #[schemars(extend("x-kubernetes-validations" = snapshot_rules()))]
    pub snapshot: RestoreSpec,
}

/// How a restore in place goes, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdRestoreStatus {
    /// What it does now, in one word.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "RestorePhase")]
    pub phase: Option<RestorePhase>,

    /// The cluster ID that was replaced.
    #[serde(rename = "oldClusterID", skip_serializing_if = "Option::is_none")]
    pub old_cluster_id: Option<String>,

    /// The cluster ID with the data of the snapshot.
    #[serde(rename = "newClusterID", skip_serializing_if = "Option::is_none")]
    pub new_cluster_id: Option<String>,

    /// The snapshot, for people: its URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    /// The revision that the new members have at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,

    /// The snapshot, once it was read to its end and its hashes were right. Nothing is stopped before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ReadSnapshot>,

    /// The reading of the snapshot that is under way, or has failed and is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,

    /// The PersistentVolumeClaims of the old members. They are kept for `spec.recovery.keepVolumes` of the EtcdCluster, and never used
    /// again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quarantined_volumes: Vec<String>,

    /// When the order was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,

    /// When it was complete, or had failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,

    /// Pending, Running, Complete and Failed. One of them is True.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A snapshot that was read to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadSnapshot {
    /// The SHA-256 of the object in the store, in hexadecimal digits.
    pub sha256: String,

    /// Bytes of the database.
    #[schemars(with = "i64")]
    pub bytes: u64,

    /// The version of the etcd that it is of, as its manifest has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,

    /// The revision that it has at least, as its manifest has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// A reading of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reading {
    /// The SHA-256 that the object in the store must have.
    pub sha256: String,

    /// Counts the tries, from 1.
    pub attempt: u32,

    /// When this try failed. The next one follows by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,

    /// Why it failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Why it failed, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a restore in place does now. The types of its conditions have the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RestorePhase {
    /// It is not begun; the reason says what it waits for.
    Pending,
    /// The old members are being stopped, or the new ones started.
    Running,
    /// The new members serve.
    Complete,
    /// It is not carried out.
    Failed,
}

impl RestorePhase {
    /// Every phase, in the order in which status shows the conditions.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Running, Self::Complete, Self::Failed];

    /// The value in status, and the type of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

/// On the snapshot: where revisions are not raised, a client that watches would miss that the data have changed under it.
fn snapshot_rules() -> Vec<kube_core::Rule> {
    vec![
        rule(
            "has(self.backupRef) != has(self.source)",
            "snapshot must have exactly one of backupRef and source",
        ),
        rule(
            "self.bumpRevision > 0",
            "snapshot.bumpRevision must be above 0: clients of the running cluster know revisions that the snapshot does not have",
        ),
    ]
}

/// On an EtcdRestore as a whole.
pub(crate) fn object_rules() -> Vec<kube_core::Rule> {
    vec![
        rule(
            "self.spec == oldSelf.spec",
            "the spec of an EtcdRestore is immutable: create another EtcdRestore",
        )
        .field_path(".spec"),
    ]
}
