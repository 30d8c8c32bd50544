//! Effects on etcd.

use std::fmt;

use crate::auth::{AuthChange, Marked};
use crate::ids::{MemberId, Revision};
use crate::names::{MemberName, PeerUrl};
use crate::snapshot::AlarmKind;
use crate::version::Minor;

/// A call to etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdCall {
    /// MemberAdd, always as a learner (R6).
    AddLearner {
        /// The new member.
        member: MemberName,
        /// Its peer URL, unique to this incarnation.
        peer_url: PeerUrl,
    },
    /// MemberPromote.
    Promote {
        /// The learner.
        member: MemberName,
        /// Its id.
        id: MemberId,
    },
    /// MemberRemove.
    RemoveMember {
        /// The member.
        member: MemberName,
        /// Its id, read just before together with the URL.
        id: MemberId,
        /// The URL that the list had for that id.
        peer_url: PeerUrl,
    },
    /// MoveLeader, asked of the leader.
    MoveLeadership {
        /// The next leader's name.
        to: MemberName,
        /// The next leader's id.
        to_id: MemberId,
    },
    /// Disarm one alarm of one member.
    Disarm {
        /// The member that raised it, which may be no member any more; 0 where etcd did not know which one is wrong.
        member: MemberId,
        /// Its kind.
        kind: AlarmKind,
    },
    /// Compact the history up to this revision, and wait until the member that is asked has done so physically.
    Compact {
        /// The revision that was read just before.
        revision: Revision,
    },
    /// Defragment the database of the member that is asked. It answers nothing meanwhile.
    Defragment {
        /// The member.
        member: MemberName,
    },
    /// Change etcd's auth.
    Auth {
        /// How.
        change: AuthChange,
    },
    /// Delete a user whose EtcdUser does not exist.
    DeleteUser {
        /// Which one.
        user: Marked,
    },
    /// Delete its role.
    DeleteRole {
        /// Of which user.
        user: Marked,
    },
    /// Downgrade.
    Downgrade {
        /// What about it.
        action: DowngradeAction,
        /// The minor version that the data are to go back to.
        to: Minor,
    },
}

/// What is asked of etcd about a downgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DowngradeAction {
    /// Whether it could begin.
    Validate,
    /// To begin.
    Enable,
    /// To end it, wherever it is.
    Cancel,
}

impl EtcdCall {
    names! {
        AddLearner,
        Promote,
        RemoveMember,
        MoveLeadership,
        Disarm,
        Compact,
        Defragment,
        Auth,
        DeleteUser,
        DeleteRole,
        Downgrade,
    }

    /// Whether it changes the membership.
    pub fn changes_membership(&self) -> bool {
        match self {
            Self::AddLearner { .. } | Self::Promote { .. } | Self::RemoveMember { .. } => true,
            Self::MoveLeadership { .. }
            | Self::Disarm { .. }
            | Self::Compact { .. }
            | Self::Defragment { .. }
            | Self::Auth { .. }
            | Self::DeleteUser { .. }
            | Self::DeleteRole { .. }
            | Self::Downgrade { .. } => false,
        }
    }
}

impl fmt::Display for EtcdCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddLearner { member, peer_url } => write!(f, "MemberAdd {member} as learner at {peer_url}"),
            Self::Promote { member, id } => write!(f, "MemberPromote {member} ({id})"),
            Self::RemoveMember { member, id, .. } => write!(f, "MemberRemove {member} ({id})"),
            Self::MoveLeadership { to, to_id } => write!(f, "MoveLeader to {to} ({to_id})"),
            Self::Disarm { member, kind } => write!(f, "disarm alarm {kind} of {member}"),
            Self::Auth { change } => change.fmt(f),
            Self::DeleteUser { user } => write!(f, "UserDelete {}", user.user()),
            Self::DeleteRole { user } => write!(f, "RoleDelete {}", user.role()),
            Self::Downgrade { action, to } => write!(f, "Downgrade {action:?} {to}"),
            Self::Compact { revision } => write!(f, "compact up to revision {}", revision.0),
            Self::Defragment { member } => write!(f, "defragment {member}"),
        }
    }
}
