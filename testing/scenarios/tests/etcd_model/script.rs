//! What is done to both sides, and what may come of it.

use quorate_etcd::CallError;
use quorate_model::{MemberId, PeerUrl};
use quorate_sim::etcd::{Failed, Refusal};

/// A place for a member: an address, a folder and a name, `m0`, `m1`, ... Its URL serves one member after another only if a
/// script says so.
pub type Place = usize;

/// A step of a script.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A process is started; one that has ended there is cleared away first.
    Start(Place, Flags),
    /// A process is killed.
    Stop(Place),
    /// A data directory is emptied.
    Wipe(Place),
    /// Waits until this member no longer refuses for want of connections that are 5 s old, where it ever will not.
    Ripen(Place),
    /// A client asks a member.
    Ask(Place, What),
}

/// What a process is started with, where there are no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flags {
    /// All founders, `new`.
    Founding,
    /// Everybody who is listed, `existing`.
    Joining,
    /// `existing`, but one of the others is left out.
    OneShort,
    /// `existing`, but one of the others has a URL that nobody has.
    Stranger,
    /// `existing`, but without itself.
    WithoutItself,
    /// `new`, but with another URL for itself than it advertises.
    Elsewhere,
}

/// A client's call.
#[derive(Clone, Copy, Debug)]
pub enum What {
    /// MemberAdd of a learner with the URL of this place.
    Add(Place),
    /// MemberPromote.
    Promote(Who),
    /// MemberRemove.
    Remove(Who),
    /// MoveLeader.
    Lead(Who),
    /// Writes a key that was never written before.
    Write,
    /// MemberList, linearizable.
    List,
}

/// A member's id.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// The one that was last seen at this place.
    At(Place),
    /// An id that nobody ever had.
    Nobody,
}

/// What became of a call, as far as both sides can say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused(Refusal),
    /// A refusal that the model does not have.
    Foreign(String),
    Unknown,
    Unreachable,
}

/// The id of nobody.
pub const NOBODY: MemberId = MemberId(1);

/// A URL that nobody has.
pub fn strange() -> PeerUrl {
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
        use quorate_etcd::Refusal as Etcd;
        let (refusal, words) = match reply {
            Ok(()) => return Self::Done,
            Err(CallError::Unknown(_)) => return Self::Unknown,
            Err(CallError::Unreachable(_)) => return Self::Unreachable,
            Err(CallError::Refused(refusal, words)) => (refusal, words),
        };
        let known = match refusal {
            Etcd::UnhealthyCluster => Refusal::UnhealthyCluster,
            Etcd::NotEnoughStartedMembers => Refusal::NotEnoughStartedMembers,
            Etcd::TooManyLearners => Refusal::TooManyLearners,
            Etcd::LearnerNotReady => Refusal::LearnerNotReady,
            // etcd makes an id of URL and second: a URL that is added twice within one is refused for the id.
            Etcd::PeerUrlExists | Etcd::MemberExists => Refusal::PeerUrlExists,
            Etcd::MemberNotFound => Refusal::MemberNotFound,
            Etcd::MemberNotLearner => Refusal::MemberNotLearner,
            Etcd::NotLeader => Refusal::NotLeader,
            Etcd::BadLeaderTransferee => Refusal::BadLeaderTransferee,
            Etcd::NotSupportedForLearner => Refusal::NotSupportedForLearner,
            Etcd::NoLeader
            | Etcd::ClusterIdMismatch
            | Etcd::PermissionDenied
            | Etcd::Unauthenticated
            | Etcd::NoSpace
            | Etcd::Corrupt
            | Etcd::Other => return Self::Foreign(words),
        };
        Self::Refused(known)
    }
}
