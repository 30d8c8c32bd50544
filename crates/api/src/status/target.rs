//! The committed target in status: the spec as it was committed at the last safe point, with defaults filled in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::{AccessMode, Medium, Retention};

/// The committed spec, with defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// How many voters; 0 hibernates the cluster.
    pub size: u32,

    /// The etcd version to run, without a leading "v".
    pub version: String,

    /// Whether clients and peers use TLS.
    pub tls: bool,

    /// Whether etcd's auth is on, or is being switched on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auth: bool,

    /// The Pod template.
    pub pod: PodTarget,

    /// The volumes.
    pub storage: StorageTarget,
}

/// The committed Pod template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTarget {
    /// A hash over everything that the Pods are built from; an annotation on every Pod.
    pub revision: String,

    /// The image is the one of the version, and not one that the user names.
    pub image_has_version: bool,

    /// Everything that the Pods are built from, as JSON. It is read by the operator only.
    pub template: String,
}

/// The volumes of members.
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

    /// The bytes that a volume requests.
    pub bytes: u64,

    /// The limit of its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,

    /// Whether volumes are kept or deleted when the cluster is deleted.
    pub when_deleted: Retention,

    /// Whether the volume of a member is kept or deleted when the cluster is scaled in.
    pub when_scaled: Retention,
}
