//! A quarantined volume in status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The volume of a member that was replaced, or that somebody removed from etcd. It is kept for a while and never used again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantinedVolume {
    /// The name of the PersistentVolumeClaim, which is also that of the member.
    pub name: String,

    /// Since when it is quarantined; absent if its annotation cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,

    /// When the operator deletes it; absent if only a person deletes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Time>,

    /// Why.
    #[serde(default)]
    pub reason: String,
}
