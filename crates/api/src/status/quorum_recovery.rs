//! The recovery of a lost quorum, as far as it must outlive the operator.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A recovery that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuorumRecoveryStatus {
    /// The value of the annotation operator.etcd.io/recover-quorum-from that is followed.
    pub from: String,

    /// Since when.
    pub since: MicroTime,

    /// Where each member ran. Nothing new begins before all of them are seen stopped.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["member"]))]
    pub containers: Vec<LastContainer>,

    /// The member whose data are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenMember>,
}

/// Where a member ran when the recovery began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastContainer {
    /// The member.
    pub member: String,

    /// The uid of its Pod; absent if there was none.
    #[serde(rename = "podUID", default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,

    /// The node of that Pod, or of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,

    /// Another node, on which the member last followed a leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_on_node_name: Option<String>,
}

/// The member whose data are kept, and what it had when it was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChosenMember {
    /// The member.
    pub member: String,

    /// The cluster that its log is of, in hexadecimal.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,

    /// Its member ID, in hexadecimal.
    #[serde(rename = "memberID")]
    pub member_id: String,

    /// The entry up to which everything is committed, and kept.
    pub committed_index: i64,

    /// The last entry that its database contains.
    pub consistent_index: i64,

    /// Its last entry. What comes after the committed one is lost.
    pub last_index: i64,

    /// The term of that entry.
    pub last_term: i64,

    /// raft's term.
    pub term: i64,

    /// The revision of its database.
    pub revision: i64,
}
