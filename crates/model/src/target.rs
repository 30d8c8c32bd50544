//! What is desired: the spec, validated and resolved. The **committed** target is a copy of it in the record, replaced
//! at safe points only, so that an edit half way through a change cannot mix two plans.

use std::collections::BTreeMap;

use crate::version::Version;

/// Everything a user can ask of a cluster, resolved: defaults filled in, texts parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How many voters; 0 hibernates the cluster.
    pub size: usize,
    /// The etcd version to run.
    pub version: Version,
    /// What shapes the Pods of members.
    pub pod: PodShape,
    /// What shapes the volumes of members.
    pub storage: Storage,
    /// Whether clients and peers speak TLS.
    pub tls: bool,
}

/// What shapes a Pod. Two shapes are the same exactly when their revisions are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodShape {
    /// Hash over the rest and the version; written on every Pod.
    pub revision: PodRevision,
    /// The whole reference of the etcd image.
    pub image: String,
    /// `Always`, `IfNotPresent` or `Never`; `None` leaves it to Kubernetes.
    pub image_pull_policy: Option<String>,
    /// Names of Secrets with registry credentials.
    pub image_pull_secrets: Vec<String>,
    /// etcd flags beyond those that make up a member's identity, rendered, in order.
    pub flags: Vec<String>,
    /// Labels of the user.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the user.
    pub annotations: BTreeMap<String, String>,
    /// Resource requests and limits of the etcd container, as canonical JSON; empty if there are none.
    pub resources: String,
}

/// Names a [`PodShape`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PodRevision(pub String);

/// What shapes a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Disk or memory.
    pub medium: Medium,
    /// Storage class; `None` is the default class.
    pub class: Option<String>,
    /// Access mode, as Kubernetes writes it.
    pub access_mode: String,
    /// Requested bytes.
    pub bytes: u64,
    /// Limit in bytes, where one was given.
    pub limit_bytes: Option<u64>,
    /// What becomes of volumes when the cluster is deleted.
    pub when_deleted: Retention,
    /// What becomes of the volume of a member that was scaled away.
    pub when_scaled: Retention,
}

/// Where a member's data live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A PersistentVolumeClaim: survives the Pod.
    Disk,
    /// Memory: gone with the Pod, and the member with it.
    Memory,
}

/// What becomes of a volume that is no longer used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// It stays.
    Retain,
    /// It is deleted.
    Delete,
}

impl Target {
    /// This one with size and retention of another wish: they shape no Pod, and a wish to keep data is never too late.
    #[must_use]
    pub fn with_what_is_always_safe(mut self, wish: &Self) -> Self {
        self.size = wish.size;
        self.storage.when_deleted = wish.storage.when_deleted;
        self.storage.when_scaled = wish.storage.when_scaled;
        self
    }

    /// Whether `other` would bootstrap a different set of members: everything but what can be changed under them
    /// (retention).
    pub fn shapes_the_same_set(&self, other: &Self) -> bool {
        self.size == other.size
            && self.version == other.version
            && self.pod == other.pod
            && self.tls == other.tls
            && self.storage.medium == other.storage.medium
            && self.storage.class == other.storage.class
            && self.storage.access_mode == other.storage.access_mode
            && self.storage.bytes == other.storage.bytes
            && self.storage.limit_bytes == other.storage.limit_bytes
    }
}
