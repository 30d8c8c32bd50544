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

/// A kind whose conditions and events have reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named after the kinds")]
pub enum ReasonOf {
    EtcdCluster,
    EtcdBackup,
    EtcdBackupSchedule,
    EtcdRestore,
    EtcdUser,
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident: $($kind:ident),+;)*) => {
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

            /// The reason of a name in status; `None` for one of a newer operator.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().find(|known| known.as_str() == name).copied()
            }

            /// The kinds that give this reason. `BackupHealthy` of an EtcdCluster repeats those of its schedules, and an EtcdRestore
            /// those of its EtcdCluster.
            pub fn kinds(self) -> &'static [ReasonOf] {
                match self {
                    $(Self::$name => &[$(ReasonOf::$kind),+],)*
                }
            }
        }
    };
}

reasons! {
    /// No operator has looked at the object yet. The API server sets this, from the CustomResourceDefinition.
    Pending: EtcdCluster, EtcdBackup, EtcdBackupSchedule, EtcdRestore, EtcdUser;
    /// Nothing waits for a person: `Stalled` is False.
    NotStalled: EtcdCluster, EtcdBackup, EtcdBackupSchedule, EtcdRestore, EtcdUser;
    /// The cluster matches its spec.
    Reconciled: EtcdCluster;
    /// The members of a new cluster are being started.
    Bootstrapping: EtcdCluster, EtcdRestore;
    /// The cluster has a cluster ID: it was bootstrapped, or the data of an earlier cluster were adopted.
    Bootstrapped: EtcdCluster;
    /// The EtcdBackup that the cluster is to begin with does not exist, or is not complete; or the newest one is looked for. No member is started.
    RestoreWaiting: EtcdCluster;
    /// The snapshot of an EtcdRestore was read too long ago to begin with it now. It is read again.
    RestoreReadAgain: EtcdCluster;
    /// The data that an EtcdRestore gives up are backed up before any member is stopped.
    RestoreBackupFirst: EtcdCluster, EtcdRestore;
    /// The backup of the data that an EtcdRestore gives up has failed, or cannot be ordered.
    RestoreBackupFailed: EtcdRestore;
    /// The snapshot that the cluster is to begin with does not go with the spec.
    RestoreRefused: EtcdCluster;
    /// The object that the cluster is to begin with is not in its store.
    RestoreSourceGone: EtcdCluster;
    /// The store refuses the credentials for the snapshot that the cluster is to begin with.
    RestoreForbidden: EtcdCluster;
    /// The store has no whole backup of the cluster that is named.
    NoBackupFound: EtcdCluster, EtcdRestore;
    /// Backups of several etcd clusters go by the name that is given, and which one is meant cannot be told.
    BackupAmbiguous: EtcdCluster, EtcdRestore;
    /// The snapshot that the cluster begins with is older than `notOlderThan` allows. No member starts.
    RestoreStale: EtcdCluster;
    /// A member could not restore the snapshot that the cluster begins with. It tries again.
    RestoreFailed: EtcdCluster;
    /// An EtcdRestore is carried out: the members make way for new ones, which begin with a snapshot.
    RestoringInPlace: EtcdCluster, EtcdRestore;
    /// A kubelet has not confirmed that a Pod of the old members stopped, so no new member starts.
    PodNotTerminated: EtcdCluster;
    /// A lost quorum is being recovered from the data of one member, as the annotation orders.
    RecoveringQuorum: EtcdCluster;
    /// The order to recover a lost quorum cannot be followed.
    RecoveryRefused: EtcdCluster;
    /// A member may still run somewhere, so the quorum is not recovered yet.
    MemberMayRun: EtcdCluster;
    /// A bootstrap attempt was abandoned. Its Pods and volumes are being deleted; a new attempt follows.
    BootstrapAbandoned: EtcdCluster;
    /// Clients are served.
    Available: EtcdCluster;
    /// The client Service has no endpoint behind which a quorum serves.
    NoEndpoint: EtcdCluster;
    /// An alarm of etcd refuses writes.
    AlarmActive: EtcdCluster;
    /// Members are being added or removed.
    Scaling: EtcdCluster;
    /// The cluster goes to size zero: its Pods stop, its volumes are kept.
    Hibernating: EtcdCluster;
    /// The cluster is at size zero.
    Hibernated: EtcdCluster;
    /// The cluster comes back from size zero, on its volumes.
    Waking: EtcdCluster;
    /// Lost Pods are being created again on their own volumes.
    Restarting: EtcdCluster;
    /// Pods are being replaced one after another, to match the spec.
    RollingOut: EtcdCluster;
    /// The EtcdCluster is being deleted.
    Deleting: EtcdCluster, EtcdUser;
    /// `spec.paused` is true: the operator observes and reports, and changes nothing.
    Paused: EtcdCluster, EtcdRestore;
    /// More than half of the voters answer and follow one leader.
    QuorumReached: EtcdCluster;
    /// Too few voters answer.
    QuorumLost: EtcdCluster;
    /// etcd's auth refuses the operator, which is no user.
    AuthEnabled: EtcdCluster, EtcdUser;
    /// The members have not been observed, or not recently enough.
    NotObserved: EtcdCluster;
    /// Every member is healthy.
    MembersHealthy: EtcdCluster;
    /// A member became healthy again.
    MemberHealthy: EtcdCluster;
    /// A member is not healthy; the message names it.
    MemberUnhealthy: EtcdCluster;
    /// There are fewer members than the spec asks for.
    MembersMissing: EtcdCluster;
    /// A new member joins as a learner.
    MemberJoining: EtcdCluster;
    /// Learners did not get in sync in time; the next one is added later.
    LearnersFailed: EtcdCluster;
    /// A learner became a voter.
    MemberPromoted: EtcdCluster;
    /// A member is being removed.
    MemberLeaving: EtcdCluster;
    /// A member was removed; its Pod is gone.
    MemberRemoved: EtcdCluster;
    /// A Pod cannot run; the message says why.
    PodStuck: EtcdCluster;
    /// Somebody deleted the PersistentVolumeClaim of a member. Its data live as long as its Pod, which the operator does not stop.
    ClaimTerminating: EtcdCluster;
    /// The cluster woke from size zero with older data than it was stopped with.
    DataWentBack: EtcdCluster;
    /// A volume is gone, or another volume has its name.
    VolumeLost: EtcdCluster;
    /// The volume of a member that was replaced, or that a person removed from etcd, is kept for a while.
    VolumeQuarantined: EtcdCluster;
    /// An image volume failed, so an init container brings the agent into Pods of this cluster.
    ImageVolumeFailed: EtcdCluster;
    /// Objects have names that this cluster needs, and are not owned by this EtcdCluster.
    ForeignObjects: EtcdCluster;
    /// Volumes of an earlier cluster of this name exist. A person has to decide about them.
    ExistingData: EtcdCluster;
    /// There are no volumes of an earlier cluster.
    NoExistingData: EtcdCluster;
    /// Members of two clusters answer under one name.
    SplitBrain: EtcdCluster;
    /// Every member that answers belongs to one cluster.
    SingleClusterID: EtcdCluster;
    /// A Pod answers with another member ID than the one recorded in status.
    MemberMismatch: EtcdCluster;
    /// etcd's member list has a member that this EtcdCluster does not manage.
    UnmanagedMember: EtcdCluster;
    /// The spec cannot be carried out; the message says what to change.
    SpecInvalid: EtcdCluster;
    /// A change of the spec waits until the change before it is finished.
    SpecPending: EtcdCluster;
    /// The requested version cannot follow the version that runs.
    VersionRefused: EtcdCluster;
    /// A backup is taken before a higher minor version is committed, as `spec.upgrade.backupBefore` says.
    UpgradeBackupRunning: EtcdCluster;
    /// The backup before an upgrade cannot be used, so no member gets the version.
    UpgradeBackupFailed: EtcdCluster;
    /// A backup is taken before the members of a deleted cluster are stopped, as `spec.deletion.finalBackup` says.
    FinalBackupRunning: EtcdCluster;
    /// Deletion goes on without the backup that `spec.deletion.finalBackup` asks for.
    FinalBackupMissing: EtcdCluster;
    /// A safety rule forbids the next step for now; the message names it.
    UnsafeChange: EtcdCluster;
    /// Every certificate exists.
    CertificatesIssued: EtcdCluster;
    /// Certificates are being issued.
    CertificatesMissing: EtcdCluster, EtcdUser;
    /// A certificate should have been renewed, or the authority ends soon.
    CertificateExpiring: EtcdCluster;
    /// A certificate, or the authority, has ended.
    CertificateExpired: EtcdCluster;
    /// The Secret of the certificate authority is gone, or has another authority. Certificates cannot be renewed.
    AuthorityLost: EtcdCluster, EtcdUser;
    /// The authority that the spec names for a new cluster cannot be taken.
    AuthorityRefused: EtcdCluster;
    /// A certificate authority is being replaced by another one.
    RotatingAuthority: EtcdCluster;
    /// The certificate authority of clients is being replaced, and a client that does not follow is cut off at the time in the message.
    ClientsMustFollow: EtcdCluster;
    /// The same in the last day of that time.
    ClientsCutOffSoon: EtcdCluster;
    /// A certificate authority is being replaced, and something has held that up for more than a day.
    RotationHeldUp: EtcdCluster;
    /// A certificate authority is not replaced, though that is ordered or the spec names another one.
    RotationRefused: EtcdCluster;
    /// etcd's auth is on.
    AuthOn: EtcdCluster;
    /// etcd's auth is on, and users of it are of EtcdUsers that do not exist any more.
    UsersWithoutEtcdUser: EtcdCluster;
    /// etcd's auth is on, and the certificate that applications share goes on for a time.
    ClientsHaveTime: EtcdCluster;
    /// etcd's auth is on, and a person gave the user of the certificate that applications share all keys.
    ClientsHaveAllKeys: EtcdCluster;
    /// etcd's auth is being switched on or off; the message says what is waited for.
    ChangingAuth: EtcdCluster;
    /// With etcd's auth on, the certificate that applications share is that of a user with the role root.
    ClientsAreRoot: EtcdCluster;
    /// etcd's auth is not enabled, because users that the operator did not make have the role root.
    OthersAreRoot: EtcdCluster;
    /// `spec.auth.enabled` is not true, and etcd's auth stays on until the annotation with the cluster ID lets it be switched off.
    AuthStaysOn: EtcdCluster;
    /// etcd's auth is on, and neither the spec has it nor did the operator enable it.
    NotOurs: EtcdCluster;
    /// Kamaji has a DataStore for the cluster.
    Published: EtcdCluster;
    /// This Kubernetes has no kind DataStore: Kamaji is not installed.
    CrdMissing: EtcdCluster;
    /// The operator may not read or write DataStores.
    NoRights: EtcdCluster;
    /// The operator does not admit DataStores of EtcdClusters of this namespace.
    NamespaceNotAdmitted: EtcdCluster;
    /// etcd's auth is off, so the tenants of a DataStore would read each other's data.
    AuthOff: EtcdCluster;
    /// etcd does not compact its history by itself, and API servers of Kamaji do not ask it to.
    CompactionOff: EtcdCluster;
    /// The key of the authority of clients is not here, and Kamaji signs with it.
    NoAuthorityKey: EtcdCluster;
    /// The cluster does not serve yet, or not now, so no DataStore is made for it.
    NotServing: EtcdCluster;
    /// A DataStore, or the Secret of its credential, has the name and is not of this EtcdCluster.
    NameTaken: EtcdCluster;
    /// Tenants use a DataStore that is no longer asked for. It stays, and the deletion of its EtcdCluster waits.
    DataStoreInUse: EtcdCluster;
    /// A DataStore is being deleted.
    DataStoreTerminating: EtcdCluster;
    /// Kamaji reports that a DataStore is not ready.
    DataStoreNotReady: EtcdCluster;
    /// Something else changes a DataStore again and again.
    DataStoreContested: EtcdCluster;
    /// The EtcdCluster is deleted in the foreground: Kubernetes deletes its Pods, though tenants use its DataStore.
    DeletedInForeground: EtcdCluster;
    /// The EtcdCluster is deleted with orphans: nobody keeps up its Pods, though tenants use its DataStore.
    DeletedWithOrphans: EtcdCluster;
    /// The namespace is being deleted, and its Pods with it, though tenants use a DataStore of the cluster.
    NamespaceTerminating: EtcdCluster;
    /// `tls.provider` is `disabled`.
    TlsDisabled: EtcdCluster, EtcdUser;
    /// The API server refuses a write of the operator.
    WriteRefused: EtcdCluster, EtcdBackup, EtcdBackupSchedule, EtcdRestore, EtcdUser;
    /// No PodDisruptionBudget admits the eviction of a Pod that is to be restarted.
    EvictionBlocked: EtcdCluster;
    /// The API server does not answer, or the outcome of a write is unknown.
    ApiUnavailable: EtcdCluster;
    /// The status of the EtcdCluster could not be written, so nothing else is done.
    StatusNotWritten: EtcdCluster;
    /// etcd refuses a change of its membership.
    MembershipChangeRefused: EtcdCluster;
    /// A member that is to be removed or restarted leads, and no other member took leadership over.
    LeaderTransferFailed: EtcdCluster;
    /// The data of a member are lost; it is replaced when the grace period is over.
    DataLost: EtcdCluster;
    /// Data of members differ, and no majority of the voters is known to have the same.
    DataInconsistent: EtcdCluster, EtcdBackup;
    /// A member is being replaced.
    Replacing: EtcdCluster;
    /// No member is being replaced.
    NoReplacement: EtcdCluster;
    /// The data of a member are lost, and `spec.recovery.enabled` is false.
    ReplacementDisabled: EtcdCluster;
    /// A member was replaced.
    MemberReplaced: EtcdCluster;
    /// A newer operator wrote the status. Members are kept running, and nothing else is done.
    StatusFromNewerVersion: EtcdCluster;
    /// The operator's clock differs from the API server's, so grace periods and other waits take longer.
    ClockDiffers: EtcdCluster;
    /// The record in status does not have its hash: fields were dropped, edited, or restored in part. Members are kept running, and
    /// nothing else is done.
    RecordIncomplete: EtcdCluster;
    /// The CustomResourceDefinition is older than the operator, so status loses what the operator records.
    CrdTooOld: EtcdBackup, EtcdRestore, EtcdUser;
    /// A finished minor upgrade is being taken back, or that is being cancelled.
    Downgrading: EtcdCluster;
    /// New defaults of the operator wait until other clusters have taken them.
    WaitingForWave: EtcdCluster;
    /// Members run a version that is known to corrupt data.
    KnownCorruptVersion: EtcdCluster;
    /// A member is being defragmented.
    Defragmenting: EtcdCluster, EtcdBackup;
    /// A volume has not grown yet to the size that the spec asks for.
    VolumeGrowing: EtcdCluster;
    /// A backup waits for another one of the same cluster.
    BackupQueued: EtcdBackup;
    /// As many backups run over all clusters as `--max-backups-running` admits.
    BackupLimitReached: EtcdBackup, EtcdBackupSchedule;
    /// The EtcdCluster that a backup is of does not exist.
    ClusterNotFound: EtcdBackup, EtcdRestore, EtcdUser;
    /// The EtcdCluster that a backup is of does not serve now.
    ClusterNotServing: EtcdBackup, EtcdUser;
    /// A Job takes a backup.
    BackupRunning: EtcdBackup;
    /// A backup is in the store.
    BackupComplete: EtcdBackup;
    /// The object of a backup was in the store at the last look.
    SeenInStore: EtcdBackup, EtcdBackupSchedule;
    /// The object of a backup, or its manifest, is not in the store any more, or is not what was written.
    GoneFromStore: EtcdBackup, EtcdBackupSchedule;
    /// The object of a backup seems to have been written again, and is read to its end by the next look.
    ChangedInStore: EtcdBackup;
    /// An attempt failed, and the next one waits for its time.
    RetryPending: EtcdBackup;
    /// A backup was not complete within `spec.deadline`.
    DeadlineExceeded: EtcdBackup;
    /// A Job ended without an answer.
    JobFailed: EtcdBackup, EtcdBackupSchedule, EtcdRestore;
    /// `spec.backup.allowedStores` of the cluster does not have the destination, or that is the volume of a member.
    DestinationNotAllowed: EtcdBackup;
    /// The object of an EtcdBackup that is being deleted is being removed from the store.
    RemovingObject: EtcdBackup;
    /// An EtcdBackup was deleted, and its object stays in the store.
    ObjectAbandoned: EtcdBackup;
    /// A Job could not read what it was ordered to do.
    OrderRefused: EtcdBackup, EtcdRestore;
    /// No member can give a snapshot.
    NoSource: EtcdBackup;
    /// The snapshot broke off, or its hash is wrong.
    SnapshotFailed: EtcdBackup;
    /// The snapshot was taken too slowly for etcd.
    SnapshotTooSlow: EtcdBackup;
    /// `spec.rateLimit` is too low for the database.
    RateLimitTooLow: EtcdBackup;
    /// The store does not answer.
    StoreUnavailable: EtcdBackup, EtcdRestore;
    /// The store refuses the credentials, or there are none.
    StoreForbidden: EtcdBackup, EtcdRestore;
    /// The bucket, the container or the object does not exist.
    NotInStore: EtcdBackup, EtcdRestore;
    /// An object is not what its manifest says.
    ChecksumMismatch: EtcdBackup, EtcdRestore;
    /// An object is encrypted, and no identity fits.
    CannotDecrypt: EtcdBackup, EtcdRestore;
    /// Something else has the key of the object.
    ObjectNotOwned: EtcdBackup, EtcdUser;
    /// There is not enough room.
    NoSpace: EtcdBackup, EtcdRestore;
    /// The version, the size or the content of an object do not go with what it is restored into.
    SnapshotIncompatible: EtcdBackup, EtcdRestore;
    /// The backups of a schedule come about.
    BackupsHealthy: EtcdBackupSchedule;
    /// The last backup of a schedule failed.
    BackupFailing: EtcdBackupSchedule;
    /// A schedule has no good backup yet.
    NoBackupYet: EtcdBackupSchedule;
    /// A schedule cannot be read, has no next time, or asks for backups too often.
    ScheduleInvalid: EtcdBackupSchedule;
    /// `spec.suspend` is true.
    Suspended: EtcdBackupSchedule;
    /// A backup that was missed is left out, because it would begin too late.
    BackupMissed: EtcdBackupSchedule;
    /// The annotation `operator.etcd.io/backup-now` ordered a backup.
    BackupOrdered: EtcdBackupSchedule;
    /// The annotation `operator.etcd.io/catalog` was carried out, or cannot be.
    CatalogEnded: EtcdBackupSchedule;
    /// The API server refuses the EtcdBackup of a schedule.
    TemplateRefused: EtcdBackupSchedule;
    /// Retention deleted an EtcdBackup.
    BackupPruned: EtcdBackupSchedule;
    /// A restore test passed.
    RestoreTested: EtcdBackupSchedule;
    /// No restore test has ended yet.
    RestoreNotTested: EtcdBackupSchedule;
    /// A schedule should have another good backup by now.
    BackupOverdue: EtcdBackupSchedule;
    /// The last restore test of a schedule failed.
    RestoreTestFailed: EtcdBackupSchedule;
    /// The EtcdCluster has another cluster ID than the EtcdRestore names, or than the EtcdBackup was ordered of.
    ClusterIDMismatch: EtcdBackup, EtcdRestore;
    /// The snapshot that an EtcdRestore names is of another EtcdCluster, and spec.snapshot.of does not say so.
    OtherCluster: EtcdRestore;
    /// An EtcdRestore waits until its EtcdCluster takes it up.
    OrderPending: EtcdRestore;
    /// An EtcdRestore could not begin within its startingDeadline, and never will.
    OrderExpired: EtcdRestore;
    /// The new members serve the data of the snapshot.
    RestoredInPlace: EtcdRestore;
    /// The user of an EtcdUser is as its spec asks for, and its Secret exists.
    UserReady: EtcdUser;
    /// The user of an EtcdUser, its role or its Secret is being made.
    UserPending: EtcdUser;
    /// The user is as the spec asks for, but etcd's auth is disabled: whoever is let in may read and write everything.
    AuthDisabled: EtcdUser;
    /// `spec.auth.allowedPrefixes` of the EtcdCluster does not allow what the EtcdUser asks for.
    PermissionNotAllowed: EtcdUser;
    /// etcd has no role that `spec.roles` of the EtcdUser names.
    RoleNotFound: EtcdUser;
}

impl From<FailureKind> for Reason {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::OrderRefused => Self::OrderRefused,
            FailureKind::NoSource => Self::NoSource,
            FailureKind::SnapshotFailed => Self::SnapshotFailed,
            FailureKind::TooSlow => Self::SnapshotTooSlow,
            FailureKind::StoreUnavailable => Self::StoreUnavailable,
            FailureKind::StoreForbidden => Self::StoreForbidden,
            FailureKind::NotInStore => Self::NotInStore,
            FailureKind::NoBackup => Self::NoBackupFound,
            FailureKind::Ambiguous => Self::BackupAmbiguous,
            FailureKind::Mismatch => Self::ChecksumMismatch,
            FailureKind::CannotDecrypt => Self::CannotDecrypt,
            FailureKind::LimitTooLow => Self::RateLimitTooLow,
            FailureKind::NotOurs => Self::ObjectNotOwned,
            FailureKind::NoSpace => Self::NoSpace,
            FailureKind::Unfit => Self::SnapshotIncompatible,
            FailureKind::Stale => Self::RestoreStale,
            FailureKind::InUse => Self::MemberMayRun,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
