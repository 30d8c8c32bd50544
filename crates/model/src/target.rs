//! The target: the spec, validated and resolved. The **committed** target is the copy in the record. It is replaced at
//! safe points only, so that an edit in the middle of a change cannot mix two plans.

use crate::version::Version;

/// Everything a user can ask of a cluster, resolved: defaults filled in, texts parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// How many voters; 0 hibernates the cluster.
    pub size: usize,
    /// The etcd version to run.
    pub version: Version,
    /// The Pod template of members.
    pub pod: PodTemplate,
    /// The volumes of members.
    pub storage: Storage,
    /// Whether clients and peers use TLS.
    pub tls: bool,
    /// Whether etcd's auth is on. The Pods have the operator's credential then; their template has that, too.
    pub auth: bool,
}

/// The Pod template: opaque to the planner, which compares revisions and never reads the content. Two templates are the
/// same exactly when their revisions are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodTemplate {
    /// Hash over the content, the version and the operator's own part of the Pod; an annotation on every Pod.
    pub revision: PodRevision,
    /// The image is the one of the target's version. An image that the user names may contain any version.
    pub image_has_version: bool,
    /// Everything that the Pod is built from, as canonical JSON. `manifests` writes and reads it.
    pub content: String,
    /// The quota of the database, as the content has it. `None`: it sets none, or no limit.
    pub quota: Option<u64>,
    /// etcd compacts its history by itself, as the content has it.
    pub compacts: bool,
}

/// Names a [`PodTemplate`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PodRevision(pub String);

/// The volume of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Disk or memory.
    pub medium: Medium,
    /// Storage class of new members' volumes; `None` is the default class.
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

/// Where the data of a member are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// A PersistentVolumeClaim: survives the Pod.
    Disk,
    /// Memory: lost with the Pod, and the member with it.
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
    /// This target with the size, storage class and retention of another one: they change no Pod that runs, and data may be retained at
    /// any time.
    #[must_use]
    pub fn with_what_is_always_safe(mut self, other: &Self) -> Self {
        self.size = other.size;
        self.storage.class.clone_from(&other.storage.class);
        self.storage.when_deleted = other.storage.when_deleted;
        self.storage.when_scaled = other.storage.when_scaled;
        self
    }

    /// Whether only the operator's own part of the Pods differs: the agent's image, or the shape that a release gives them.
    pub fn differs_by_operator_only(&self, other: &Self) -> bool {
        let pod = PodTemplate { revision: other.pod.revision.clone(), ..self.pod.clone() };
        self.pod.revision != other.pod.revision && Self { pod, ..self.clone() } == *other
    }

    /// Whether `other` bootstraps the same set of members: everything but retention is equal.
    pub fn bootstraps_the_same_set(&self, other: &Self) -> bool {
        self.size == other.size
            && self.version == other.version
            && self.pod == other.pod
            && self.tls == other.tls
            && self.auth == other.auth
            && self.storage.medium == other.storage.medium
            && self.storage.class == other.storage.class
            && self.storage.access_mode == other.storage.access_mode
            && self.storage.bytes == other.storage.bytes
            && self.storage.limit_bytes == other.storage.limit_bytes
    }
}
