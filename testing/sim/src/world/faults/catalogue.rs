//! The table of faults: one row and one sentence each.

use std::fmt;

use super::{Fault, Patch};
use crate::world::wire::RequestOutcome;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its numbers in the list of faults (`docs/proof.md`).
    pub numbers: &'static str,
    /// Its kind. Random histories choose by it and count by it.
    pub kind: &'static str,
    /// What it hits.
    pub hits: Hits,
    /// What it destroys.
    pub destroys: Destroys,
}

/// What a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// The operator's process, its requests, or its view.
    Operator,
    /// Pods, nodes, volumes, etcd, or objects.
    Cluster,
    /// The planner.
    Planner,
}

/// What a fault destroys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destroys {
    /// Nothing: everything comes back.
    Nothing,
    /// The data of a member; in memory its Pod has them.
    Data,
    /// The status of the cluster.
    Status,
}

impl Fault {
    /// Its row in the table.
    pub fn entry(&self) -> Entry {
        use Destroys::{Data, Nothing, Status};
        use Hits::{Cluster, Operator, Planner};
        let row = |numbers, kind, hits, destroys| Entry { numbers, kind, hits, destroys };
        match self {
            Self::Crash => row("F1 F2", "crash", Operator, Nothing),
            Self::Request(outcome) => row(numbers_of(*outcome), outcome.as_str(), Operator, Nothing),
            Self::Stale(..) => row("F7 F9", "stale view", Operator, Nothing),
            Self::TimeTravel(..) => row("F8", "time travel", Operator, Nothing),
            Self::TwoLead => row("F13", "two lead", Operator, Nothing),
            Self::Paused => row("F13", "paused leader", Operator, Nothing),
            Self::KillPod(_) => row("F15 F16", "kill Pod", Cluster, Data),
            Self::KillProcess(_) => row("F16", "kill etcd", Cluster, Nothing),
            Self::Slow(_) => row("F16 F18", "slow Pod", Cluster, Nothing),
            Self::LoseNode(_) => row("F16", "lose node", Cluster, Nothing),
            Self::LoseVolume(_) => row("F17", "lose volume", Cluster, Data),
            Self::Wipe(_) => row("F17", "wipe volume", Cluster, Data),
            Self::Swap(_) => row("F17", "swap data", Cluster, Data),
            Self::Lag(_) => row("F18", "lagging member", Cluster, Nothing),
            Self::Cut(_) => row("F19", "partition", Cluster, Nothing),
            Self::OldList => row("F19", "old list", Operator, Nothing),
            Self::Touch(..) => row("F15", "touch object", Cluster, Nothing),
            Self::Remove(..) => row("F15", "remove object", Cluster, Nothing),
            Self::LoseStatus => row("F21", "lose status", Cluster, Status),
            Self::Alarm(_) => row("F22", "alarm", Cluster, Nothing),
            Self::Expired => row("F23", "certificates expire", Cluster, Nothing),
            Self::OtherPatch(..) => row("F24", "other patch", Cluster, Nothing),
            Self::Rogue(rogue) => row("", rogue.kind(), Planner, Nothing),
        }
    }

    /// Its kind. Random histories choose by it and count by it.
    pub fn kind(&self) -> &'static str {
        self.entry().kind
    }
}

fn numbers_of(outcome: RequestOutcome) -> &'static str {
    match outcome {
        RequestOutcome::Done => "",
        RequestOutcome::ReplyLost => "F3",
        RequestOutcome::Lost => "F4 F12",
        RequestOutcome::Late => "F5",
        RequestOutcome::Twice => "F6",
        RequestOutcome::Raced => "F11",
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash => f.write_str("the operator dies and starts again"),
            Self::Request(outcome) => write!(f, "the next request: {}", outcome.as_str()),
            Self::Stale(kind, back) => {
                write!(f, "the operator observes every {kind} as it was {back} changes ago")
            }
            Self::TimeTravel(kind, back) => {
                write!(f, "the operator starts again and observes every {kind} as it was {back} changes ago")
            }
            Self::TwoLead => f.write_str("another replica takes the lease, and this one does not notice"),
            Self::Paused => f.write_str("another replica takes the lease while this one is stopped"),
            Self::KillPod(member) => write!(f, "Pod {member} is gone"),
            Self::KillProcess(member) => write!(f, "etcd dies in {member}"),
            Self::Slow(member) => write!(f, "Pod {member} does not start for a long time"),
            Self::LoseNode(member) => write!(f, "the node of {member} is out of reach"),
            Self::LoseVolume(member) => write!(f, "the volume of {member} is gone, with its Pod"),
            Self::Wipe(member) => write!(f, "the volume of {member} is emptied, and its Pod starts again"),
            Self::Swap(member) => write!(f, "the data of {member} are replaced by those of another cluster"),
            Self::Lag(member) => write!(f, "{member} takes no new entries"),
            Self::Cut(member) => write!(f, "{member} and its peers do not reach each other"),
            Self::OldList => f.write_str("the operator receives an old member list"),
            Self::Touch(kind, named) => write!(f, "another client changes {kind} {named}"),
            Self::Remove(kind, named) => write!(f, "another client deletes {kind} {named}"),
            Self::LoseStatus => f.write_str("the status of the cluster is gone"),
            Self::Alarm(member) => write!(f, "{member} reports an alarm"),
            Self::Expired => {
                f.write_str("certificates expire: members and the operator trust each other no more")
            }
            Self::OtherPatch(member, Patch::Next) => {
                write!(f, "{member} runs the patch version after its image's tag")
            }
            Self::OtherPatch(member, Patch::Before) => {
                write!(f, "{member} runs the patch version before its image's tag")
            }
            Self::Rogue(rogue) => write!(f, "the planner proposes to {rogue}"),
        }
    }
}
