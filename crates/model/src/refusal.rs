//! Why etcd refused a call: the same classes for the port to etcd, for the pass and for the modelled etcd.

/// Why etcd refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The member was not in contact with enough of its peers for the last 5 s.
    UnhealthyCluster,
    /// Too many members have never started; one more change could cost the quorum.
    NotEnoughStartedMembers,
    /// Another learner has to be promoted or removed first.
    TooManyLearners,
    /// The learner has not caught up with the leader.
    LearnerNotReady,
    /// A member has this peer URL.
    PeerUrlExists,
    /// A member has this id.
    MemberExists,
    /// No member has this id (any more).
    MemberNotFound,
    /// The member to promote is a voter already.
    MemberNotLearner,
    /// The member knows no leader.
    NoLeader,
    /// Only the leader can do this, and the member asked is not.
    NotLeader,
    /// The leadership target is not a voter.
    BadLeaderTransferee,
    /// The member belongs to another cluster.
    ClusterIdMismatch,
    /// The user may not do this.
    PermissionDenied,
    /// The token of the call is not valid (any more).
    Unauthenticated,
    /// Auth is enabled and the call has no user: its certificate has no common name, or it was on its way when auth was enabled.
    NoUser,
    /// Users, roles or permissions changed, or auth was enabled, while the call was on its way. The same call again is judged by the
    /// new ones.
    AuthRevisionOld,
    /// A user has this name.
    UserExists,
    /// A role has this name.
    RoleExists,
    /// No user has this name.
    UserNotFound,
    /// No role has this name.
    RoleNotFound,
    /// The user does not have the role.
    RoleNotGranted,
    /// The role does not have the permission.
    PermissionNotGranted,
    /// Auth is not enabled.
    AuthNotEnabled,
    /// Auth cannot be enabled: there is no user `root`.
    RootUserMissing,
    /// Auth cannot be enabled: the user `root` does not have the role `root`.
    RootRoleMissing,
    /// A learner does not answer this.
    NotSupportedForLearner,
    /// The database has reached its quota.
    NoSpace,
    /// The member's data differ from its peers'.
    Corrupt,
    /// Anything else: a bad argument, a call this version does not have.
    Other,
}

impl Refusal {
    /// Whether etcd's auth refused the call because of who called: nobody, a user that does not exist, or one that may not do this. Of a call
    /// that asks about a user, that one does not exist may be about that user instead.
    pub fn is_about_caller(self) -> bool {
        match self {
            Self::PermissionDenied | Self::Unauthenticated | Self::NoUser | Self::UserNotFound => true,
            Self::UnhealthyCluster
            | Self::NotEnoughStartedMembers
            | Self::TooManyLearners
            | Self::LearnerNotReady
            | Self::PeerUrlExists
            | Self::MemberExists
            | Self::MemberNotFound
            | Self::MemberNotLearner
            | Self::NoLeader
            | Self::NotLeader
            | Self::BadLeaderTransferee
            | Self::ClusterIdMismatch
            | Self::AuthRevisionOld
            | Self::UserExists
            | Self::RoleExists
            | Self::RoleNotFound
            | Self::RoleNotGranted
            | Self::PermissionNotGranted
            | Self::AuthNotEnabled
            | Self::RootUserMissing
            | Self::RootRoleMissing
            | Self::NotSupportedForLearner
            | Self::NoSpace
            | Self::Corrupt
            | Self::Other => false,
        }
    }
}
