//! The replacement of members in status.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The replacement of a member that is under way, and how the last one ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecoveryStatus {
    /// The replacement that is under way. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<ReplacementStatus>,

    /// How the last replacement ended. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RecoveryResult")]
    pub last_result: Option<RecoveryResult>,

    /// The member that was, or was to be, replaced last. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_recovered_member: Option<String>,

    /// When the last replacement ended. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// What happened last, in words. Recorded.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A replacement that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacementStatus {
    /// The member that is replaced.
    pub member: String,

    /// Why.
    pub cause: LossCause,

    /// Since when, to the millisecond.
    pub since: MicroTime,

    /// The cluster has no place for another member, so this one is removed before the next one joins, although it is healthy. Its
    /// PersistentVolumeClaim is being deleted. Recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
}

/// The data of a member may be lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspectedLoss {
    /// Why.
    pub cause: LossCause,

    /// Since when, to the millisecond. The member is replaced if this is so for `spec.recovery.gracePeriod`.
    pub since: MicroTime,

    /// The uid of the Pod that was deleted when the grace period was over, so that the volume is looked at once more.
    #[serde(rename = "recheckedPodUID", skip_serializing_if = "Option::is_none")]
    pub rechecked_pod_uid: Option<String>,
}

/// Why a member is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LossCause {
    /// Its volume was emptied.
    DataMissing,
    /// The data on its volume belong to another cluster.
    ForeignData,
    /// The data on its volume belong to another member.
    ForeignIdentity,
    /// etcd cannot open its data.
    CorruptData,
    /// Its PersistentVolumeClaim is gone.
    VolumeGone,
    /// Its PersistentVolumeClaim is being deleted.
    ClaimTerminating,
    /// The node of its volume is gone for good.
    NodeGone,
    /// Its data differ from those of a majority.
    Inconsistent,
    /// A person ordered it.
    Ordered,
    /// Its data were in memory.
    InMemory,
    /// It never started, and has no data to start with.
    NeverStarted,
    /// A value of a newer operator.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// How a replacement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RecoveryResult {
    /// Another voter took its place.
    Succeeded,
    /// It was not needed any more: the member is back, or the order was taken back.
    Withdrawn,
    /// A value of a newer operator.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}
