//! What a snapshot that a cluster begins with waits for.

use strum::{IntoStaticStr, VariantNames};

use super::VersionRefused;
use crate::ids::Revision;
use crate::names::MemberName;
use crate::restore::{RestoreCause, RestoreFailure};
use crate::snapshot::ReplaceMember;
use crate::version::Version;

/// Why no member is started.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NoSnapshot {
    /// The snapshot is not known.
    Failed(RestoreFailure),
    /// The spec does not go with it.
    Unfit(Unfit),
}

/// What of the spec does not go with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum Unfit {
    /// Data are kept in memory.
    Memory,
    /// Auth is enabled in it, and the cluster has no TLS.
    AuthWithoutTls,
    /// It is of this later minor version.
    OlderThan(Version),
    /// etcd of this version cannot raise revisions; the first one that can.
    CannotRaise(Version, Version),
    /// It is larger than the quota.
    OverQuota {
        /// Its bytes.
        bytes: u64,
        /// Those of the quota.
        quota: u64,
    },
    /// The volumes are too small.
    VolumeTooSmall {
        /// Its bytes.
        bytes: u64,
        /// Those that a volume needs.
        needed: u64,
        /// Those that it has.
        has: u64,
    },
}

/// Why a member did not restore the snapshot, or is not to be used.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NotRestored {
    /// What its agent says.
    Failed(RestoreFailure),
    /// It reports a lower revision than one that was restored has.
    Lower {
        /// What it reports.
        revision: Revision,
        /// What it has at least, if it was restored.
        least: Revision,
    },
    /// It has other data than this member, which restored the same.
    Differs {
        /// The other member.
        from: MemberName,
        /// The revision at which they were compared.
        revision: Revision,
    },
}

impl NotRestored {
    /// What kind of failure it is.
    pub fn cause(&self) -> RestoreCause {
        match self {
            Self::Failed(why) => why.cause,
            Self::Lower { .. } | Self::Differs { .. } => RestoreCause::Failed,
        }
    }
}

impl NoSnapshot {
    /// What kind of failure it is.
    pub fn cause(&self) -> RestoreCause {
        match self {
            Self::Failed(why) => why.cause,
            Self::Unfit(_) => RestoreCause::Refused,
        }
    }
}

/// What an order for another incarnation waits for.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum OrderWait {
    /// It is not begun. The cluster goes on as it is.
    NotBegun(NotBegun),
    /// The data that it gives up are backed up first. Nothing else holds it up, except what is read again then.
    BackupFirst,
    /// Its snapshot was read too long ago. Nothing else holds it up.
    ReadAgain,
    /// The members make way for another incarnation.
    Replacing,
}

/// Why an order for another incarnation is not begun.
#[derive(Clone, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
pub enum NotBegun {
    /// The snapshot is not known.
    Snapshot(RestoreFailure),
    /// The spec does not go with it.
    Unfit(Unfit),
    /// The version of the spec is refused.
    Version(VersionRefused),
    /// The cluster is at size zero.
    SizeZero,
    /// Names that it needs are taken.
    NamesTaken(Vec<String>),
    /// Claims of members are being deleted. Where they move on order alone, the orders.
    ClaimsFirst(Option<Vec<ReplaceMember>>),
    /// The API server would not admit a new member; its words.
    NotAdmitted(String),
    /// It did not say whether it would; why.
    AdmissionUnknown(String),
    /// It is being asked.
    AdmissionAsked,
}

impl NotBegun {
    /// What kind of failure it is.
    pub fn cause(&self) -> RestoreCause {
        match self {
            Self::Snapshot(why) => why.cause,
            Self::Unfit(_)
            | Self::Version(_)
            | Self::SizeZero
            | Self::NamesTaken(_)
            | Self::NotAdmitted(_) => RestoreCause::Refused,
            Self::ClaimsFirst(_) | Self::AdmissionUnknown(_) | Self::AdmissionAsked => RestoreCause::NotReady,
        }
    }
}
