//! Condition types. Users match on them, so a type keeps its name.

use std::fmt;

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
