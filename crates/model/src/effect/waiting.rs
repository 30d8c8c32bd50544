//! What a plan waits on: the facts, by topic. Their words for users are in `manifests`, in `status/waiting`.

mod auth;
mod authority;
mod data;
mod edit;
mod recovery;
mod restore;
mod wave;

pub use auth::{AuthChanging, AuthWait};
pub use authority::{AuthorityWait, NotRotated, NotSigned, NotTaken};
pub use data::{EarlierData, FixedField};
pub use edit::{Downgrading, GivenUp, HeldUp, NoStep, PodTrouble, SafePoint, VersionRefused};
pub use recovery::{LastNode, LeftOut, MayRun, NotRead, RecoveryRefused, RecoveryWait};
pub use restore::{NoSnapshot, NotBegun, NotRestored, OrderWait, Unfit};
pub use wave::{TakingTurns, Wave};

use std::collections::BTreeSet;

use strum::{IntoStaticStr, VariantNames};

use super::Unsafe;
use crate::ids::{ClusterId, MemberId, Revision};
use crate::incarnation::Order;
use crate::names::{ClusterUid, MemberName, PeerUrl};
use crate::record::{Abandoned, Loss, RecordDoubt};
use crate::restore::RestoreFailure;
use crate::snapshot::{Database, Sick};
use crate::time::ClockDifference;

/// What becomes of a member whose claim is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
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
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Waiting {
    /// `spec.paused`.
    Paused,
    /// Objects have names that this cluster needs, and are not owned by this EtcdCluster.
    ForeignObjects(Vec<Foreign>),
    /// Data of an earlier cluster of this name exist, or did.
    EarlierData(EarlierData),
    /// A field of the spec is fixed, and was edited before the cluster ID was recorded, when members may have served.
    EditedTooLate(FixedField),
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
    /// An authority, or a certificate.
    Authority(AuthorityWait),
    /// etcd's auth.
    Auth(AuthWait),
    /// An abandoned bootstrap attempt is being deleted.
    Clearing(Abandoned),
    /// A Pod is starting.
    PodStarting(MemberName),
    /// A Pod cannot run as it is.
    PodStuck(MemberName, PodTrouble),
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
    /// No quorum answers (R11).
    Quorum {
        /// Voters that answer.
        healthy: usize,
        /// Voters there are.
        voters: usize,
        /// Why the member list could not be read, if it is known.
        why: Option<NoList>,
    },
    /// The members of a new cluster elect their first leader.
    FirstLeader,
    /// Nothing is started: the snapshot that the cluster is to begin with cannot be restored, or not yet.
    NoSnapshot(NoSnapshot),
    /// The agent of a member restores the snapshot, and why its last try failed, if it did.
    Restoring(MemberName, Option<RestoreFailure>),
    /// A member could not restore the snapshot, or does not have what was restored.
    NotRestored(MemberName, NotRestored),
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
    Sick(MemberName, Sick),
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
    VersionRefused(VersionRefused),
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
    SafePoint(SafePoint),
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
    /// A finished minor upgrade is being taken back, or that is being cancelled.
    Downgrading(Downgrading),
    /// New defaults of the operator wait.
    Wave(Wave),
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
    Recovery(RecoveryWait),
    /// An order for another incarnation.
    Order(Order, OrderWait),
}

/// An object that this EtcdCluster does not own.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Foreign {
    /// `Service default/demo`.
    Object(String),
    /// The Secret of a certificate authority of no volume of this cluster.
    Authority {
        /// `Secret default/demo-ca`.
        secret: String,
        /// The uid with which a person makes it this cluster's own.
        uid: ClusterUid,
    },
}

/// Why the member list could not be read.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NoList {
    /// What etcd or a client says.
    Says(String),
    /// The snapshot that the cluster began with has auth enabled, and the cluster has no client certificates.
    AuthWithoutTls,
}
