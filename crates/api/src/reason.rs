//! Reasons of conditions and events, always together with a message.
//!
//! Users and alerts match on reasons, so a reason keeps its name and its meaning. Every reason has a row in
//! `docs/runbook.md`; a test compares both.

use std::fmt;

use crate::job::FailureKind;

/// A reason with its message: what conditions and events show. The two are set together and never apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Explanation {
    reason: Reason,
    message: String,
}

impl Explanation {
    /// Explains with a message: what happened, to which object, why, and what to do.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The word to match on.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The text to read.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why a condition is as it is, or why an event was sent: `status.conditions[].reason` and `reason` of events.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in status and events.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// The cluster matches its spec.
    Reconciled,
    /// The members of a new cluster are being started.
    Bootstrapping,
    /// The cluster has a cluster ID: it was bootstrapped, or the data of an earlier cluster were adopted.
    Bootstrapped,
    /// The EtcdBackup that the cluster is to begin with does not exist, or is not complete. No member is started.
    RestoreWaiting,
    /// The snapshot that the cluster is to begin with does not go with the spec.
    RestoreRefused,
    /// The object that the cluster is to begin with is not in its store.
    RestoreSourceGone,
    /// The store refuses the credentials for the snapshot that the cluster is to begin with.
    RestoreForbidden,
    /// A member could not restore the snapshot that the cluster begins with. It tries again.
    RestoreFailed,
    /// An EtcdRestore is carried out: the members make way for new ones, which begin with a snapshot.
    RestoringInPlace,
    /// A Pod of the old members does not go, so no new member starts.
    OldMemberStays,
    /// A lost quorum is being recovered from the data of one member, as the annotation orders.
    RecoveringQuorum,
    /// The order to recover a lost quorum cannot be followed.
    RecoveryRefused,
    /// A member may still run somewhere, so the quorum is not recovered yet.
    MemberMayRun,
    /// A bootstrap attempt was abandoned. Its Pods and volumes are being deleted; a new attempt follows.
    BootstrapAbandoned,
    /// Clients are served.
    Available,
    /// The client Service has no endpoint behind which a quorum serves.
    NoEndpoint,
    /// An alarm of etcd refuses writes.
    AlarmActive,
    /// Members are being added or removed.
    Scaling,
    /// The cluster goes to size zero: its Pods stop, its volumes are kept.
    Hibernating,
    /// The cluster is at size zero.
    Hibernated,
    /// The cluster comes back from size zero, on its volumes.
    Waking,
    /// Lost Pods are being created again on their own volumes.
    Restarting,
    /// Pods are being replaced one after another, to match the spec.
    RollingOut,
    /// The EtcdCluster is being deleted.
    Deleting,
    /// `spec.paused` is true: the operator observes and reports, and changes nothing.
    Paused,
    /// More than half of the voters answer and follow one leader.
    QuorumReached,
    /// Too few voters answer.
    QuorumLost,
    /// The members have not been observed, or not recently enough.
    NotObserved,
    /// Every member is healthy.
    MembersHealthy,
    /// A member became healthy again.
    MemberHealthy,
    /// A member is not healthy; the message names it.
    MemberUnhealthy,
    /// There are fewer members than the spec asks for.
    MembersMissing,
    /// A new member joins as a learner.
    MemberJoining,
    /// Learners did not get in sync in time; the next one is added later.
    LearnersFailed,
    /// A learner became a voter.
    MemberPromoted,
    /// A member is being removed.
    MemberLeaving,
    /// A member was removed; its Pod is gone.
    MemberRemoved,
    /// A Pod cannot run; the message says why.
    PodStuck,
    /// A volume is gone, or another volume has its name.
    VolumeLost,
    /// The volume of a member that was replaced, or that somebody removed from etcd, is kept for a while.
    VolumeQuarantined,
    /// An image volume failed, so an init container brings the agent into Pods of this cluster.
    ImageVolumeFailed,
    /// Objects have names that this cluster needs, and are not owned by this EtcdCluster.
    ForeignObjects,
    /// Volumes of an earlier cluster of this name exist. A person has to decide about them.
    ExistingData,
    /// There are no volumes of an earlier cluster.
    NoExistingData,
    /// Members of two clusters answer under one name.
    SplitBrain,
    /// Every member that answers belongs to one cluster.
    OneCluster,
    /// A Pod answers with another member ID than the one recorded in status.
    MemberMismatch,
    /// etcd's member list has a member that this EtcdCluster does not manage.
    UnmanagedMember,
    /// The spec cannot be carried out; the message says what to change.
    SpecInvalid,
    /// A change of the spec waits until the change before it is finished.
    SpecPending,
    /// The requested version cannot follow the version that runs.
    VersionRefused,
    /// A backup is taken before a higher minor version is committed, as `spec.upgrade.backupBefore` says.
    UpgradeBackupRunning,
    /// The backup before an upgrade cannot be used, so no member gets the version.
    UpgradeBackupFailed,
    /// A backup is taken before the members of a deleted cluster are stopped, as `spec.deletion.finalBackup` says.
    FinalBackupRunning,
    /// Deletion goes on without the backup that `spec.deletion.finalBackup` asks for.
    FinalBackupMissing,
    /// A safety rule forbids the next step for now; the message names it.
    UnsafeChange,
    /// Every certificate exists.
    CertificatesIssued,
    /// Certificates are being issued.
    CertificatesMissing,
    /// A certificate should have been renewed, or the authority ends soon.
    CertificateExpiring,
    /// A certificate, or the authority, has ended.
    CertificateExpired,
    /// The Secret of the certificate authority is gone, or has another authority. Certificates cannot be renewed.
    AuthorityLost,
    /// `tls.provider` is `disabled`.
    TlsDisabled,
    /// The API server refuses a write of the operator.
    WriteRefused,
    /// No PodDisruptionBudget admits the eviction of a Pod that is to be restarted.
    EvictionBlocked,
    /// The API server does not answer, or the outcome of a write is unknown.
    ApiUnavailable,
    /// The status of the EtcdCluster could not be written, so nothing else is done.
    StatusNotWritten,
    /// etcd refuses a change of its membership.
    MembershipChangeRefused,
    /// A member that is to be removed or restarted leads, and no other member took leadership over.
    LeadershipStays,
    /// The data of a member are lost; it is replaced when the grace period is over.
    DataLost,
    /// Data of members differ, and no majority of the voters is known to have the same.
    DataInconsistent,
    /// A member is being replaced.
    Replacing,
    /// No member is being replaced.
    NoReplacement,
    /// The data of a member are lost, and `spec.recovery.enabled` is false.
    ReplacementOff,
    /// Replacements failed as often as `spec.recovery.maxRetries` admits.
    ReplacementFailed,
    /// A member was replaced.
    MemberReplaced,
    /// A newer operator wrote the status. Lost Pods are restarted, and nothing else is done.
    StatusFromNewerVersion,
    /// The namespace refuses the operator's PriorityClass, so Pods come without it.
    PriorityClassRefused,
    /// A finished minor upgrade is being taken back, or that is being cancelled.
    Downgrading,
    /// New defaults of the operator wait until other clusters have taken them.
    WaitingForWave,
    /// Members run a version that is known to corrupt data.
    VersionUnsound,
    /// A member is being defragmented.
    Defragmenting,
    /// A volume has not grown yet to the size that the spec asks for.
    VolumeGrowing,
    /// A backup waits for another one of the same cluster.
    BackupQueued,
    /// The EtcdCluster that a backup is of does not exist.
    ClusterNotFound,
    /// The EtcdCluster that a backup is of does not serve now.
    ClusterNotServing,
    /// A Job takes a backup.
    BackupRunning,
    /// A backup is in the store.
    BackupComplete,
    /// An attempt failed, and the next one waits for its time.
    RetryPending,
    /// A backup was not complete within `spec.deadline`.
    DeadlineExceeded,
    /// A Job ended without an answer.
    JobFailed,
    /// `spec.backup.allowedStores` of the cluster does not have the destination.
    DestinationNotAllowed,
    /// The object of an EtcdBackup that is being deleted is being removed from the store.
    RemovingObject,
    /// An EtcdBackup was deleted, and its object stays in the store.
    ObjectAbandoned,
    /// A Job could not read what it was ordered to do.
    OrderRefused,
    /// No member can give a snapshot.
    NoSource,
    /// The snapshot broke off, or its hash is wrong.
    SnapshotFailed,
    /// The store does not answer.
    StoreUnavailable,
    /// The store refuses the credentials, or there are none.
    StoreForbidden,
    /// The bucket, the container or the object does not exist.
    NotInStore,
    /// An object is not what its manifest says.
    Mismatch,
    /// An object is encrypted, and no identity fits.
    CannotDecrypt,
    /// Something else has the key of the object.
    NotOurs,
    /// There is not enough room.
    NoSpace,
    /// The version, the size or the content of an object do not go with what it is restored into.
    Unfit,
    /// The backups of a schedule come about.
    BackupsHealthy,
    /// The last backup of a schedule failed.
    BackupFailing,
    /// A schedule has no good backup yet.
    NoBackupYet,
    /// A schedule cannot be read, has no next time, or asks for backups too often.
    ScheduleInvalid,
    /// `spec.suspend` is true.
    Suspended,
    /// A backup that was missed is left out, because it would begin too late.
    BackupMissed,
    /// The API server refuses the EtcdBackup of a schedule.
    TemplateRefused,
    /// Retention deleted an EtcdBackup.
    BackupPruned,
    /// A restore test passed.
    RestoreTested,
    /// No restore test has ended yet.
    NotTested,
    /// A schedule should have another good backup by now.
    BackupOverdue,
    /// The last restore test of a schedule failed.
    RestoreTestFailed,
    /// The EtcdCluster has another cluster ID than the EtcdRestore names.
    ClusterIDMismatch,
    /// An EtcdRestore waits until its EtcdCluster takes it up.
    OrderPending,
    /// The new members serve the data of the snapshot.
    RestoredInPlace,
}

impl Reason {
    /// The first reason of the kinds that back up. They and all after it are set by their controllers, and not by `manifests`.
    pub const FIRST_OF_BACKUPS: Self = Self::BackupQueued;
}

impl From<FailureKind> for Reason {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::OrderRefused => Self::OrderRefused,
            FailureKind::NoSource => Self::NoSource,
            FailureKind::SnapshotFailed => Self::SnapshotFailed,
            FailureKind::StoreUnavailable => Self::StoreUnavailable,
            FailureKind::StoreForbidden => Self::StoreForbidden,
            FailureKind::NotInStore => Self::NotInStore,
            FailureKind::Mismatch => Self::Mismatch,
            FailureKind::CannotDecrypt => Self::CannotDecrypt,
            FailureKind::NotOurs => Self::NotOurs,
            FailureKind::NoSpace => Self::NoSpace,
            FailureKind::Unfit => Self::Unfit,
            FailureKind::InUse => Self::MemberMayRun,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
