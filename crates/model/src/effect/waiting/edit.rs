//! What an edit of the spec waits for, and which versions may follow each other.

use strum::{IntoStaticStr, VariantNames};

use super::NotSigned;
use crate::effect::Unsafe;
use crate::guard::GuardVerdict;
use crate::names::MemberName;
use crate::time::Span;
use crate::version::{Minor, Version};

/// Why an edit, or a part of it, is not committed yet.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum SafePoint {
    /// This learner is a voter first.
    Learner(MemberName),
    /// This learner makes way for the edit.
    LearnerMakesWay(MemberName, HeldUp),
    /// This learner is given up.
    LearnerGivenUp(MemberName, GivenUp),
    /// The minor upgrade before it is not finished: the data of this voter do not belong to what it runs yet.
    Unfinished {
        /// The voter.
        voter: MemberName,
        /// What it runs.
        runs: Minor,
        /// Whose data it has.
        data: Minor,
    },
    /// etcd's auth waits for the certificate of its user root, which cannot be signed.
    NoRootCertificate(NotSigned),
    /// Another minor version waits for claims that are being deleted.
    VersionAfterClaims,
    /// Size zero waits for claims that are being deleted.
    SizeZeroAfterClaims,
}

/// Why a learner is not promoted, and will not be soon.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum HeldUp {
    /// It has had no copy of the leader's database for longer than this.
    NoCopy(Span),
    /// This voter is not healthy.
    Voter(MemberName),
    /// It has not come closer to the leader.
    NoProgress,
}

/// Why a learner is rolled back.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum GivenUp {
    /// Its volume is gone, or is being deleted.
    VolumeGone,
    /// The size was edited.
    NotWanted,
    /// No member may join.
    Unsafe(Unsafe),
    /// This member is lost, and is replaced first.
    LostFirst(MemberName),
    /// A database is full.
    DatabaseFull,
    /// This voter has not been healthy for long, so none is promoted.
    VoterUnhealthy(MemberName),
    /// Data of members differ, and those of a learner are not compared.
    DataDiffer,
    /// It did not get in sync.
    NotInSync {
        /// Within this time.
        within: Span,
        /// What its Pod says, if it says something.
        trouble: Option<String>,
    },
}

impl GivenUp {
    /// The words that status keeps, if it failed: the next one is added with growing delay then. Else it makes way for something else.
    pub fn failure(&self, learner: &MemberName) -> Option<String> {
        match self {
            Self::DataDiffer => Some(format!(
                "{learner} makes way: data of members differ (alarm CORRUPT), and those of a learner are not compared"
            )),
            Self::NotInSync { within, trouble } => {
                let trouble = trouble.as_ref().map_or_else(String::new, |trouble| format!(" ({trouble})"));
                Some(format!("{learner} did not get in sync within {within}{trouble}"))
            }
            Self::VolumeGone
            | Self::NotWanted
            | Self::Unsafe(_)
            | Self::LostFirst(_)
            | Self::DatabaseFull
            | Self::VoterUnhealthy(_) => None,
        }
    }
}

/// What keeps a Pod from running.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum PodTrouble {
    /// What Kubernetes says of it.
    Says(String),
    /// The guard of the agent refuses the volume: its verdict, and why.
    Guard(GuardVerdict, String),
    /// Its volumes are not mounted for long; one of them is the claim that has the snapshot.
    SnapshotNotMounted,
    /// The Pods of this member end one after another, so the next one comes later.
    KeepsEnding {
        /// The member.
        member: MemberName,
        /// What the last one says.
        why: Option<String>,
        /// How many have ended.
        times: u32,
        /// How long the last one stays.
        delay: Span,
    },
}

/// Why a version is not committed, or a member is not started with it.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum VersionRefused {
    /// This operator knows nothing of its minor version.
    Unknown(Version),
    /// It has a fault that spoils data.
    Unsound(Version),
    /// It cannot follow the one that members run.
    NoStep {
        /// What members run.
        from: Version,
        /// What the spec has.
        to: Version,
        /// Why not.
        why: NoStep,
    },
    /// A safety rule forbids the start.
    Unsafe(Unsafe),
}

/// Why one version cannot follow another.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NoStep {
    /// The upgrade begins at this patch or a later one.
    PatchFirst(Version),
    /// This release does not know the upgrade.
    NotKnown,
    /// The upgrade is finished, and its way back was not ordered.
    Finished,
    /// It is too far back, or below the first minor version that etcd goes back to.
    TooFarBack,
    /// It skips a minor version.
    TooFar,
    /// The data of members do not allow it.
    Data,
}

/// What a downgrade of etcd waits for.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Downgrading {
    /// etcd is asked to go back to this one.
    Asked(Minor),
    /// It is not asked yet: claims of members are being deleted.
    ClaimsFirst,
    /// etcd lowers the version of its data to this one.
    Lowering(Minor),
    /// The downgrade to this one is being cancelled.
    Cancelling(Minor),
    /// The same, because claims of members are being deleted.
    CancellingForClaims(Minor),
    /// Every member runs this one, and etcd ends it.
    Ending(Minor),
    /// The image that the spec names is of a newer version.
    ImageStays {
        /// What it runs.
        runs: Minor,
        /// What is to run.
        to: Minor,
    },
}
