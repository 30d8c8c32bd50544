//! One member in status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One member: what is latched of it, and how it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its name, which is also that of its Pod and its volume: NAME-0, NAME-1, ... Never used for another member.
    pub name: String,

    /// Its id in etcd, in hexadecimal; absent until etcd gave one. Latched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Where in its life it is. Latched.
    pub phase: MemberPhase,

    /// Since when it is in this phase, to the millisecond: deadlines are counted from it. Latched.
    pub phase_since: MicroTime,

    /// Why it goes, in phase Leaving. Latched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LeavingReason")]
    pub leaving: Option<LeavingReason>,

    /// The uid of its volume: a volume of that name with another uid is not its volume. Latched.
    #[serde(rename = "volumeUID", skip_serializing_if = "Option::is_none")]
    pub volume_uid: Option<String>,

    /// What etcd's member list says it is; absent while it is not in the list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Role")]
    pub role: Option<Role>,

    /// It leads the cluster.
    #[serde(default)]
    pub is_leader: bool,

    /// It answers, follows a leader and reports no error.
    #[serde(default)]
    pub healthy: bool,

    /// The etcd version that it says it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The node that its Pod is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,

    /// The claim of its volume; absent for a member in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,

    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Since when it is healthy, or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Where in its life a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemberPhase {
    /// One of the set that founds the cluster, before the cluster id is latched.
    Seed,
    /// Promised a name; becomes a learner, then a voter.
    Joining,
    /// A voter.
    Voter,
    /// To be removed, or removed and being cleared away.
    Leaving,
}

/// Why a member goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LeavingReason {
    /// The cluster shrinks.
    Shrink,
    /// It did not get in sync within its deadline.
    RolledBack,
    /// Its data are gone for good and the others have quorum.
    Lost,
    /// A member of ours that was forgotten: a delayed call landed late.
    Stray,
    /// Somebody else removed it from etcd.
    Removed,
}

/// What a member is in etcd's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// It counts for the quorum.
    Voter,
    /// It receives the data and does not count.
    Learner,
}
