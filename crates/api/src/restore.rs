//! An EtcdRestore: the order to replace the data of a running EtcdCluster by those of a snapshot, once. Its spec is immutable.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::RestoreSpec;
use crate::rules::{self, backup, rule};
use crate::status::if_known;

/// How long after its creation an EtcdRestore may begin.
pub const DEFAULT_STARTING_DEADLINE: &str = "1h";

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
    printcolumn = r#"{ "name": "Status", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "What matters most now" }"#,
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

    /// How long after its creation it may begin, such as 1h (the default). One that could not begin by then has failed for good: what it
    /// waited for may be mended when nobody wants to give up the present data any more.
    #[serde(default = "default_starting_deadline")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(backup::DURATION, "startingDeadline must be a duration such as 1h, 90m or 45s"),
    ]))]
    pub starting_deadline: String,

    /// Whether the data that are given up are backed up before any member is stopped, to where the snapshot is and encrypted as it is:
    /// Required (the default), IfPossible (it begins without that backup if it has failed, or takes half of `startingDeadline`), or Never. The
    /// volumes of the members are kept for `spec.recovery.keepVolumes` of the EtcdCluster in any case.
    #[serde(default)]
    pub backup_before: BackupBefore,

    /// The snapshot, as in `bootstrap.restore` of an EtcdCluster.
    #[schemars(extend("x-kubernetes-validations" = snapshot_rules()))]
    pub snapshot: RestoreSpec,
}

/// Whether the data that are given up are backed up first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BackupBefore {
    /// Nothing is stopped before it is complete.
    #[default]
    Required,
    /// It is tried.
    IfPossible,
    /// There is none.
    Never,
}

/// How a restore in place goes, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdRestoreStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

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

    /// The snapshot, once it was read to its end and its hashes were right. Nothing is stopped before, nor more than ten minutes later: then
    /// it is read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ReadSnapshot>,

    /// The reading of the snapshot that is under way, or has failed and is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,

    /// The backup of the data that are given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_before: Option<TakenBefore>,

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

    /// Ready and Stalled; and Pending, Running, Complete and Failed, of which one is True.
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

    /// Whether auth is enabled in it, where that can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_enabled: Option<bool>,

    /// The EtcdCluster that it was taken of, as its manifest has it: NAMESPACE/NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,

    /// The cluster ID that it was taken of, as its manifest has it.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// When it was taken, as its manifest has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<Time>,
    /// When it was read to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,

    /// Which try that was.
    pub attempt: u32,
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

/// The backup of the data that are given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TakenBefore {
    /// The EtcdBackup.
    pub name: String,

    /// Counts the EtcdBackups that were ordered for this, from 1.
    pub number: u32,

    /// It is taken of what one member has, since no quorum answered, or the data of members differ.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_quorum: bool,

    /// When it was complete. It counts for a time only: clients write meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete: Option<Time>,

    /// Why there is no EtcdBackup of this name yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,

    /// Why the order begins without it. Only where `spec.backupBefore` is IfPossible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
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

fn default_starting_deadline() -> String {
    DEFAULT_STARTING_DEADLINE.to_owned()
}

/// On the snapshot: where revisions are not raised, a client that watches would miss that the data have changed under it.
fn snapshot_rules() -> Vec<kube_core::Rule> {
    vec![
        rule(rules::ONE_SNAPSHOT, "snapshot must have exactly one of backupRef, source and latest"),
        rule(
            "!has(self.notOlderThan)",
            "snapshot: notOlderThan is a field of bootstrap.restore. An EtcdRestore is one order, and tells the age: leave it out",
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
