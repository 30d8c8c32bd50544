//! The status of an EtcdBackupSchedule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::job::Compared;
use crate::status::if_known;

/// How a schedule goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdBackupScheduleStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The time of the schedule that the last backup was created for, or that was left out as too late. If a clock that was ahead recorded
    /// it: when that was noticed. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scheduled: Option<Time>,

    /// When the last good backup was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Time>,

    /// When the next backup is due. Absent while it is suspended or cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Time>,

    /// How many backups failed since the last good one.
    pub consecutive_failures: u32,

    /// The time of the schedule of the newest backup that failed and is counted. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<Time>,

    /// For how many times of the schedule no backup was taken, since the schedule was created: because another backup was still active, the
    /// operator was down, `spec.startingDeadline` was over, or another EtcdBackup had the name. Times while `spec.suspend` is true, and times
    /// before an edit of the spec, do not count. Never reset. Recorded.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed: u32,

    /// The last time of the schedule that is counted in `missed`. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_missed: Option<Time>,

    /// The backups that wait or run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub active: Vec<String>,

    /// How many of its backups are being deleted, and are not gone yet.
    #[serde(skip_serializing_if = "is_zero")]
    pub deleting: u32,

    /// The orders by the annotation `operator.etcd.io/backup-now` that are spent, the newest last, twenty at most. Recorded.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "orders_known")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["word"]))]
    pub orders: Vec<SpentOrder>,

    /// The restore test that runs. Recorded before its Job is created.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "RunningTest")]
    pub test: Option<RunningTest>,

    /// The time of `spec.verify.schedule` that the last restore test was begun for. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_test: Option<Time>,

    /// The last restore test that passed.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "VerifiedBackup")]
    pub last_verified: Option<VerifiedBackup>,

    /// The first restore test of each etcd cluster that found a backup that cannot be restored. Removed when a later one passes.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "those_known")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clusterID"]))]
    pub failed_tests: Vec<FailedTest>,

    /// The look into the store that runs, or has failed and is repeated. Recorded before its Job is created.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "StoreLook")]
    pub look: Option<StoreLook>,

    /// The last order by the annotation `operator.etcd.io/catalog`: EtcdBackups for what the store has. Each try is recorded before its Job is
    /// created.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "Catalog")]
    pub catalog: Option<Catalog>,

    /// The words of that annotation that are spent, the newest last, twenty at most. Recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub catalog_words: Vec<String>,

    /// Ready, Stalled, InStore and, with `spec.verify`, Verified.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// An order to take a backup now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpentOrder {
    /// The word of the annotation.
    pub word: String,
    /// When it was spent.
    pub time: Time,
    /// The EtcdBackup. Absent: none was created, because the schedule was suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
}

/// A restore test that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningTest {
    /// The EtcdBackup.
    pub backup: String,
    /// The uid of the EtcdBackup.
    pub backup_uid: String,
    /// The Job.
    pub job_name: String,
}

/// A look into the store: whether the objects of backups are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct StoreLook {
    /// The Job.
    pub job_name: String,
    /// The EtcdBackups, all with the same destination.
    pub backups: Vec<String>,
    /// Those of them whose objects are read to their end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// When it failed. The next one follows by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,
    /// Why it failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it failed, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An order to create EtcdBackups for what the store has, and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Catalog {
    /// The word of the annotation.
    pub word: String,
    /// The generation of the schedule that it is carried out by. An edit begins it anew.
    pub generation: i64,
    /// Counts the Jobs of the schedule that list the store, over all orders.
    pub attempt: u32,
    /// The pages that are done: the last object of the last one. The next page has what is older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached: Option<ListedUpTo>,
    /// How many backups the store has of the EtcdCluster, by their manifests, as the last page counted them.
    pub found: u64,
    /// For how many of them there is an EtcdBackup now: created, or there before.
    pub recorded: u32,
    /// How many of those were created.
    pub created: u32,
    /// How many objects were left out, as the last page counted them: not whole, not readable, or not of the EtcdCluster.
    pub skipped: u64,
    /// How many tries have failed since one succeeded.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// When the last try failed. The next one follows by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Time>,
    /// Why it failed, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How far it is, or why it failed and what to do.
    pub message: String,
    /// When it ended. The word is spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Time>,
}

/// The place of an object in a list of a store, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListedUpTo {
    /// When it was complete, RFC 3339, by its manifest.
    pub finished: String,
    /// Its key, without the destination's prefix.
    pub key: String,
}

/// A restore test that passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedBackup {
    /// The EtcdBackup.
    pub backup: String,
    /// When the test was over.
    pub time: Time,
    /// The revision that etcd had after its start on it.
    pub revision: i64,
    /// How many keys it had.
    pub keys: u64,
    /// What was compared with what the members had when the backup was taken. The condition Verified says why the others were not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub compared: Vec<Compared>,
}

/// A restore test that found a backup that cannot be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedTest {
    /// The etcd cluster that the backup is of, in hexadecimal.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// The EtcdBackup.
    pub backup: String,
    /// The time of `spec.schedule` that the backup was created for. Later ones may have the same fault.
    pub scheduled: Time,
    /// When the test was over.
    pub time: Time,
    /// Why it failed, in one word.
    pub reason: String,
}

/// What a newer operator wrote in another way counts as absent.
fn those_known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FailedTest>, D::Error> {
    if_known(deserializer).map(Option::unwrap_or_default)
}

/// As [`those_known`].
fn orders_known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SpentOrder>, D::Error> {
    if_known(deserializer).map(Option::unwrap_or_default)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A type of a condition of an EtcdBackupSchedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScheduleCondition {
    /// True when its backups come about.
    Ready,
    /// True when the newest backup was in the store at the last look.
    InStore,
    /// True when the last restore test passed.
    Verified,
}

impl ScheduleCondition {
    /// Every type, in the order in which status shows them.
    pub const ALL: [Self; 3] = [Self::Ready, Self::InStore, Self::Verified];

    /// The name in `status.conditions[].type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::InStore => "InStore",
            Self::Verified => "Verified",
        }
    }
}
