//! A backup that the operator takes by itself, before it does what cannot be undone.

use crate::time::Instant;
use crate::version::Minor;

/// A backup that the spec wants before an upgrade, or before the members of a deleted cluster are stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupBefore {
    /// What it comes before.
    pub before: BackupPurpose,
    /// Its name, a function of the EtcdCluster's uid and of what it comes before.
    pub name: String,
    /// How far it is.
    pub state: BackupState,
}

/// What a backup comes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupPurpose {
    /// An upgrade to this minor version.
    Upgrade(Minor),
    /// The end of the cluster, which does not wait beyond this time.
    Deletion {
        /// The end of the deadline.
        until: Instant,
    },
}

/// How far a backup is that was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupState {
    /// It does not exist.
    Missing,
    /// It waits or runs.
    Pending {
        /// Whether it has an attempt under way.
        runs: bool,
        /// What it does, for people.
        what: String,
    },
    /// Whether it exists, or can be used, is not known; why.
    Unknown(String),
    /// It is in the store.
    Complete,
    /// It cannot be used; why, and what can be done.
    Failed(String),
}
