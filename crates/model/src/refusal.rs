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
    /// The user is not known.
    Unauthenticated,
    /// A learner does not answer this.
    NotSupportedForLearner,
    /// The database has reached its quota.
    NoSpace,
    /// The member's data differ from its peers'.
    Corrupt,
    /// Anything else: a bad argument, a call this version does not have.
    Other,
}
