//! The status of an EtcdCluster: what is seen, and the facts and intents that outlive the operator.
//!
//! What the operator must not forget is marked *latched*: it is written before it is acted on. Everything else is a
//! picture for people and is computed anew each time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod member;
mod target;

pub use member::{LeavingReason, MemberPhase, MemberStatus, Role};
pub use target::{PodTarget, StorageTarget, TargetStatus};

/// What the operator sees and has decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdClusterStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What the cluster does now, in one word. The conditions say more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")]
    pub phase: Option<Phase>,

    /// The id that etcd gave the cluster, in hexadecimal. Latched once, for ever: from then on no member is ever
    /// started as a new cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// The token that the members were founded with. It contains the uid of this object, so that no two clusters can
    /// ever be taken for one. Latched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_token: Option<String>,

    /// How many member Pods there are.
    pub current_replicas: u32,

    /// How many members serve: started voters that answer.
    pub ready_replicas: u32,

    /// How many members etcd's own list has, learners included.
    pub member_count: u32,

    /// The id of the member that leads, in hexadecimal; absent while there is no leader.
    #[serde(rename = "leaderID", skip_serializing_if = "Option::is_none")]
    pub leader_id: Option<String>,

    /// The etcd version that the members run; the lowest, while they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,

    /// The etcd version of the committed target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_version: Option<String>,

    /// The label selector of the member Pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// How the cluster was, or is being, founded. The members of the attempt are those in phase Seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapStatus>,

    /// The spec that was committed to: an edit is taken over at safe points only, so that two plans never mix. Latched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetStatus>,

    /// The number that the next new member gets in its name; a number is never used twice. Latched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_ordinal: Option<u32>,

    /// The cluster is at size zero: its Pods are stopped, its volumes and member identities kept. Latched.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hibernating: bool,

    /// Every member that was promised a name and is not yet wholly gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<MemberStatus>,

    /// What holds, what does not, why, and since when.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// What the cluster does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Nothing has begun yet.
    Pending,
    /// The first members are being started.
    Bootstrapping,
    /// Every member is healthy and there are as many as asked for.
    Running,
    /// Members are being added or removed.
    Scaling,
    /// The cluster goes to size zero.
    Hibernating,
    /// The cluster is at size zero.
    Hibernated,
    /// The cluster comes back from size zero.
    Waking,
    /// It serves, and some member is not healthy.
    Degraded,
    /// It does not serve: no quorum.
    Unavailable,
    /// A human must decide; the conditions say what.
    Blocked,
    /// The object is being deleted.
    Deleting,
}

impl Phase {
    /// The word in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Bootstrapping => "Bootstrapping",
            Self::Running => "Running",
            Self::Scaling => "Scaling",
            Self::Hibernating => "Hibernating",
            Self::Hibernated => "Hibernated",
            Self::Waking => "Waking",
            Self::Degraded => "Degraded",
            Self::Unavailable => "Unavailable",
            Self::Blocked => "Blocked",
            Self::Deleting => "Deleting",
        }
    }
}

/// How the cluster was, or is being, founded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BootstrapStatus {
    /// How many attempts were begun; 0 for a cluster that adopted earlier data. Latched.
    pub attempt: u32,

    /// Why the attempt was given up, while its Pods and volumes are being cleared away. Latched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AbandonedReason")]
    pub abandoned: Option<AbandonedReason>,
}

/// Why an attempt to found the cluster was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AbandonedReason {
    /// A volume of the set is gone or is another one.
    VolumeLost,
    /// The spec was edited in what shapes the set.
    SpecEdited,
    /// A volume of the set was emptied behind our back, and etcd refuses to start it.
    VolumeEmptied,
}
