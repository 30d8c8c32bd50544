//! Condition types, and how conditions are set and read. Users match on a type, so it keeps its name.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

use crate::reason::{Explanation, Reason};

/// The type of a condition in `status.conditions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// Of every kind, and what tools wait for. Of an EtcdCluster: true when clients are served, every voter is healthy, and the spec is
    /// carried out; also while it is paused or at size zero, if that is what the spec asks for. The message is the one sentence that
    /// matters most now.
    Ready,
    /// Of every kind. True when nothing goes on before a person acts.
    Stalled,
    /// True when a client that connects through the client Service can read and write: the Service has an endpoint behind
    /// which a quorum serves, and no alarm refuses writes.
    Available,
    /// True when a change is under way; the reason names it, the message says what it waits for.
    Progressing,
    /// True when a member is not healthy, or there are fewer members than the target asks for.
    Degraded,
    /// True when more than half of the voters answer and follow one leader.
    QuorumAvailable,
    /// True once the cluster ID is recorded: the cluster was bootstrapped, or the data of an earlier one were adopted.
    Bootstrapped,
    /// True when the members match the spec.
    UpToDate,
    /// True when every certificate exists and is valid, or TLS is disabled.
    TlsReady,
    /// True when etcd's auth is on: each client may do what its user may. Absent where it is neither on nor wanted.
    AuthReady,
    /// True when Kamaji has a DataStore for the cluster, as the annotation operator.etcd.io/kamaji-datastore asks for. Absent where neither
    /// that asks for one nor one is left.
    DataStoreReady,
    /// True when members of two clusters answer under one name. The operator then changes nothing.
    SplitBrain,
    /// True when volumes of an earlier cluster of this name exist, and a person has to decide about them.
    ExistingData,
    /// True while a member is being replaced. `status.recovery` has how the last replacement ended.
    SingleMemberRecoveryActive,
    /// True when the version in the spec must not follow the one that the members run. Every Pod stays as it is.
    VersionUpgradeBlocked,
    /// False when an EtcdBackupSchedule of the cluster has no good backup of late, its backups fail, or its last restore test did. Absent
    /// where no schedule names the cluster.
    BackupHealthy,
}

impl ConditionType {
    /// Every type, in the order in which status shows them.
    pub const ALL: [Self; 16] = [
        Self::Ready,
        Self::Stalled,
        Self::Available,
        Self::Progressing,
        Self::Degraded,
        Self::QuorumAvailable,
        Self::Bootstrapped,
        Self::UpToDate,
        Self::TlsReady,
        Self::AuthReady,
        Self::DataStoreReady,
        Self::SplitBrain,
        Self::ExistingData,
        Self::SingleMemberRecoveryActive,
        Self::VersionUpgradeBlocked,
        Self::BackupHealthy,
    ];

    /// The name in `status.conditions[].type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Stalled => "Stalled",
            Self::Available => "Available",
            Self::Progressing => "Progressing",
            Self::Degraded => "Degraded",
            Self::QuorumAvailable => "QuorumAvailable",
            Self::Bootstrapped => "Bootstrapped",
            Self::UpToDate => "UpToDate",
            Self::TlsReady => "TLSReady",
            Self::AuthReady => "AuthReady",
            Self::DataStoreReady => "DataStoreReady",
            Self::SplitBrain => "SplitBrain",
            Self::ExistingData => "ExistingData",
            Self::SingleMemberRecoveryActive => "SingleMemberRecoveryActive",
            Self::VersionUpgradeBlocked => "VersionUpgradeBlocked",
            Self::BackupHealthy => "BackupHealthy",
        }
    }
}

impl fmt::Display for ConditionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: impl IntoIterator<Item = &'a Condition>, type_: &str) -> Option<&'a Condition> {
    conditions.into_iter().find(|one| one.type_ == type_)
}

/// The condition of a type, if it is true.
pub fn find_true<'a>(
    conditions: impl IntoIterator<Item = &'a Condition>,
    type_: &str,
) -> Option<&'a Condition> {
    find(conditions, type_).filter(|one| holds(one) == Some(true))
}

/// The condition of a type, if it is false.
pub fn find_false<'a>(
    conditions: impl IntoIterator<Item = &'a Condition>,
    type_: &str,
) -> Option<&'a Condition> {
    find(conditions, type_).filter(|one| holds(one) == Some(false))
}

/// Whether the condition of a type is true. One that is absent is not.
pub fn is_true<'a>(conditions: impl IntoIterator<Item = &'a Condition>, type_: &str) -> bool {
    find_true(conditions, type_).is_some()
}

/// Whether a condition is true; `None` if nobody knows.
pub fn holds(condition: &Condition) -> Option<bool> {
    match condition.status.as_str() {
        "True" => Some(true),
        "False" => Some(false),
        _ => None,
    }
}

/// The reason and the message of a condition; `None` for a reason of a newer operator.
pub fn explanation(condition: &Condition) -> Option<Explanation> {
    Some(Explanation::new(Reason::named(&condition.reason)?, &*condition.message))
}

/// Sets one condition: `None` where nobody knows whether it holds. Its time changes only with its status.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: &str,
    holds: impl Into<Option<bool>>,
    why: &Explanation,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = match holds.into() {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    let at = conditions.iter().position(|one| one.type_ == type_);
    let before = at.map(|at| &conditions[at]).filter(|before| before.status == status);
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: why.reason().to_string(),
        message: why.message().to_owned(),
        last_transition_time: before.map_or_else(|| Time(now), |before| before.last_transition_time.clone()),
        observed_generation: generation,
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Gives a condition that exists another reason and message.
pub fn explain(conditions: &mut [Condition], type_: &str, why: &Explanation) {
    if let Some(condition) = conditions.iter_mut().find(|one| one.type_ == type_) {
        why.reason().as_str().clone_into(&mut condition.reason);
        why.message().clone_into(&mut condition.message);
    }
}
