//! Incarnations of a cluster: the one that the EtcdCluster was created with, and those that took its place, each by a recorded order.
//!
//! A new incarnation has another cluster id, another token, and other member names (R2). It begins only once every container of the one
//! before it is seen stopped, and the volumes of that one are quarantined.

use crate::ids::ClusterId;
use crate::names::{Ordinal, Uid};
use crate::quorum_recovery::RecoverFrom;
use crate::restore::{Restore, RestoreFailure};
use crate::time::{Instant, Span};

/// The present incarnation, if it is not the one that the EtcdCluster was created with. Recorded at J4 and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// How many incarnations there were before it.
    pub number: u32,
    /// The first ordinal of its members. Pods and volumes with lower ones are of earlier incarnations.
    pub first: Ordinal,
    /// By which order it began.
    pub order: Order,
    /// The cluster id of the incarnation before it.
    pub replaced: ClusterId,
    /// How many members its bootstrap set has; `None`: as many as the spec asks for.
    pub members: Option<usize>,
}

/// The order to replace the present incarnation. Recorded at J1, until the new one is recorded (J4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextIncarnation {
    /// The order.
    pub order: Order,
    /// The cluster id of the incarnation that is replaced.
    pub replaces: ClusterId,
    /// What the new incarnation begins with.
    pub restore: Restore,
    /// How many members its bootstrap set has; `None`: as many as the spec asks for.
    pub members: Option<usize>,
    /// Every member was seen stopped (J3). From then on the order is not withdrawn.
    pub stopped: bool,
    /// Since when.
    pub since: Instant,
}

/// Who ordered another incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// An EtcdRestore.
    Restore {
        /// Its name.
        name: String,
        /// Its uid: another EtcdRestore of the same name is another order.
        uid: Uid,
    },
    /// The annotation that orders to recover a lost quorum.
    Recovery {
        /// Its value.
        from: RecoverFrom,
    },
}

/// An EtcdRestore that names the present cluster id, as it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOrder {
    /// Which.
    pub order: Order,
    /// The cluster id of the incarnation that it replaces.
    pub replaces: ClusterId,
    /// What it restores, or why that is not known.
    pub restore: Result<Restore, RestoreFailure>,
    /// Until when it may begin. One that waits for longer has failed: nobody thinks of it any more when its cause is mended.
    pub until: Instant,
    /// Until when it counts that the snapshot was read. An object may be gone later.
    pub read_until: Instant,
    /// What the API server said when it was asked whether new members would be admitted, in this pass; `None`: it was not asked.
    pub admission: Option<Admission>,
    /// Until when the backup of the data that are given up counts. Later than any time where none is wanted.
    pub backed_up_until: Instant,
}

/// How long an answer of the API server counts. It is asked in the pass in which it matters.
pub const ADMISSION_COUNTS: Span = Span::seconds(60);

/// What the API server says to the Pod of a member, and to the claim of a new one, without creating them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When it was asked.
    pub at: Instant,
    /// What it says.
    pub outcome: Admitted,
}

impl Admission {
    /// What it says, if that still counts.
    pub fn counts(&self, now: Instant) -> Option<&Admitted> {
        (now - self.at < ADMISSION_COUNTS).then_some(&self.outcome)
    }
}

/// Whether the Pod and the claim would be admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// They would.
    Yes,
    /// They would not; its words.
    No(String),
    /// It did not answer so that one would know.
    Unknown(String),
}
