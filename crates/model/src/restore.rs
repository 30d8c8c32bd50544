//! A bootstrap that begins with the data of one snapshot instead of nothing.

use std::fmt;

use crate::ids::Revision;
use crate::version::Version;

/// What the members of a bootstrap begin with. Recorded with the attempt (B1), so that it never changes under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The whole of it, as canonical JSON. `manifests` writes and reads it, and orders it from the agent.
    pub content: String,
    /// The object in its store, as a URL for people.
    pub url: String,
    /// The version of the etcd that the snapshot is of, where that is known.
    pub version: Option<Version>,
    /// Bytes of the snapshot's database, where that is known.
    pub bytes: Option<u64>,
    /// The least revision that the snapshot has, where that is known.
    pub revision: Option<Revision>,
    /// By how much revisions are raised; 0: not at all.
    pub bump: u64,
}

/// Why a snapshot is not restored, or not yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreFailure {
    /// In one word.
    pub cause: RestoreCause,
    /// What happened, and what to do.
    pub message: String,
}

/// The causes by what has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RestoreCause {
    /// The backup does not exist, or is not complete.
    NotReady,
    /// The snapshot does not go with the spec.
    Refused,
    /// The object is not in the store.
    Gone,
    /// The store refuses the credentials.
    Forbidden,
    /// Something else; the agent tries again.
    Failed,
}

impl Restore {
    /// Whether members mount the store: a claim.
    pub fn is_in_claim(&self) -> bool {
        self.url.starts_with("pvc://")
    }

    /// The least revision that a member has which was restored from it.
    pub fn least_revision(&self) -> Revision {
        let snapshot = self.revision.map_or(1, |revision| revision.0);
        Revision(snapshot.saturating_add(i64::try_from(self.bump).unwrap_or(i64::MAX)))
    }
}

impl RestoreFailure {
    /// A failure with its message.
    pub fn new(cause: RestoreCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }
}

impl fmt::Display for RestoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
