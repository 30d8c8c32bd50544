//! What the recovery of a lost quorum waits for.

use strum::{IntoStaticStr, VariantNames};

use super::{Unfit, VersionRefused};
use crate::names::MemberName;
use crate::quorum_recovery::{Log, RecoverFrom};
use crate::version::Version;

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum RecoveryWait {
    /// It is under way.
    Reads {
        /// Whose data are kept.
        from: RecoverFrom,
        /// What the members have that reported it, or why they have nothing.
        logs: Vec<(MemberName, Result<Log, String>)>,
    },
    /// The order cannot be followed; why.
    Refused(RecoveryRefused),
    /// It is not known what a member has stored, whose volume may have more than the others.
    NotRead(MemberName, NotRead),
    /// The last container of a member may still run.
    MayRun(MemberName, MayRun),
    /// The order has ended before anything was given up. The members are started again.
    Ended {
        /// Its annotation was removed; else a quorum answers, or has its data.
        withdrawn: bool,
    },
}

/// Why the order cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum RecoveryRefused {
    /// It is spent.
    Spent,
    /// A quorum answered a moment ago.
    TooSoon,
    /// The data are in memory.
    InMemory,
    /// etcd of this version forgets entries; the first one that does not.
    ForgetsEntries(Version, Version),
    /// This one is no member.
    NoMember(MemberName),
    /// Voters that have their data are a quorum.
    QuorumHasData {
        /// How many.
        readable: usize,
        /// Of how many.
        voters: usize,
    },
    /// Data were found to differ, and not whose are wrong.
    DataDiffer,
    /// This member has no data of this cluster.
    NoDataOf(MemberName),
    /// No member has.
    NoData,
    /// None of those that have data is chosen.
    LeftOut(Vec<(MemberName, LeftOut)>),
    /// The agent of this member could not take the snapshot.
    Agent(MemberName, String),
    /// The size is zero.
    SizeZero,
    /// The spec does not go with the snapshot.
    Unfit(Unfit),
    /// The version of the spec is refused.
    Version(VersionRefused),
}

/// Why a member is not chosen unless a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum LeftOut {
    /// Its data differ from what the others had.
    Differs,
    /// It was given up as lost.
    GivenUp,
    /// It was a learner, and etcd makes no cluster of one.
    Learner,
}

/// Why it is not known what a member has stored.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NotRead {
    /// Its volume has nothing, and is read once more; why it has nothing.
    OnceMore(String),
    /// Its Pod has taken a snapshot, and does not say what the volume has.
    Extracted,
    /// Its agent has not reported.
    Silent {
        /// What it or its Pod says.
        says: Option<String>,
        /// Whether a person may go on without it by naming another member.
        may_be_left: bool,
    },
}

/// Why the last container of a member may still run.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum MayRun {
    /// Its claim is being deleted, and its data would go with its Pod.
    ClaimTerminating(MemberName),
    /// Its Pod is not gone, on this node.
    PodThere(Option<String>),
    /// Nothing tells where it ran.
    NotRecorded,
    /// What its last node does is not certain.
    Node {
        /// The node.
        node: Option<String>,
        /// It followed its last leader there, and had a later Pod elsewhere.
        former: bool,
        /// What is known of the node.
        state: LastNode,
    },
}

/// What is known of the node on which a container may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum LastNode {
    /// Its kubelet stops what may run.
    Stopping,
    /// It does not report.
    Silent,
    /// The operator may not read it.
    NotKnown,
}
