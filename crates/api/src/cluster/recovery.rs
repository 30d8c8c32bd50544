//! What becomes of members that are lost, and of their volumes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::rule;

/// How long the volume of a member that was replaced or removed is kept, when the spec does not say: a week.
pub const DEFAULT_KEEP_VOLUMES: &str = "168h";

/// What becomes of members that are lost, and of their volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecoverySpec {
    /// How long the volume of a member is kept that was replaced, or that somebody removed from etcd: such as 168h (the
    /// default), 1h30m or 45s. It is quarantined: never used again, listed in status.quarantinedVolumes, and deleted
    /// after this time, if every member is healthy. With storageSpec.retention.whenScaled Retain only a person deletes it.
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule("self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",
            "recovery.keepVolumes must be a duration such as 168h, 1h30m or 45s"),
    ]))]
    pub keep_volumes: String,
}

impl Default for RecoverySpec {
    fn default() -> Self {
        Self { keep_volumes: DEFAULT_KEEP_VOLUMES.to_owned() }
    }
}
