//! One member in status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One member: what is recorded of it, and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Its name, which is also that of its Pod and its volume: NAME-0, NAME-1, ... Never used for another member.
    pub name: String,

    /// Its member ID in etcd, in hexadecimal; absent until etcd gave one. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// Where it is in its life cycle. Recorded.
    pub phase: MemberPhase,

    /// Since when it is in this phase, to the millisecond: deadlines are counted from it. Recorded.
    pub phase_since: MicroTime,

    /// Why it is removed, in phase Leaving. Recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LeavingReason")]
    pub leaving: Option<LeavingReason>,

    /// The uid of its volume: a volume of that name with another uid is not its volume. Recorded.
    #[serde(rename = "volumeUID", skip_serializing_if = "Option::is_none")]
    pub volume_uid: Option<String>,

    /// Its role in etcd's member list; absent while it is not in the list.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::if_known")]
    #[schemars(with = "Role")]
    pub role: Option<Role>,

    /// It leads the cluster.
    #[serde(default)]
    pub is_leader: bool,

    /// It answers, follows a leader and reports no error.
    #[serde(default)]
    pub healthy: bool,

    /// The same as `healthy`, under the name that it has in the etcd-io operator.
    #[serde(default)]
    pub is_healthy: bool,

    /// It is a learner in etcd's member list. `role` has the same, and is absent where it is not known.
    #[serde(default)]
    pub is_learner: bool,

    /// The etcd version that it reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// The node of its Pod or, while there is none, of the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,

    /// The node on which the operator last saw it follow a leader; absent where that is the node of its Pod. When a quorum is lost, etcd
    /// may still run there, whatever Pod the member has by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_on_node_name: Option<String>,

    /// The PersistentVolumeClaim of its volume; absent for a member in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pvc_name: Option<String>,

    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// Since when it is healthy, or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,

    /// Its data may be lost. Recorded.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "super::if_known")]
    #[schemars(with = "super::SuspectedLoss")]
    pub suspected: Option<super::SuspectedLoss>,
}

/// Where a member is in its life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemberPhase {
    /// A bootstrap member, before the cluster ID is recorded.
    #[serde(alias = "Seed")]
    Bootstrap,
    /// It has a name, and becomes a learner, then a voter.
    Joining,
    /// A voter.
    Voter,
    /// It is being removed, or was removed and its Pod and volume are being deleted.
    Leaving,
    /// A value of a newer operator.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// Why a member is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LeavingReason {
    /// The cluster shrinks.
    Shrink,
    /// It did not catch up within its deadline.
    RolledBack,
    /// Its data are lost and the others have quorum.
    Lost,
    /// status had no entry for it: a delayed call arrived late.
    Stray,
    /// It was removed from etcd, and not by the operator.
    Removed,
    /// A person ordered that another member takes its place.
    Replaced,
    /// A value of a newer operator.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// The role of a member in etcd's member list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// It counts for the quorum.
    Voter,
    /// It receives the data and does not count.
    Learner,
}
