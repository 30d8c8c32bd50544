//! Why a step must not be taken: what the safety rules say no with.

use std::fmt;

use crate::names::MemberName;
use crate::quorum::quorum;

/// Why a step must not be taken now. The same value goes to status, event, metric and test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsafe {
    /// R1: `new` outside the latched set, or after the cluster id was latched.
    NotABootstrapMember(MemberName),
    /// R2, R3: the name was not promised in the record.
    NotRecorded(MemberName),
    /// R2: the volume is another incarnation's, or missing where data must be.
    NotItsVolume(MemberName),
    /// R3: the object was not seen, or not as the effect says.
    NotSeen(MemberName),
    /// R5: another change of membership is outstanding.
    ChangeOutstanding(MemberName),
    /// R5: only one effect of a plan may reduce redundancy.
    SecondDisruption(MemberName),
    /// R6, R5: a voter is not healthy, so membership does not grow and no healthy voter is disturbed.
    VoterUnhealthy(MemberName),
    /// R7: the list does not show that id with that URL.
    NotThatMember(MemberName),
    /// R9: there is no fresh linearizable list, or it is from another member.
    NoFreshList,
    /// R10: the member is still in the list, or that can not be told.
    StillListed(MemberName),
    /// R10: its Pod is not gone.
    PodNotGone(MemberName),
    /// R10: nobody decided that these data go.
    DataKept(MemberName),
    /// R11: without quorum nothing but restarts.
    NoQuorum,
    /// R11: the others would not be a quorum.
    WouldLoseQuorum {
        /// The member in question.
        member: MemberName,
        /// Healthy voters left.
        left: usize,
        /// Voters of the resulting membership.
        of: usize,
    },
    /// R12.
    SplitBrain,
}

impl Unsafe {
    /// Its name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotABootstrapMember(_) => "NotABootstrapMember",
            Self::NotRecorded(_) => "NotRecorded",
            Self::NotItsVolume(_) => "NotItsVolume",
            Self::NotSeen(_) => "NotSeen",
            Self::ChangeOutstanding(_) => "ChangeOutstanding",
            Self::SecondDisruption(_) => "SecondDisruption",
            Self::VoterUnhealthy(_) => "VoterUnhealthy",
            Self::NotThatMember(_) => "NotThatMember",
            Self::NoFreshList => "NoFreshList",
            Self::StillListed(_) => "StillListed",
            Self::PodNotGone(_) => "PodNotGone",
            Self::DataKept(_) => "DataKept",
            Self::NoQuorum => "NoQuorum",
            Self::WouldLoseQuorum { .. } => "WouldLoseQuorum",
            Self::SplitBrain => "SplitBrain",
        }
    }
}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotABootstrapMember(member) => write!(f, "{member} must not start as new"),
            Self::NotRecorded(member) => write!(f, "{member} is not promised in status"),
            Self::NotItsVolume(member) => write!(f, "the volume of {member} is missing or is another's"),
            Self::NotSeen(member) => write!(f, "{member} is not as it was seen"),
            Self::ChangeOutstanding(member) => write!(f, "the change of {member} must be finished first"),
            Self::SecondDisruption(member) => write!(f, "{member} must wait its turn"),
            Self::VoterUnhealthy(member) => {
                write!(f, "voter {member} is not healthy; membership does not change around it")
            }
            Self::NotThatMember(member) => write!(f, "the member list does not show {member} as expected"),
            Self::NoFreshList => f.write_str("no fresh member list by quorum"),
            Self::StillListed(member) => write!(f, "{member} is still a member, so its data stay"),
            Self::PodNotGone(member) => write!(f, "Pod {member} is not gone, so its data stay"),
            Self::DataKept(member) => write!(f, "the retention policy keeps the data of {member}"),
            Self::NoQuorum => f.write_str("no quorum"),
            Self::WouldLoseQuorum { member, left, of } => {
                write!(
                    f,
                    "without {member} only {left} of {of} voters would be healthy, {} are needed",
                    quorum(*of)
                )
            }
            Self::SplitBrain => f.write_str("members are of different clusters"),
        }
    }
}
