//! The steps of a script, and their outcomes.

use quorate_etcd::CallError;
use quorate_model::{MemberId, PeerUrl, Refusal};
use quorate_sim::etcd::Failed;

/// A place for a member: an address, a folder and a name, `m0`, `m1`, ... Its URL is used for a second member only if a script
/// does so.
pub type Place = usize;

/// A step of a script.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Starts a process; one that has ended there is removed first.
    Start(Place, Flags),
    /// Kills a process.
    Stop(Place),
    /// Empties a data directory.
    Wipe(Place),
    /// Waits until this member no longer refuses because its connections are younger than 5 s, if that can happen.
    AwaitConnections(Place),
    /// A client asks a member.
    Ask(Place, Call),
}

/// The flags of a process that has no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// All bootstrap members, `new`.
    Bootstrap,
    /// All listed members, `existing`.
    Joining,
    /// `existing`, but one of the others is left out.
    OnePeerMissing,
    /// `existing`, but one of the others has an unused URL.
    UnknownPeer,
    /// `existing`, but without itself.
    WithoutItself,
    /// `new`, but with another URL for itself than it advertises.
    OtherPeerUrl,
}

/// A client's call.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// MemberAdd of a learner with the URL of this place.
    Add(Place),
    /// MemberPromote.
    Promote(Id),
    /// MemberRemove.
    Remove(Id),
    /// MoveLeader.
    Lead(Id),
    /// Writes a key that was never written before.
    Write,
    /// MemberList, linearizable.
    List,
}

/// A member's id.
#[derive(Clone, Copy, Debug)]
pub enum Id {
    /// The id of the member last observed at this place.
    At(Place),
    /// An id that no member ever had.
    Unused,
}

/// The outcome of a call, in terms that both sides have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused(Refusal),
    /// A refusal that the model does not have.
    NotModelled(String),
    Unknown,
    Unreachable,
}

/// An id that no member ever has.
pub const UNUSED_ID: MemberId = MemberId(1);

/// A URL that no member has.
pub fn unused_url() -> PeerUrl {
    PeerUrl::new("http://127.0.0.1:1")
}

impl From<Result<(), Failed>> for Outcome {
    fn from(reply: Result<(), Failed>) -> Self {
        match reply {
            Ok(()) => Self::Done,
            Err(Failed::Refused(refusal)) => Self::Refused(refusal),
            Err(Failed::Unknown) => Self::Unknown,
            Err(Failed::Unreachable) => Self::Unreachable,
        }
    }
}

impl From<Result<(), CallError>> for Outcome {
    fn from(reply: Result<(), CallError>) -> Self {
        let (refusal, message) = match reply {
            Ok(()) => return Self::Done,
            Err(CallError::Unknown(_)) => return Self::Unknown,
            Err(CallError::Unreachable(_)) => return Self::Unreachable,
            Err(CallError::Refused(refusal, message)) => (refusal, message),
        };
        let known = match refusal {
            // etcd derives the id from URL and second: a URL added twice within a second is refused for its id.
            Refusal::MemberExists => Refusal::PeerUrlExists,
            Refusal::UnhealthyCluster
            | Refusal::NotEnoughStartedMembers
            | Refusal::TooManyLearners
            | Refusal::LearnerNotReady
            | Refusal::PeerUrlExists
            | Refusal::MemberNotFound
            | Refusal::MemberNotLearner
            | Refusal::NotLeader
            | Refusal::BadLeaderTransferee
            | Refusal::NotSupportedForLearner => refusal,
            Refusal::NoLeader
            | Refusal::ClusterIdMismatch
            | Refusal::PermissionDenied
            | Refusal::Unauthenticated
            | Refusal::NoUser
            | Refusal::AuthRevisionOld
            | Refusal::UserExists
            | Refusal::RoleExists
            | Refusal::UserNotFound
            | Refusal::RoleNotFound
            | Refusal::RoleNotGranted
            | Refusal::PermissionNotGranted
            | Refusal::AuthNotEnabled
            | Refusal::RootUserMissing
            | Refusal::RootRoleMissing
            | Refusal::NoSpace
            | Refusal::Corrupt
            | Refusal::Other => return Self::NotModelled(message),
        };
        Self::Refused(known)
    }
}
