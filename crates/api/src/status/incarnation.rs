//! Which incarnation of the cluster there is, and by which order another one takes its place.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bootstrap::RestoreStatus;

/// The present incarnation of a cluster that was replaced at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncarnationStatus {
    /// How many incarnations there were before it. Its Pods carry the number in the label operator.etcd.io/incarnation.
    pub number: u32,

    /// The first ordinal of its members. Pods and volumes with lower ones are of earlier incarnations.
    pub first_ordinal: u32,

    /// By which order it began.
    pub ordered_by: OrderedBy,

    /// The cluster ID of the incarnation before it, in hexadecimal.
    #[serde(rename = "replacedClusterID")]
    pub replaced_cluster_id: String,

    /// How many members it began with; absent: as many as the spec asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,
}

/// The order to replace the present incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacingStatus {
    /// The order.
    pub ordered_by: OrderedBy,

    /// The cluster ID of the incarnation that is replaced, in hexadecimal.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,

    /// What the new incarnation begins with.
    pub restore: RestoreStatus,

    /// How many members it begins with; absent: as many as the spec asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<u32>,

    /// Every member was seen stopped. From then on the order is not withdrawn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,

    /// Since when.
    pub since: MicroTime,
}

/// Who ordered another incarnation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderedBy {
    /// An EtcdRestore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_restore: Option<RestoreOrderRef>,

    /// The annotation operator.etcd.io/recover-quorum-from: its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recover_quorum_from: Option<String>,
}

/// One EtcdRestore, and no later one of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreOrderRef {
    /// Its name.
    pub name: String,

    /// Its uid.
    pub uid: String,
}

/// An order that is not begun, and why. The cluster goes on as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitingOrder {
    /// The order.
    pub ordered_by: OrderedBy,

    /// Why, in one word: a reason as in conditions.
    pub reason: String,

    /// Why.
    pub message: String,
}
