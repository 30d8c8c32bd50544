//! The status of an EtcdCluster: what is observed, and the facts and intents that outlive the operator.
//!
//! What the operator must not forget is marked *Recorded*: it is written before the operator acts on it. Everything else
//! is for people and is computed again each time.
//!
//! An operator reads every status, also one that a newer operator wrote. Fields and values that it does not know never
//! make the object unreadable. A new release follows these rules: a field never changes its type or meaning; a new value of
//! a recorded enum, and every new fact that an older operator must not ignore, raises [`FORMAT_VERSION`].

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::bootstrap::RestoreStatus;

mod incarnation;
mod member;
mod quarantine;
mod quorum_recovery;
mod replacement;
mod target;

/// The format that this operator writes, and the newest that it knows. Of a newer one it writes conditions and figures only.
pub const FORMAT_VERSION: u32 = 1;

pub use incarnation::{IncarnationStatus, OrderedBy, ReplacingStatus, RestoreOrderRef, WaitingOrder};
pub use member::{LeavingReason, MemberPhase, MemberStatus, Role};
pub use quarantine::QuarantinedVolume;
pub use quorum_recovery::{ChosenMember, LastContainer, QuorumRecoveryStatus};
pub use replacement::{LossCause, RecoveryResult, RecoveryStatus, ReplacementStatus, SuspectedLoss};
pub use target::{PodTarget, StorageTarget, TargetStatus};

/// What the operator observes and has decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdClusterStatus {
    /// The format of this status. An operator that does not know the format restarts lost Pods and changes nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_version: Option<u32>,

    /// The SHA-256 of the record: of all fields that are recorded. A record without its hash was cut, edited, or restored in part. Nothing
    /// is begun by it before a person confirms it with the annotation operator.etcd.io/confirm-record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record_hash: Option<String>,

    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// What the cluster does now, in one word. The conditions say more.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "Phase")]
    pub phase: Option<Phase>,

    /// The message of condition Ready, cut for tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,

    /// The cluster ID that etcd gave, in hexadecimal. Recorded once: from then on no member is started as part of a new
    /// cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,

    /// The bootstrap token of the members. It contains the uid of this object, so that no two clusters have the same
    /// token. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_token: Option<String>,

    /// How many member Pods there are.
    pub current_replicas: u32,

    /// How many members serve: started voters that answer.
    pub ready_replicas: u32,

    /// How many members etcd's member list has, learners included.
    pub member_count: u32,

    /// The member ID of the leader, in hexadecimal; absent while there is no leader.
    #[serde(rename = "leaderID", skip_serializing_if = "Option::is_none")]
    pub leader_id: Option<String>,

    /// The etcd version that the members run: the lowest, while they differ. A member that restarts counts with the version
    /// that it ran last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,

    /// The etcd version of the committed target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_version: Option<String>,

    /// The label selector of the member Pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,

    /// How the cluster was, or is being, bootstrapped. The members of the attempt are in phase Bootstrap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapStatus>,

    /// The present incarnation of the cluster, if another one was there before: by which order it began. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "IncarnationStatus")]
    pub incarnation: Option<IncarnationStatus>,

    /// The order to replace the present incarnation, while its members are being stopped and their volumes quarantined. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "ReplacingStatus")]
    pub replacing: Option<ReplacingStatus>,

    /// The orders to replace the present incarnation that are not begun, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting_orders: Vec<WaitingOrder>,

    /// Where the status of another object came with this one, as after a restore of Kubernetes' objects: what its cluster was. Until its
    /// volumes are adopted or a new cluster is bootstrapped. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierStatus>,

    /// The recovery of a lost quorum that is under way, as the annotation operator.etcd.io/recover-quorum-from orders. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "QuorumRecoveryStatus")]
    pub quorum_recovery: Option<QuorumRecoveryStatus>,

    /// The value of the annotation operator.etcd.io/recover-quorum-from that was followed, or not followed because a quorum answered. It is
    /// not followed again. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent_quorum_recovery: Option<String>,

    /// The committed spec: an edit is committed at safe points only, so that two plans never mix. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "TargetStatus")]
    pub target: Option<TargetStatus>,

    /// The last spec that was accepted, as JSON. While a newer one is refused, the cluster is kept as this one says. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_spec: Option<String>,

    /// The number that the next new member gets in its name; a number is never used twice. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_ordinal: Option<u32>,

    /// The cluster is at size zero: its Pods are stopped, its volumes and member identities are kept. Recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hibernating: bool,

    /// The revision that etcd had when the cluster went to size zero. It goes once the cluster is seen to have that revision again after it
    /// woke. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_at_revision: Option<i64>,

    /// The Secret with all that an application connects with, once it exists. By this field tools for service bindings know an
    /// EtcdCluster as a provisioned service (servicebinding.io). Absent while etcd's auth refuses its certificate: bind an EtcdUser then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binding: Option<BindingStatus>,

    /// How far etcd's auth is switched on; absent where it is off, or not the operator's. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "AuthStatus")]
    pub auth: Option<AuthStatus>,

    /// The time in which clients with the certificate in NAME-client-tls and NAME-connection go on as before auth was enabled. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "ClientGraceStatus")]
    pub client_grace: Option<ClientGraceStatus>,

    /// The value of the annotation operator.etcd.io/disable-auth that was followed, or stood beside a spec that wanted auth. It is not
    /// followed again before it was taken off. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent_disable_auth: Option<String>,

    /// The certificates of the cluster; absent with TLS disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<CertificatesStatus>,

    /// Learners that were given up one after another: adding a member fails. Absent once a learner became a voter, or the spec
    /// was edited. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "FailedLearnersStatus")]
    pub failed_learners: Option<FailedLearnersStatus>,

    /// How the agent's program comes into the Pods of this cluster, where the operator's own way failed. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "AgentDeliveryStatus")]
    pub agent_delivery: Option<AgentDeliveryStatus>,

    /// The member that the operator is defragmenting. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "DefragmentingStatus")]
    pub defragmenting: Option<DefragmentingStatus>,

    /// Since when the data of members are known to differ. The operator compares them until all agree. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "MicroTime")]
    pub data_differ_since: Option<MicroTime>,

    /// While data are known to differ: the voters whose data were just seen to be the same, if they are a quorum.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data_agreed_by: Vec<String>,

    /// Every member that has a name and is not yet removed completely.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<MemberStatus>,

    /// Volumes of members that were replaced, or that somebody removed from etcd: kept for `spec.recovery.keepVolumes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub quarantined_volumes: Vec<QuarantinedVolume>,

    /// The replacement of a member that is under way, and how the last one ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "RecoveryStatus")]
    pub recovery: Option<RecoveryStatus>,

    /// Which conditions are true, why, and since when.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// The older minor version that members go back to, because the data of all of them allow it. Absent once every member runs it.
    /// Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goes_back_to: Option<String>,

    /// The members take new defaults of the operator, such as another image of the agent, one after another. It counts against the number
    /// of clusters that may do so at a time. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes_defaults: Option<TurnStatus>,
}

/// What the cluster does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Nothing was started yet.
    Pending,
    /// The first members are being started.
    Bootstrapping,
    /// Every member is healthy, and there are as many as the spec asks for.
    Running,
    /// Members are being added or removed.
    Scaling,
    /// The cluster goes to size zero.
    Hibernating,
    /// The cluster is at size zero.
    Hibernated,
    /// The cluster comes back from size zero.
    Waking,
    /// Its members make way for others, which begin with a snapshot, as an EtcdRestore orders.
    Restoring,
    /// It serves, and a member is not healthy.
    Degraded,
    /// It does not serve: no quorum, or no ready Pod.
    Unavailable,
    /// A person must decide; the conditions name what.
    Blocked,
    /// The object is being deleted.
    Deleting,
}

impl Phase {
    /// The value in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Bootstrapping => "Bootstrapping",
            Self::Running => "Running",
            Self::Scaling => "Scaling",
            Self::Hibernating => "Hibernating",
            Self::Hibernated => "Hibernated",
            Self::Waking => "Waking",
            Self::Restoring => "Restoring",
            Self::Degraded => "Degraded",
            Self::Unavailable => "Unavailable",
            Self::Blocked => "Blocked",
            Self::Deleting => "Deleting",
        }
    }
}

/// A Secret that applications are bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BindingStatus {
    /// Its name: NAME-connection.
    pub name: String,
}

/// How far etcd's auth is switched on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AuthStatus {
    /// Preparing: members get the operator's credential, and the user root is made. On: it is on, and stays so until it is switched off by
    /// order.
    pub stage: String,
}

/// The time that clients have once auth is enabled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ClientGraceStatus {
    /// When it began. Absent: it is over, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// The certificates of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CertificatesStatus {
    /// The sha256 of the certificate of the authority of clients (Secret NAME-ca), in hexadecimal. Members trust this authority at the port
    /// of clients, and it alone signs the certificates of servers and clients. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,

    /// The same of the authority of peers (Secret NAME-peer-ca), which is trusted at the port of peers. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_authority: Option<String>,

    /// The certificates of the authorities that are recorded here: what members trust can be written, whatever becomes of Secrets. Recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["fingerprint"]))]
    pub authorities: Vec<AuthorityStatus>,

    /// The authority of clients is a copy of the one in the Secret that `autoCfg.caBundleSecret` named. Recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,

    /// The generation of trust: raised when what members are to trust changes. A Pod of an earlier one is restarted. Recorded.
    #[serde(skip_serializing_if = "is_zero")]
    pub trust: u32,

    /// The rotation of an authority that is under way. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<RotationStatus>,

    /// The order to replace an authority that was followed last: the text of the annotation operator.etcd.io/rotate-ca. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_rotation_order: Option<String>,

    /// When the first of the certificates ends, the authorities included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,
}

/// The certificate of an authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthorityStatus {
    /// Its sha256, in hexadecimal.
    pub fingerprint: String,

    /// The certificate (PEM).
    pub certificate: String,
}

/// The rotation of a certificate authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotationStatus {
    /// The authority that is replaced: clients or peers.
    pub authority: String,

    /// The sha256 of the certificate of the authority that has signed so far.
    pub from: String,

    /// The sha256 of the certificate of the one that takes its place.
    pub to: String,

    /// That one is a copy of the one in the Secret that `autoCfg.caBundleSecret` names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,

    /// How far it is. Trust: members and clients learn to trust the new one. Sign: the new one signs. Drop: members forget the earlier one.
    pub stage: String,

    /// Since when it is in this stage.
    pub since: MicroTime,

    /// Since when every Secret that clients read has what this stage is about. `tls.rotation.clientGrace` counts from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<MicroTime>,
}

/// A turn to take new defaults of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnStatus {
    /// When it began, or when the last member was restarted. After ten minutes without a restart other clusters take the place.
    pub since: MicroTime,

    /// How many members have the new defaults.
    pub restarted: u32,
}

/// A defragmentation that the operator ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefragmentingStatus {
    /// The member.
    pub member: String,

    /// The uid of its Pod: the process in the next one does not defragment.
    pub pod_uid: String,

    /// How often etcd had been restarted in that Pod.
    pub restarts: u32,

    /// When it was ordered.
    pub since: MicroTime,
}

/// Learners that did not get in sync in time. Each used up a name and a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedLearnersStatus {
    /// How many in a row.
    pub count: u32,

    /// Why the last one did not get in sync.
    pub last_reason: String,

    /// When the last one was given up.
    pub last_time: MicroTime,

    /// When the next one is added, unless the spec is edited before.
    pub next_try: Time,
}

/// How the agent's program comes into the Pods of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDeliveryStatus {
    /// The way.
    pub method: AgentDelivery,

    /// Why it is not an image volume.
    pub reason: String,
}

/// A way for the agent's program to come into a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AgentDelivery {
    /// An init container copies it.
    InitContainer,
}

/// How the cluster was, or is being, bootstrapped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BootstrapStatus {
    /// How many attempts were started; 0 for a cluster that adopted earlier data. Recorded.
    pub attempt: u32,

    /// The uid of the object that adopted the data of an earlier cluster. Absent where the cluster was bootstrapped. A status
    /// with the uid of another object, such as one that a backup restored, is not followed. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adopted_by: Option<String>,

    /// The data were given up for a restore in place or a recovery once, and came back by adoption: an EtcdRestore that names their cluster
    /// ID is not carried out unless it says that it means them again. Recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub taken_back: bool,

    /// A member of this attempt had a leader, so that the attempt is not abandoned any more. Recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub had_leader: bool,

    /// The snapshot that the members begin with; absent where they begin with nothing. Recorded.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    #[schemars(with = "RestoreStatus")]
    pub restore: Option<RestoreStatus>,

    /// Why the attempt was abandoned, while its Pods and volumes are being deleted. Recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AbandonedReason")]
    pub abandoned: Option<AbandonedReason>,
}

/// What is left of the status of another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EarlierStatus {
    /// Its cluster ID.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,

    /// Its voters.
    pub voters: Vec<String>,

    /// Volumes of it existed since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub had_volumes: bool,
}

/// Why a bootstrap attempt was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AbandonedReason {
    /// A volume of the attempt is gone or was replaced.
    VolumeLost,
    /// An edit of the spec changes the bootstrap members.
    SpecEdited,
    /// A volume of the attempt was emptied, and etcd refuses to start on it.
    VolumeEmptied,
    /// A value of a newer operator.
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

impl EtcdClusterStatus {
    /// Why the status was written by a newer operator, if it was.
    pub fn from_newer_version(&self) -> Option<String> {
        let format = self.format_version.filter(|format| *format > FORMAT_VERSION);
        if let Some(format) = format {
            return Some(format!(
                "status.formatVersion is {format}, and this operator knows {FORMAT_VERSION}"
            ));
        }
        let unknown = |field: String| Some(format!("{field} has a value that this operator does not know"));
        if self.bootstrap.as_ref().is_some_and(|own| own.abandoned == Some(AbandonedReason::Unknown)) {
            return unknown("status.bootstrap.abandoned".to_owned());
        }
        self.members.iter().find_map(|member| {
            let field = match (member.phase, member.leaving) {
                (MemberPhase::Unknown, _) => "phase",
                (_, Some(LeavingReason::Unknown)) => "leaving",
                (_, _) => return None,
            };
            unknown(format!("status.members[{}].{field}", member.name))
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A value that only a newer operator knows counts as absent.
pub(crate) fn if_known<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}
