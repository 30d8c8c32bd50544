//! What is recorded of the replacement of a member: why its data count as lost, what is under way, and how the last one ended.

use std::fmt;

use crate::guard::GuardVerdict;
use crate::names::{MemberName, Uid};
use crate::time::Instant;

/// Why a member is replaced. None of these is silence: each was reported by the agent, by Kubernetes, by etcd, or ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The guard refuses its volume: the data are missing, unreadable, or of another member.
    Refused(GuardVerdict),
    /// Its volume does not exist any more.
    VolumeGone,
    /// Its claim is being deleted: the data live as long as a Pod names it.
    ClaimTerminating,
    /// Its volume can only be used on a node that is gone for good.
    NodeGone,
    /// Its data differ from those of a majority at the same revision.
    Inconsistent,
    /// A person ordered it.
    Ordered,
    /// Its data were in memory, and its Pod is gone.
    Memory,
    /// It never started with the others, and has no data to start with.
    NeverStarted,
}

/// The data of a voter may be lost. It is replaced only if they still are when the grace period is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Why.
    pub loss: Loss,
    /// Since when, by the operator's clock.
    pub since: Instant,
    /// The Pod that was deleted when the grace period was over, so that the guard looks at the volume once more. A verdict counts as the
    /// second one if it comes from another Pod.
    pub rechecked: Option<Uid>,
}

/// A replacement that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The member that is replaced.
    pub member: MemberName,
    /// Why.
    pub loss: Loss,
    /// Since when.
    pub since: Instant,
    /// There is no place for a member beside it, so it is removed before the next one joins, although it is healthy: its claim is being
    /// deleted.
    pub in_place: bool,
}

/// How the last replacement ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The member that was, or was to be, replaced.
    pub member: MemberName,
    /// How it ended.
    pub end: ReplacementEnd,
    /// In words.
    pub message: String,
    /// When.
    pub at: Instant,
}

/// How a replacement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplacementEnd {
    /// Another voter took its place.
    Succeeded,
    /// It was not needed any more: the member is back, or the order was taken back.
    Withdrawn,
}

impl Loss {
    /// Whether the same is lost. Two verdicts of the guard are about the same volume.
    pub fn is_like(self, other: Self) -> bool {
        matches!((self, other), (Self::Refused(_), Self::Refused(_))) || self == other
    }

    /// Whether a healthy member may be replaced for it. Then its data are there, and another member has them before it goes.
    pub fn is_move(self) -> bool {
        match self {
            Self::Ordered | Self::ClaimTerminating => true,
            Self::Refused(_)
            | Self::VolumeGone
            | Self::NodeGone
            | Self::Inconsistent
            | Self::Memory
            | Self::NeverStarted => false,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(verdict) => write!(f, "the guard refuses its volume ({verdict})"),
            Self::VolumeGone => f.write_str("its PersistentVolumeClaim or PersistentVolume is gone"),
            Self::ClaimTerminating => {
                f.write_str("its PersistentVolumeClaim is being deleted, and its data go with its Pod")
            }
            Self::NodeGone => f.write_str("the node of its volume is gone for good"),
            Self::Inconsistent => f.write_str("its data differ from those of a majority of the members"),
            Self::Ordered => f.write_str("a person orders it"),
            Self::Memory => f.write_str("its data were in memory"),
            Self::NeverStarted => f.write_str("it never started, and has no data to start with"),
        }
    }
}
