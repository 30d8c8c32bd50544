//! What becomes of members that are lost, and of their volumes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rules::rule;

/// How long the volume of a member that was replaced or removed is kept, when the spec does not say: a week.
pub const DEFAULT_KEEP_VOLUMES: &str = "168h";

/// How long data must be lost before their member is replaced, when the spec does not say. A node that restarts is back within this
/// time.
pub const DEFAULT_GRACE_PERIOD: &str = "10m";

/// What becomes of members that are lost, and of their volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecoverySpec {
    /// Whether a member whose data are lost is replaced: it is removed from etcd, and a new member takes its place. Its data are lost
    /// when its volume is gone, is empty, cannot be read or has the data of another member, or can only be used on a node that was
    /// deleted or has the taint node.kubernetes.io/out-of-service. A member that is silent, slow, on a node that is NotReady, or ends
    /// again and again is never replaced. The annotation operator.etcd.io/replace-member=NAME/ID orders a replacement, also where this
    /// is false. With medium Memory no edit restarts a member while this is false: its data go with its Pod.
    pub enabled: bool,

    /// How long the data of a member must be lost before it is replaced, such as 10m (the default). A volume that was missing for a
    /// moment replaces nobody.
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = [
        rule("self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$') && self != ''",
            "recovery.gracePeriod must be a duration such as 10m, 1h or 45s"),
    ]))]
    pub grace_period: String,

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
        Self {
            enabled: true,
            grace_period: DEFAULT_GRACE_PERIOD.to_owned(),
            keep_volumes: DEFAULT_KEEP_VOLUMES.to_owned(),
        }
    }
}
