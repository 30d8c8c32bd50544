//! Faults in words.

use std::fmt;

use super::{Fault, Patch};

impl Fault {
    /// Its kind, for counting.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Request(outcome) => outcome.as_str(),
            Self::Stale(..) => "stale view",
            Self::TimeTravel(..) => "time travel",
            Self::TwoLead => "two lead",
            Self::Paused => "paused leader",
            Self::Expired => "certificates expire",
            Self::OtherPatch(..) => "other patch",
            Self::KillPod(_) => "kill Pod",
            Self::KillProcess(_) => "kill etcd",
            Self::Slow(_) => "slow Pod",
            Self::LoseNode(_) => "lose node",
            Self::Cut(_) => "partition",
            Self::Lag(_) => "lagging member",
            Self::LoseVolume(_) => "lose volume",
            Self::Wipe(_) => "wipe volume",
            Self::Alarm(_) => "alarm",
            Self::Touch(..) => "touch object",
            Self::Remove(..) => "remove object",
            Self::LoseStatus => "lose status",
            Self::Swap(_) => "swap data",
            Self::OldList => "old list",
            Self::Rogue(rogue) => rogue.kind(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash => f.write_str("the operator dies and starts anew"),
            Self::Request(outcome) => write!(f, "the next request: {}", outcome.as_str()),
            Self::Stale(kind, back) => {
                write!(f, "the operator sees every {kind} as it was {back} changes ago")
            }
            Self::TimeTravel(kind, back) => {
                write!(f, "the operator starts anew and sees every {kind} as it was {back} changes ago")
            }
            Self::TwoLead => f.write_str("another operator leads, and this one does not know it"),
            Self::Paused => f.write_str("another operator leads, and this one is stopped for long"),
            Self::Expired => f.write_str("certificates expire: nobody trusts anybody"),
            Self::OtherPatch(member, Patch::Next) => {
                write!(f, "{member} runs the patch after that of its image's name")
            }
            Self::OtherPatch(member, Patch::Before) => {
                write!(f, "{member} runs the patch before that of its image's name")
            }
            Self::KillPod(member) => write!(f, "Pod {member} is gone"),
            Self::KillProcess(member) => write!(f, "etcd dies in {member}"),
            Self::Slow(member) => write!(f, "Pod {member} does not start for long"),
            Self::LoseNode(member) => write!(f, "the node of {member} is gone from sight"),
            Self::Cut(member) => write!(f, "{member} and its peers do not reach each other"),
            Self::Lag(member) => write!(f, "{member} takes no new entries"),
            Self::LoseVolume(member) => write!(f, "the volume of {member} is gone, with its Pod"),
            Self::Wipe(member) => write!(f, "the volume of {member} is emptied, and its Pod starts over"),
            Self::Alarm(member) => write!(f, "{member} reports an alarm"),
            Self::Touch(kind, named) => write!(f, "somebody changes {kind} {named}"),
            Self::Remove(kind, named) => write!(f, "somebody deletes {kind} {named}"),
            Self::LoseStatus => f.write_str("the status of the cluster is gone"),
            Self::Swap(member) => write!(f, "the data of {member} are exchanged for another cluster's"),
            Self::OldList => f.write_str("the operator is served a member list of long ago"),
            Self::Rogue(rogue) => write!(f, "the planner proposes to {rogue}"),
        }
    }
}
