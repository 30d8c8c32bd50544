//! The recovery of a lost quorum, which a person orders: from the data of one member another incarnation of the cluster begins.

use std::collections::BTreeMap;
use std::fmt;

use crate::ids::{ClusterId, MemberId, Revision};
use crate::names::{MemberName, Uid};
use crate::restore::{Restore, RestoreFailure};
use crate::time::{Instant, Span};
use crate::version::Version;

/// How long no quorum must have answered before an order is followed: longer than elections and the restart of a Pod.
pub const LOST_FOR: Span = Span::seconds(60);

/// How long a node must have been ready, and the order be given, until a Pod that vanished certainly runs no container there any more. A node
/// counts as ready up to 40 s after its last report, and its kubelet stops what the API server does not have within its grace period.
pub const STOPPED_WITHIN: Span = Span::seconds(180);

/// Whose data the order keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoverFrom {
    /// Those of the member that has most.
    Auto,
    /// Those of this one.
    Member(MemberName),
}

/// A recovery that is under way. Recorded at Q1, until the next incarnation is ordered (Q6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumRecovery {
    /// The order.
    pub from: RecoverFrom,
    /// Since when.
    pub since: Instant,
    /// Where the members of the incarnation ran. Recorded before anything is stopped, because a Pod that vanishes proves nothing.
    pub containers: BTreeMap<MemberName, Container>,
    /// The member whose data are kept, and what it has (Q4).
    pub chosen: Option<Chosen>,
}

/// The last Pod of a member, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// The Pod that existed at Q1.
    pub pod: Option<Uid>,
    /// Its node; without a Pod, that of the last one.
    pub node: Option<String>,
    /// Another node, on which the member last followed a leader: a Pod that was created after that proves nothing about it.
    pub served_on: Option<String>,
}

/// The member whose data are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The member.
    pub member: MemberName,
    /// What it has.
    pub log: Log,
}

/// What a member has stored, by its log and its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Log {
    /// What is committed for certain, and all that etcd keeps. It is the first field, because it decides: see [`best`].
    pub committed: u64,
    /// The term of the last entry.
    pub last_term: u64,
    /// The last entry, which need not be committed.
    pub last_index: u64,
    /// The last entry that the database contains.
    pub consistent: u64,
    /// raft's term.
    pub term: u64,
    /// The revision of the database.
    pub revision: Revision,
    /// The cluster that the log is of.
    pub cluster_id: ClusterId,
    /// The member that wrote it.
    pub member_id: MemberId,
}

/// A Pod in which the member's etcd does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnlyPod {
    /// What its agent was ordered to do.
    pub order: ReadOnlyOrder,
    /// Its answer, once its container has ended.
    pub answer: Option<ReadOnlyAnswer>,
    /// Why the last try failed, if it did. The next one may be under way.
    pub failure: Option<RestoreFailure>,
}

/// What the agent of a held Pod does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReadOnlyOrder {
    /// Report what the member has stored.
    Read,
    /// Take a snapshot of what etcd keeps of it, under this key.
    Extract(String),
    /// An order that this operator does not know.
    Unknown,
}

/// What the agent of a held Pod answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOnlyAnswer {
    /// What the member has stored.
    Stored(Log),
    /// Nothing that a cluster could be recovered from; why.
    Nothing(String),
    /// The snapshot is on the volume.
    Extracted(Box<Restore>),
}

/// What Kubernetes reports of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// Its kubelet reports.
    Ready {
        /// Since when.
        since: Instant,
    },
    /// Its kubelet does not report that it is ready: what runs there may go on.
    NotReady,
    /// A person declared it out of service: it is off.
    OutOfService,
    /// It does not exist any more.
    Gone,
}

impl QuorumRecovery {
    /// The key of the snapshot of the chosen member. Another recovery has another one.
    pub fn key(&self) -> String {
        format!("quorum-{}.db", self.since.0)
    }
}

impl RecoverFrom {
    /// What the value of the annotation means.
    pub fn read(value: &str) -> Self {
        match value.trim() {
            "auto" => Self::Auto,
            member => Self::Member(MemberName::new(member)),
        }
    }
}

/// The member with the best log; `None` where there is none.
///
/// The index that is committed decides, and not the term. Entries that are committed are the same in every log and are never taken back, so
/// the member with more of them has all that the others have. etcd drops the rest of a log, so the term of an entry that is not committed, which
/// decides an election of raft, says nothing about what is kept: a member that led last and reached none has the highest term, and may have
/// the fewest committed entries. Between members that keep the same, the term and the length of the log only make the choice definite.
pub fn best<'a>(logs: impl Iterator<Item = (&'a MemberName, Log)>) -> Option<(&'a MemberName, Log)> {
    // The first one of equals.
    logs.fold(None, |best: Option<(&MemberName, Log)>, (member, log)| match best {
        Some((_, other)) if rank(&other) >= rank(&log) => best,
        Some(_) | None => Some((member, log)),
    })
}

fn rank(log: &Log) -> (u64, u64, u64) {
    (log.committed, log.last_term, log.last_index)
}

/// The first version of the same minor one that keeps entries when it makes a new cluster of a member's data, if this one forgets some.
pub fn forgets_entries(version: Version) -> Option<Version> {
    let floor = version.line().known()?.keeps_entries;
    (version < floor).then_some(floor)
}

impl NodeState {
    /// Whether nothing runs there any more, for certain.
    pub fn is_off(self) -> bool {
        match self {
            Self::OutOfService | Self::Gone => true,
            Self::Ready { .. } | Self::NotReady => false,
        }
    }
}

impl fmt::Display for RecoverFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Member(member) => member.fmt(f),
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { committed, last_term, last_index, .. } = self;
        write!(f, "committed up to entry {committed}, last entry {last_index} of term {last_term}")?;
        let dropped = last_index.saturating_sub(*committed);
        if dropped == 0 { Ok(()) } else { write!(f, ", so etcd drops {dropped}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(committed: u64, last_term: u64, last_index: u64) -> Log {
        Log {
            committed,
            last_term,
            last_index,
            consistent: committed,
            term: last_term,
            revision: Revision(1),
            cluster_id: ClusterId(1),
            member_id: MemberId(1),
        }
    }

    fn chosen(logs: &[Log]) -> usize {
        let names: Vec<MemberName> = (0..logs.len()).map(|n| MemberName::new(format!("demo-{n}"))).collect();
        let (found, _) = best(names.iter().zip(logs.iter().copied())).unwrap();
        names.iter().position(|name| name == found).unwrap()
    }

    #[test]
    fn committed_entries_decide_and_not_the_term_of_a_tail_that_no_other_has() {
        assert_eq!(chosen(&[log(90, 9, 120), log(100, 3, 100)]), 1);
        assert_eq!(chosen(&[log(100, 3, 100), log(90, 9, 120)]), 0);
    }

    #[test]
    fn of_equal_members_the_choice_is_definite() {
        assert_eq!(chosen(&[log(100, 3, 100), log(100, 4, 101)]), 1);
        assert_eq!(chosen(&[log(100, 3, 102), log(100, 3, 101)]), 0);
        assert_eq!(chosen(&[log(100, 3, 100), log(100, 3, 100)]), 0);
    }

    #[test]
    fn versions_that_forget_entries_are_refused() {
        for (version, forgets) in [
            (Version::new(3, 5, 25), true),
            (Version::new(3, 5, 26), false),
            (Version::new(3, 6, 4), true),
            (Version::new(3, 6, 5), false),
            (Version::new(3, 7, 0), false),
        ] {
            assert_eq!(forgets_entries(version).is_some(), forgets, "{version}");
        }
    }
}
