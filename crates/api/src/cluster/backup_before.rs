//! Backups that the operator takes by itself, before it does what cannot be undone.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backup::{Encryption, JobTemplate};
use crate::destination::Destination;
use crate::rules::{backup, rule};

/// How long a backup before an upgrade may take, when the spec does not say.
pub const DEFAULT_UPGRADE_DEADLINE: &str = "1h";

/// How long deletion waits for its backup, when the spec does not say.
pub const DEFAULT_DELETION_DEADLINE: &str = "10m";

/// What is done before etcd is upgraded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeSpec {
    /// A backup that is complete before the first member gets a higher minor version than it runs. If it fails, no member gets it. Its
    /// deadline is 1h if it has none. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_before: Option<Box<BackupBefore>>,
}

/// What is done before the members of a deleted EtcdCluster are stopped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletionSpec {
    /// A backup that is taken before the members are stopped. If it fails, or is not complete within its deadline (10m if it has none),
    /// deletion goes on without it, and the volumes are kept whatever storageSpec.retention says. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_backup: Option<Box<BackupBefore>>,
}

/// An EtcdBackup that the operator creates by itself. It stays when the EtcdCluster is deleted, and so does its object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupBefore {
    /// Where it is kept: exactly one of s3, gcs, azure and pvc. spec.backup.allowedStores applies.
    pub destination: Destination,
    /// To whom the object is encrypted. Absent: it is not encrypted by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// How long it may take in all, such as 30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule(backup::DURATION, "deadline must be a duration such as 1h, 10m or 45s"),
    ]))]
    pub deadline: Option<String>,
    /// How many bytes a second are read from the member at most, such as 20Mi. Absent: as fast as the store takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "backup::rate")]
    pub rate_limit: Option<Quantity>,
    /// What is added to the Pods of its Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_template: Option<JobTemplate>,
}
