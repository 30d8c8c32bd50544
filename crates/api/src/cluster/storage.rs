//! Where members keep their data.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::metadata::ExtraMetadata;
use crate::rules::{self, rule};

/// The size of a member's volume when the spec names none.
pub const DEFAULT_VOLUME_SIZE: &str = "2Gi";

/// Where each member keeps its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::storage()))]
pub struct StorageSpec {
    /// Disk ("", the default): a PersistentVolumeClaim for each member, which survives its Pod. "Memory": a tmpfs that
    /// is lost with the Pod, and the member with it; for tests and caches. Fixed once the cluster is bootstrapped.
    pub medium: Medium,

    /// The access mode of each volume: ReadWriteOnce (the default) or ReadWriteOncePod. Fixed once the cluster is
    /// bootstrapped.
    #[schemars(with = "String", length(max = 32), extend("x-kubernetes-validations" = [
        rule("self in ['ReadWriteOnce', 'ReadWriteOncePod']",
            "storageSpec.accessModes must be ReadWriteOnce or ReadWriteOncePod: every member has a volume of its own, \
             so one that is shared by pvcName (ReadWriteMany) is not supported"),
    ]))]
    pub access_modes: AccessMode,

    /// The storage class of each volume. Absent: the default class of the Kubernetes cluster. An edit applies to the volumes of members
    /// that are new from then on. The annotation operator.etcd.io/replace-member moves a member to such a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        rule("self.matches('^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$')",
            "storageSpec.storageClassName must be the name of a StorageClass"),
    ]))]
    pub storage_class_name: Option<String>,

    /// The size of each volume, such as 8Gi; 2Gi if absent. It can grow, never shrink. Volumes grow online, where their storage class
    /// allows expansion; a larger quota that follows from it waits for them.
    #[schemars(schema_with = "rules::quantity")]
    pub volume_size_request: Quantity,

    /// The limit of the size of a volume, for volumes that are created from then on. Absent or 0: no limit. Go programs
    /// with the types of the etcd-io operator write 0 where they leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::quantity")]
    pub volume_size_limit: Option<Quantity>,

    /// Not supported: the etcd-io operator uses it for one volume that all members share, and a member here has a
    /// volume of its own. It is refused with a message that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253), extend("x-kubernetes-validations" = [
        rule("self == ''", "storageSpec.pvcName is not supported: every member has a volume of its own; leave it out"),
    ]))]
    pub pvc_name: Option<String>,

    /// Whether volumes that are no longer used are kept or deleted.
    pub retention: RetentionPolicy,

    /// Labels and annotations of the PersistentVolumeClaims, such as those that a policy demands. Those that exist are patched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ExtraMetadata>,
}

/// The medium of a member's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Medium {
    /// A PersistentVolumeClaim.
    #[default]
    #[serde(rename = "")]
    Disk,
    /// A tmpfs.
    Memory,
}

/// How a volume may be mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessMode {
    /// By the Pods of one node.
    #[default]
    ReadWriteOnce,
    /// By one Pod.
    ReadWriteOncePod,
}

/// Whether volumes that are no longer used are kept or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetentionPolicy {
    /// When the EtcdCluster is deleted: Retain (the default) keeps the volumes, Delete deletes them.
    pub when_deleted: Retention,
    /// When the cluster is scaled in: Delete (the default) deletes its volume, Retain keeps it. It is never used again:
    /// a member that is added later starts empty.
    pub when_scaled: Retention,
}

/// Whether a volume is kept or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Retention {
    /// It stays.
    Retain,
    /// It is deleted.
    Delete,
}

impl Default for StorageSpec {
    fn default() -> Self {
        Self {
            medium: Medium::default(),
            access_modes: AccessMode::default(),
            storage_class_name: None,
            volume_size_request: Quantity(DEFAULT_VOLUME_SIZE.to_owned()),
            volume_size_limit: None,
            pvc_name: None,
            retention: RetentionPolicy::default(),
            metadata: None,
        }
    }
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self { when_deleted: Retention::Retain, when_scaled: Retention::Delete }
    }
}

impl AccessMode {
    /// The value in Kubernetes.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
        }
    }
}
