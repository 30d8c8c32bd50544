//! An EtcdBackupSchedule: when EtcdBackups are created, and which of them are deleted again.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backup::{EtcdBackupSpec, JobTemplate};
use crate::destination::SecretName;
use crate::rules::{self, backup, rule};

mod status;

pub use status::{
    Catalog, EtcdBackupScheduleStatus, FailedTest, ListedUpTo, RunningTest, ScheduleCondition, SpentOrder,
    StoreLook, VerifiedBackup,
};

/// The longest name of an EtcdBackupSchedule: its backups are called `<schedule>-<twelve digits>`.
pub const MAX_SCHEDULE_NAME_LENGTH: usize = 50;

/// How many failed backups of a schedule are kept, when the spec does not say.
pub const DEFAULT_FAILED_KEPT: u32 = 3;

/// When backups are taken, and which are kept.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operator.etcd.io",
    version = "v1alpha1",
    kind = "EtcdBackupSchedule",
    doc = "When EtcdBackups are created, and which of them are deleted again.",
    plural = "etcdbackupschedules",
    shortname = "ebs",
    namespaced,
    status = "EtcdBackupScheduleStatus",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core"),
    printcolumn = r#"{ "name": "Schedule", "type": "string", "jsonPath": ".spec.schedule",
        "description": "When backups are taken" }"#,
    printcolumn = r#"{ "name": "Suspend", "type": "boolean", "jsonPath": ".spec.suspend",
        "description": "Whether it rests" }"#,
    printcolumn = r#"{ "name": "Last-Success", "type": "date", "jsonPath": ".status.lastSuccess",
        "description": "When the last good backup was complete" }"#,
    printcolumn = r#"{ "name": "Next", "type": "string", "jsonPath": ".status.next",
        "description": "When the next backup is due" }"#,
    printcolumn = r#"{ "name": "Failures", "type": "integer", "jsonPath": ".status.consecutiveFailures",
        "description": "How many backups failed since the last good one" }"#,
    printcolumn = r#"{ "name": "Status", "type": "string", "priority": 1,
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].message",
        "description": "What matters most now" }"#,
    printcolumn = r#"{ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }"#
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupScheduleSpec {
    /// When a backup is taken: five fields of cron (minute, hour, day of the month, month, day of the week), or @hourly, @daily,
    /// @weekly, @monthly, @yearly. Not more often than every five minutes.
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = [
        rule(backup::CRON, backup::CRON_MESSAGE),
    ]))]
    pub schedule: String,

    /// The time zone of the schedule, such as Europe/Berlin. Absent: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,

    /// How late a backup may begin that was missed, such as 1h. After that it is left out, and the next one is taken in time. Absent:
    /// the last one that was missed is always made up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(backup::DURATION, "startingDeadline must be a duration such as 1h, 90m or 45s"),
    ]))]
    pub starting_deadline: Option<String>,

    /// By how much the times of this schedule are late at most, such as 30m, so that not all schedules begin at once. By how much, is fixed
    /// by the uid of the schedule, for backups and for restore tests. Absent: they are not late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(backup::DURATION, "spread must be a duration such as 30m, 90s or 2h"),
    ]))]
    pub spread: Option<String>,

    /// Take the first backup when the schedule is created, and not at its first time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub immediate: bool,

    /// While this is true, no backup is begun, and none is deleted.
    #[serde(default)]
    pub suspend: bool,

    /// Which backups of this schedule are kept. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,

    /// How many backups are kept that did not come about.
    #[serde(default)]
    pub history_limit: HistoryLimit,

    /// What is created each time.
    pub backup_template: BackupTemplate,

    /// Restore tests of what was backed up. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifySpec>,
}

/// Which backups of a schedule are kept. A backup is kept if any of the rules keeps it; the newest good one is always kept. With no rule,
/// all are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Retention {
    /// Keep so many, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "backup::count")]
    pub keep_last: Option<u32>,
    /// Keep those that are younger, such as 168h.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(backup::DURATION, "retention.maxAge must be a duration such as 168h, 90m or 45s"),
    ]))]
    pub max_age: Option<String>,
    /// Keep the newest that have so many bytes together in the store, such as 10Gi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::quantity")]
    pub max_bytes: Option<Quantity>,
    /// Keep the newest of each of so many hours that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "backup::count")]
    pub hourly: Option<u32>,
    /// Keep the newest of each of so many days that have one, in the time zone of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "backup::count")]
    pub daily: Option<u32>,
    /// Keep the newest of each of so many weeks (Monday to Sunday) that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "backup::count")]
    pub weekly: Option<u32>,
    /// Keep the newest of each of so many months that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "backup::count")]
    pub monthly: Option<u32>,
}

/// How many backups are kept that did not come about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryLimit {
    /// How many failed ones, the newest.
    #[schemars(with = "i32", extend("x-kubernetes-validations" = [
        rule("self >= 0 && self <= 1000", "historyLimit.failed must be between 0 and 1000"),
    ]))]
    pub failed: u32,
}

/// An EtcdBackup as it is created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupTemplate {
    /// Labels and annotations for the EtcdBackups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BackupMetadata>,
    /// Their spec.
    #[schemars(extend("x-kubernetes-validations" = [
        rule(backup::QUORUM_STAYS, backup::QUORUM_MESSAGE),
        rule(backup::TAKEN, backup::TAKEN_MESSAGE),
    ]))]
    pub spec: EtcdBackupSpec,
}

/// Labels and annotations of EtcdBackups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BackupMetadata {
    /// Labels, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, besides those of the operator.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::annotations")]
    pub annotations: BTreeMap<String, String>,
}

/// Restore tests: a Job restores the newest good backup, starts etcd on it and compares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifySpec {
    /// When a test is made: as spec.schedule, in the same time zone.
    #[schemars(length(max = 128), extend("x-kubernetes-validations" = [
        rule(backup::CRON, backup::CRON_MESSAGE),
    ]))]
    pub schedule: String,
    /// A Secret of this namespace with identities of age, for backups that are encrypted: each key holds identities, a line each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identities_secret: Option<SecretName>,
    /// What is added to the Pods of the tests. Absent: backupTemplate.spec.jobTemplate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_template: Option<JobTemplate>,
}

impl Default for HistoryLimit {
    fn default() -> Self {
        Self { failed: DEFAULT_FAILED_KEPT }
    }
}
