//! What a plan waits on: the facts. Their words for users are in `manifests`, in `status/waiting.rs`.

use std::collections::BTreeSet;

use super::Unsafe;
use crate::adoption::Unadoptable;
use crate::ids::{ClusterId, MemberId, Revision};
use crate::incarnation::Order;
use crate::names::{MemberName, PeerUrl};
use crate::quorum_recovery::{Log, RecoverFrom};
use crate::record::{Loss, RecordDoubt};
use crate::restore::RestoreFailure;
use crate::rotation::Rotation;
use crate::snapshot::{AuthorityLoss, Database, KeptOutByAuth};
use crate::time::{ClockDifference, Instant};

/// What becomes of a member whose claim is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutlook {
    /// It moves to a new claim.
    Moves,
    /// It moves to a new claim, and is removed before the next member joins: there was no place for one more.
    MovesInPlace,
    /// It moves to a new claim, and there is no other member: the cluster has two until then.
    MovesAlone,
    /// It stays where it is: `spec.recovery.enabled` is false.
    MovesOnOrder,
    /// It stays where it is for now: it does not serve, no quorum does, or nothing is changed.
    Stays,
    /// The cluster goes to size zero.
    AtSizeZero,
    /// An order stops every member.
    Ordered,
    /// The EtcdCluster is deleted, and its data are to be kept.
    Deleted,
}

/// What a plan waits on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// `spec.paused`.
    Paused,
    /// Objects have names that this cluster needs, and are not owned by this EtcdCluster.
    ForeignObjects(Vec<String>),
    /// Volumes of an earlier cluster of this name exist; a person has to decide about them.
    ExistingData {
        /// The cluster IDs in their annotations.
        found: Vec<ClusterId>,
        /// The volumes.
        volumes: Vec<MemberName>,
        /// Those of them that are quarantined: none of these is adopted.
        quarantined: Vec<MemberName>,
        /// The cluster ID in the `adopt` annotation, if no volume has it.
        unmatched: Option<ClusterId>,
    },
    /// The volumes of the cluster with this id are to be adopted, and are not; why.
    AdoptionRefused(ClusterId, Unadoptable),
    /// The status of this EtcdCluster is that of another object, whose cluster had data; no volume of it exists.
    EarlierDataGone {
        /// The cluster ID in that status.
        cluster: ClusterId,
        /// Its voters.
        voters: Vec<MemberName>,
    },
    /// A backup tool created this EtcdCluster, without volumes and without a snapshot to begin with; which one.
    RestoredWithoutData(String),
    /// The data that are to be adopted contradict a field of the spec that is fixed later; a person has to correct it.
    AdoptionDiffers {
        /// The field.
        field: &'static str,
        /// The value that the data need.
        needed: &'static str,
        /// The value in the spec.
        found: &'static str,
    },
    /// A field of the spec is fixed, and was edited before the cluster ID was recorded, when members may have served.
    EditedTooLate {
        /// The field, from the object: `spec.tls.provider`.
        field: &'static str,
        /// The value that the members run with.
        committed: String,
        /// The value in the spec.
        found: String,
    },
    /// Two cluster IDs among the members (R12).
    SplitBrain(Vec<(MemberName, ClusterId)>),
    /// A member answers with another ID than the one recorded in status.
    WrongMember {
        /// The name of the Pod.
        member: MemberName,
        /// The ID in the answer.
        answers: MemberId,
        /// The ID in status.
        recorded: MemberId,
    },
    /// Certificates or Services are being created.
    Objects,
    /// The certificate authority is lost.
    AuthorityLost {
        /// Its Secret: `Secret default/demo-ca`.
        secret: String,
        /// How.
        loss: AuthorityLoss,
    },
    /// The certificate authority in this Secret has ended, so it signs nothing.
    AuthorityEnded(String),
    /// The authority that the spec names for a new cluster cannot be taken.
    AuthorityRefused {
        /// Its Secret: `Secret default/my-ca`.
        secret: String,
        /// Why.
        why: String,
    },
    /// An authority is being replaced, and this holds up its next step.
    Rotating(Rotation, Unsafe),
    /// An authority is being replaced, and clients have time until then.
    ClientsHaveTime(Rotation, Instant),
    /// The order to replace an authority is refused; why.
    RotationRefused(String),
    /// etcd's auth is being switched on or off, and what that waits for.
    AuthChanging(String),
    /// With etcd's auth on, the certificate that applications share is that of a user with the role root.
    ClientsAreRoot,
    /// These users have the role root, and the operator made none of them: auth is not enabled.
    OthersAreRoot(BTreeSet<String>),
    /// Users are to be deleted in etcd that nobody may be any more, and etcd is looked at again before.
    UsersToRevoke,
    /// `spec.auth.enabled` is false, and auth stays on: only the annotation with the cluster id lets it be switched off.
    AuthStaysOn(ClusterId),
    /// It is ordered off, and stays on for tenants of Kamaji; why.
    AuthOffRefused(Unsafe),
    /// A person enabled etcd's auth, and it refuses the operator what needs the role root.
    AuthNotOurs,
    /// An abandoned bootstrap attempt is being deleted.
    Clearing(&'static str),
    /// A Pod is starting.
    PodStarting(MemberName),
    /// A Pod cannot run as it is.
    PodStuck(MemberName, String),
    /// A Pod must be gone before the next step.
    PodStopping(MemberName),
    /// Its kubelet did not stop it in time: its node may be gone. It may last for hours.
    PodStopsLate {
        /// The member.
        member: MemberName,
        /// Its node.
        node: Option<String>,
    },
    /// A volume must be gone before the next step.
    VolumeGoing(MemberName),
    /// Somebody deleted the claim of a member. Its data live as long as its Pod, which is not stopped.
    ClaimTerminating {
        /// The member.
        member: MemberName,
        /// What becomes of it.
        outlook: ClaimOutlook,
    },
    /// A volume is missing. It is not created again empty: the member's data were on it.
    VolumeLost(MemberName),
    /// Z3: the cluster woke with older data than it was stopped with.
    DataWentBack {
        /// The revision that it was stopped at.
        had: Revision,
        /// The revision that its leader has.
        has: Revision,
    },
    /// Pods run that status does not record, and nothing identifies their data.
    UnknownPods(Vec<MemberName>),
    /// No quorum answers (R11).
    Quorum {
        /// Voters that answer.
        healthy: usize,
        /// Voters there are.
        voters: usize,
        /// Why the member list could not be read.
        why: String,
    },
    /// etcd's auth refuses the operator, which is no user.
    AuthEnabled(KeptOutByAuth),
    /// The members of a new cluster elect their first leader.
    FirstLeader,
    /// Nothing is started: the snapshot that the cluster is to begin with cannot be restored, or not yet.
    NoSnapshot(RestoreFailure),
    /// The agent of a member restores the snapshot, and why its last try failed, if it did.
    Restoring(MemberName, Option<RestoreFailure>),
    /// The agent of a member could not restore the snapshot, and tries again.
    RestoreFailed(MemberName, RestoreFailure),
    /// A member is about to be removed, and its clients have some seconds to go elsewhere (R24).
    ClientsLeaving(MemberName),
    /// A learner catches up.
    InSync {
        /// The learner.
        member: MemberName,
        /// It lacks at least so many entries, where it follows the leader and falls behind.
        behind: Option<u64>,
    },
    /// Learners did not get in sync, and the next one is added later.
    LearnersFailed {
        /// How many.
        count: u32,
        /// Why the last one did not.
        reason: String,
    },
    /// A member is not healthy.
    Sick(MemberName, String),
    /// Leadership has to move away from a member, and every other healthy voter was tried: no one took over.
    LeaderTransferFailed {
        /// The member that leads.
        leader: MemberName,
        /// To which members leadership was moved, and how often.
        tried: Vec<(MemberName, usize)>,
    },
    /// etcd's member list has a member that this EtcdCluster does not manage.
    UnmanagedMember(MemberId, PeerUrl),
    /// The desired version cannot follow the present one.
    VersionRefused(String),
    /// A backup comes before an upgrade, and is not complete; what it does.
    UpgradeBackup(String),
    /// The backup before an upgrade cannot be used; why, and what to do.
    UpgradeBackupFailed(String),
    /// A backup comes before the end of the cluster, and is not complete; what it does.
    FinalBackup(String),
    /// The cluster is to be deleted, and Kamaji may have tenants in it; what is known of them.
    DataStoreInUse(String),
    /// The cluster ends without the backup that was to come before; why.
    NoFinalBackup(String),
    /// A change of the spec is not committed yet.
    SafePoint(String),
    /// The record in status is not known to be whole.
    RecordDoubt(RecordDoubt),
    /// The operator's clock and the API server's differ.
    ClockDiffers(ClockDifference),
    /// A safety rule forbids the next step for now.
    Unsafe(Unsafe),
    /// The data of a member are lost, and the grace period is not over.
    MayBeLost {
        /// The member.
        member: MemberName,
        /// What is lost.
        loss: Loss,
        /// It will be over in some seconds.
        is_due: bool,
    },
    /// Data of members may differ, and no majority of the voters is known to have the same.
    Undecided {
        /// The members that have the same data, group by group.
        groups: Vec<BTreeSet<MemberName>>,
        /// Voters that could not be compared.
        unknown: BTreeSet<MemberName>,
        /// Voters that end at their start because their data differ from a peer's.
        kept_out: Vec<MemberName>,
        /// How many voters there are.
        voters: usize,
    },
    /// This member makes a hash of its data, for the operator, and answers nothing meanwhile. Without it there is no quorum.
    Comparing(MemberName),
    /// Data of members may differ, and these voters cannot be compared with a majority of the voters that has the same.
    NotCompared {
        /// Voters that could not be compared.
        unknown: BTreeSet<MemberName>,
        /// Those of them that end at their start because their data differ from a peer's.
        kept_out: Vec<MemberName>,
    },
    /// The data of a member are lost, and `spec.recovery.enabled` is false.
    ReplacementDisabled {
        /// The member.
        member: MemberName,
        /// What is lost.
        loss: Loss,
    },
    /// A finished minor upgrade is being taken back, or that is being cancelled; what for.
    Downgrading(String),
    /// New defaults of the operator wait until other clusters have taken them; which.
    Wave(String),
    /// A member is being defragmented (N3).
    Defragmenting(MemberName),
    /// The database of a member stays full: compaction and defragmentation give it too little room.
    StillFull {
        /// The member.
        member: MemberName,
        /// Its database.
        database: Database,
        /// Whether the history is compacted by etcd itself, so that the operator may compact it too.
        compacts: bool,
    },
    /// A volume must have grown before the quota that it is to carry is committed.
    VolumeGrowing(MemberName),
    /// The quorum is being recovered, as ordered.
    Recovering {
        /// Whose data are kept.
        from: RecoverFrom,
        /// What the members have that reported it, or why they have nothing.
        logs: Vec<(MemberName, Result<Log, String>)>,
    },
    /// The order to recover the quorum cannot be followed; why, and what to do.
    RecoveryRefused(String),
    /// It is not known what a member has stored, whose volume may have more than the others; why, and what to do.
    NotRead {
        /// The member.
        member: MemberName,
        /// Why.
        why: String,
    },
    /// The order to recover the quorum has ended before anything was given up. The members are started again.
    RecoveryEnded {
        /// Its annotation was removed; else a quorum answers, or has its data.
        withdrawn: bool,
    },
    /// The last container of a member may still run; why, and what to do.
    MayRun {
        /// The member.
        member: MemberName,
        /// Why.
        why: String,
    },
    /// The order for another incarnation is not begun; why. The cluster goes on as it is.
    OrderWaits(Order, RestoreFailure),
    /// The data that the order gives up are backed up first. Nothing else holds the order up, except what is read again then.
    BackupFirst(Order),
    /// The snapshot of the order was read too long ago. Nothing else holds the order up.
    ReadAgain(Order),
    /// The members make way for another incarnation.
    RestoringInPlace(Order),
}
