//! The committed target in status: the spec as it was read at the last safe point, resolved.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::{AccessMode, Medium, PullPolicy, Retention};

/// The spec that was committed to, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// How many voters; 0 hibernates the cluster.
    pub size: u32,

    /// The etcd version to run, without a leading "v".
    pub version: String,

    /// Whether clients and peers speak TLS.
    pub tls: bool,

    /// What shapes the Pods.
    pub pod: PodTarget,

    /// What shapes the volumes.
    pub storage: StorageTarget,
}

/// What shapes the Pods of members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodTarget {
    /// A hash over everything that shapes a Pod; it stands on every Pod.
    pub revision: String,

    /// The whole reference of the etcd image.
    pub image: String,

    /// When the image is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PullPolicy")]
    pub image_pull_policy: Option<PullPolicy>,

    /// The Secrets with registry credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,

    /// The etcd flags beyond those that make up a member's identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,

    /// The user's labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// The user's annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,

    /// Requests and limits of the etcd container, as JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resources: String,
}

/// What shapes the volumes of members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageTarget {
    /// Disk ("") or "Memory".
    pub medium: Medium,

    /// The storage class; absent for the default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,

    /// How a volume may be mounted.
    pub access_mode: AccessMode,

    /// The bytes that a volume asks for.
    pub bytes: u64,

    /// The most bytes that it may be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,

    /// What becomes of volumes when the cluster is deleted.
    pub when_deleted: Retention,

    /// What becomes of the volume of a member that was scaled away.
    pub when_scaled: Retention,
}
