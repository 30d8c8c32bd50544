//! The status of an EtcdBackup.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conditions;
use crate::job::{Manifest, ObjectMark};
use crate::quantity;
use crate::status::if_known;

/// How a backup goes, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdBackupStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What it does now, in one word.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "BackupPhase")]
    pub phase: Option<BackupPhase>,

    /// The cluster ID that its EtcdCluster had when it was first seen. Recorded: what other data have taken the place of is not what it
    /// was ordered to save.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// How many attempts were begun. Recorded before the Job of an attempt is created.
    pub attempts: u32,

    /// How many attempts are known to have written nothing to the store. Where all are, nothing is removed from it when the EtcdBackup is
    /// deleted. Recorded.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts_without_write: u32,

    /// When the first attempt was begun: spec.deadline counts from then. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,

    /// The Job of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,

    /// Since when the Job of the attempt has no Pod that has started. After five minutes it holds up no other backup. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_started_since: Option<Time>,

    /// When the next attempt is begun, after one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,

    /// An attempt, or an earlier backup, took the snapshot too slowly for etcd: the next ones write it to a volume of the Job of so many
    /// bytes first. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratch_bytes: Option<u64>,

    /// When that was seen, by this backup or by an earlier one of the same etcd with the same destination. For a week later ones begin with
    /// such a volume. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_slow_since: Option<Time>,

    /// Why the last look for the object of `spec.existing` failed, until one succeeds.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "FailedLook")]
    pub failed_look: Option<FailedLook>,

    /// What is in the store. Set once, when the backup is complete, and never changed.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "BackupResult")]
    pub result: Option<BackupResult>,

    /// The last look into the store for the object. Absent: nobody has looked since it was complete.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "LastLook")]
    pub last_look: Option<LastLook>,

    /// How many removals of the object were begun, while the EtcdBackup is being deleted. Recorded.
    #[serde(skip_serializing_if = "is_zero")]
    pub removals: u32,

    /// Ready and Stalled; Pending, Running, Complete and Failed, of which one is True; and InStore, once somebody has looked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Why an object was not found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FailedLook {
    /// In one word.
    pub reason: String,
    /// What happened, and what to do.
    pub message: String,
}

/// A look into the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastLook {
    /// When.
    pub time: Time,
    /// Whether the object and its manifest were there, as they were written.
    pub found: bool,
    /// The object is there and seems to have been written again. The next look reads it to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rewritten: bool,
    /// When the object was last read to its end and had its SHA-256. Absent: by no look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<Time>,
    /// What the store said of the object then. It counts in place of `result.mark`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "ObjectMark")]
    pub mark: Option<ObjectMark>,
}

impl LastLook {
    /// A look that read nothing to its end.
    pub fn new(time: Time, found: bool) -> Self {
        Self { time, found, rewritten: false, read: None, mark: None }
    }
}

/// What a backup does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BackupPhase {
    /// It waits for another backup of the same cluster, for its cluster, or for the next attempt.
    Pending,
    /// A Job takes it.
    Running,
    /// It is in the store.
    Complete,
    /// It failed, and is not tried again.
    Failed,
    /// The EtcdBackup is being deleted.
    Deleting,
}

/// A type of a condition of an EtcdBackup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BackupCondition {
    /// True while it waits; the reason says for what.
    Pending,
    /// True while a Job takes it, or removes its object.
    Running,
    /// True when it is in the store, whole.
    Complete,
    /// True when it failed and is not tried again, or when its object cannot be removed.
    Failed,
    /// Of a backup that is complete: whether its object was there at the last look.
    InStore,
}

/// What is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupResult {
    /// Where it is, for people.
    pub url: String,
    /// The key of the object, without the prefix of the destination.
    pub key: String,
    /// The size of the object in the store, for people.
    pub size: String,
    /// Bytes of the object in the store.
    pub stored_bytes: u64,
    /// SHA-256 of the object in the store, in hexadecimal digits.
    pub stored_sha256: String,
    /// What the store said of the object when it was complete: looks compare it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ObjectMark")]
    pub mark: Option<ObjectMark>,
    /// Bytes of the database.
    pub snapshot_bytes: u64,
    /// SHA-256 of the database, in hexadecimal digits.
    pub snapshot_sha256: String,
    /// Whether the object is compressed with zstd.
    pub compressed: bool,
    /// Whether the object is encrypted.
    pub encrypted: bool,
    /// The revision of etcd that it has at least.
    pub revision: i64,
    /// The version of the etcd that it was taken of.
    pub etcd_version: String,
    /// The cluster ID in etcd, in hexadecimal.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// The member that sent it.
    pub member: String,
    /// It was taken of one member while no quorum answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_quorum: bool,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When the object was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
    /// The key of the namespace that has signed the manifest in the store. Absent: none, and nobody who only has the store can be told from
    /// the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
}

impl EtcdBackupStatus {
    /// The reason and the message of a condition, in brackets after a space, if it holds.
    pub fn why(&self, condition: BackupCondition) -> String {
        let holds = conditions::find_true(&self.conditions, condition.as_str());
        holds.map_or_else(String::new, |holds| format!(" ({}: {})", holds.reason, holds.message))
    }

    /// When it was complete: by the clock of the Job's node, and not later than the operator saw it. The clock of one node decides nothing.
    pub fn completed(&self) -> Option<&Time> {
        self.result.as_ref()?.finished.as_ref().map(|finished| self.seen_by_then(finished))
    }

    /// A time that the Job tells, and not later than the operator saw that the backup is complete.
    pub fn seen_by_then<'a>(&'a self, told: &'a Time) -> &'a Time {
        let complete = conditions::find_true(&self.conditions, BackupCondition::Complete.as_str());
        complete.map_or(told, |complete| told.min(&complete.last_transition_time))
    }

    /// Whether an attempt may have written to the store.
    pub fn may_have_written(&self) -> bool {
        self.attempts > self.attempts_without_write || self.result.is_some()
    }
}

impl BackupPhase {
    /// The value in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::Deleting => "Deleting",
        }
    }
}

impl BackupCondition {
    /// Every type, in the order in which status shows them.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Complete, Self::Failed, Self::InStore];

    /// Those of which one is True.
    pub const STATES: [Self; 4] = [Self::Pending, Self::Running, Self::Complete, Self::Failed];

    /// The name in `status.conditions[].type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
            Self::InStore => "InStore",
        }
    }
}

impl BackupResult {
    /// What the manifest of an object says, with the URL of the object.
    pub fn new(manifest: &Manifest, url: String) -> Self {
        let time = |text: &str| text.parse().ok().map(Time);
        Self {
            url,
            key: manifest.key.clone(),
            size: quantity::rounded(manifest.stored_bytes),
            stored_bytes: manifest.stored_bytes,
            stored_sha256: manifest.stored_sha256.clone(),
            mark: manifest.mark.clone(),
            snapshot_bytes: manifest.snapshot_bytes,
            snapshot_sha256: manifest.snapshot_sha256.clone(),
            compressed: manifest.compressed,
            encrypted: !manifest.recipients.is_empty(),
            revision: manifest.revision,
            etcd_version: manifest.etcd_version.clone(),
            cluster_id: manifest.cluster_id.clone(),
            member: manifest.member.clone(),
            without_quorum: manifest.without_quorum,
            started: time(&manifest.started),
            finished: time(&manifest.finished),
            signed_by: manifest.signature.as_ref().map(|signature| signature.key_id.clone()),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
