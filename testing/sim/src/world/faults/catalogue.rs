//! The table of faults: one row and one sentence each.

use std::fmt;

use super::spoil::FORMAT;
use super::{Fault, Patch, Planted};
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
    /// It is offered only where the scope asks for it. Random histories have them all.
    pub wide: bool,
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
        let row = |numbers, kind, hits, destroys| Entry { numbers, kind, hits, destroys, wide: false };
        let wide = |numbers, kind, hits, destroys| Entry { numbers, kind, hits, destroys, wide: true };
        match self {
            Self::Crash => row("F1 F2", "crash", Operator, Nothing),
            Self::Request(outcome) => row(numbers_of(*outcome), outcome.as_str(), Operator, Nothing),
            Self::Stale(..) => row("F7 F9", "stale view", Operator, Nothing),
            Self::TimeTravel(..) => row("F8", "time travel", Operator, Nothing),
            Self::TwoLead => row("F13", "two lead", Operator, Nothing),
            Self::Paused => row("F13", "paused leader", Operator, Nothing),
            Self::KillPod(_) => row("F15 F16", "kill Pod", Cluster, Data),
            Self::RemovedByHand(_) => wide("F15", "member removed by hand", Cluster, Data),
            Self::DeletePod(_) => wide("F15", "delete Pod", Cluster, Data),
            Self::Lingers(_) => wide("F16", "lingering Pod", Cluster, Nothing),
            Self::Drain(_) => wide("F15", "drain", Cluster, Data),
            Self::SecondBudget => wide("F15", "second budget", Cluster, Nothing),
            Self::OtherOperator(_) => wide("F15", "another operator", Cluster, Nothing),
            Self::BudgetsBehind => wide("F18", "budgets behind", Cluster, Nothing),
            Self::Refuse(..) => wide("F12", "refused writes", Cluster, Nothing),
            Self::ReadsFail(_) => wide("F12", "reads fail", Cluster, Nothing),
            Self::Arrives => wide("F5", "late request at any moment", Operator, Nothing),
            Self::Restored(_) => wide("F21", "restored EtcdCluster", Cluster, Status),
            Self::StoreGoesBack(_) => wide("F21", "store goes back", Cluster, Nothing),
            Self::ReuseAddress(_) => wide("F9", "address used again", Cluster, Nothing),
            Self::OthersTakeAddress(_) => wide("F9", "address of another cluster", Cluster, Data),
            Self::ClientWrites => wide("F14", "a write", Cluster, Nothing),
            Self::ManyWrites(_) => wide("F27", "many writes", Cluster, Nothing),
            Self::ClientsOnNames => wide("F14", "clients on member names", Cluster, Nothing),
            Self::ClockSet(..) => wide("F26", "clock set", Cluster, Nothing),
            Self::Stays(fault) => {
                let Entry { numbers, hits, destroys, .. } = fault.entry();
                wide(numbers, kind_for_good(fault), hits, destroys)
            }
            Self::KillProcess(_) => row("F16", "kill etcd", Cluster, Nothing),
            Self::Slow(_) => row("F16 F18", "slow Pod", Cluster, Nothing),
            Self::RefusedByKubelet(_) => wide("F16", "Pod refused by kubelet", Cluster, Data),
            Self::LoseNode(_) => row("F16", "lose node", Cluster, Nothing),
            Self::NodeGone(_) => wide("F16", "node gone", Cluster, Data),
            Self::NodeCreatedAgain(_) => wide("F16", "node created again", Cluster, Data),
            Self::LoseVolume(_) => row("F17", "lose volume", Cluster, Data),
            Self::DeleteClaim(_) => wide("F17", "claim deleted", Cluster, Data),
            Self::WentBack(_) => wide("F17", "volume went back", Cluster, Nothing),
            Self::Wipe(_) => row("F17", "wipe volume", Cluster, Data),
            Self::EmptyMount(_) => wide("F17", "empty mount", Cluster, Nothing),
            Self::NoStore(_) => row("F25", "no store", Cluster, Nothing),
            Self::Swap(_) => row("F17", "swap data", Cluster, Data),
            Self::Lag(_) => row("F18", "lagging member", Cluster, Nothing),
            Self::HangDisk(_) => wide("F18", "hung disk", Cluster, Nothing),
            Self::FillDisk(_) => wide("F18", "full disk", Cluster, Nothing),
            Self::ReadOnlyDisk(_) => wide("F18", "read-only disk", Cluster, Nothing),
            Self::SlowDisk(_) => wide("F18", "slow disk", Cluster, Nothing),
            Self::NodeShutsDown(_) => wide("F16", "node shuts down", Cluster, Data),
            Self::Cut(_) => row("F19", "partition", Cluster, Nothing),
            Self::CutFromPeers(_) => wide("F19", "partition of peers", Cluster, Nothing),
            Self::OldList => row("F19", "old list", Operator, Nothing),
            Self::Touch(..) => row("F15", "touch object", Cluster, Nothing),
            Self::Remove(..) => row("F15", "remove object", Cluster, Nothing),
            Self::LoseStatus => row("F21", "lose status", Cluster, Status),
            Self::SpoilStatus(_) => wide("F21", "spoil status", Cluster, Nothing),
            Self::Alarm(_) => row("F22", "alarm", Cluster, Nothing),
            Self::Damage(_) => wide("F22", "damaged data", Cluster, Nothing),
            Self::ForgetPromotion(_) => wide("F22", "forgotten promotion", Cluster, Nothing),
            Self::EnableAuth => wide("F22", "auth enabled", Cluster, Nothing),
            Self::PlantUser(_) => wide("F22", "user planted", Cluster, Nothing),
            Self::WipeUnder(_) => wide("F17", "data wiped under etcd", Cluster, Data),
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

/// The kind of a fault that stays.
fn kind_for_good(fault: &Fault) -> &'static str {
    match fault {
        Fault::LoseNode(_) => "lose node, for good",
        Fault::Slow(_) => "slow Pod, for good",
        Fault::Cut(_) => "partition, for good",
        Fault::CutFromPeers(_) => "partition of peers, for good",
        Fault::Lag(_) => "lagging member, for good",
        Fault::Refuse(..) => "refused writes, for good",
        Fault::ReadsFail(_) => "reads fail, for good",
        Fault::HangDisk(_) => "hung disk, for good",
        Fault::FillDisk(_) => "full disk, for good",
        Fault::ReadOnlyDisk(_) => "read-only disk, for good",
        Fault::SlowDisk(_) => "slow disk, for good",
        Fault::EmptyMount(_) => "empty mount, for good",
        Fault::Damage(_) => "damaged data, for good",
        Fault::ClockSet(..) => "clock set, for good",
        other => other.kind(),
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
            Self::RemovedByHand(member) => write!(f, "somebody removes {member} with etcdctl"),
            Self::KillPod(member) => write!(f, "Pod {member} is gone"),
            Self::DeletePod(member) => {
                write!(f, "somebody deletes Pod {member}, which serves on for a while")
            }
            Self::Lingers(member) => write!(f, "Pod {member} takes its whole grace period to stop"),
            Self::Drain(member) => write!(f, "somebody drains the node of {member}"),
            Self::SecondBudget => f.write_str("somebody creates another budget for the Pods"),
            Self::OtherOperator(named) => write!(f, "another operator has made {named} for this EtcdCluster"),
            Self::BudgetsBehind => f.write_str("the disruption controller is behind"),
            Self::Refuse(kind, named) if named.is_empty() => {
                write!(f, "the API server refuses to create any {kind}")
            }
            Self::Refuse(kind, named) => {
                write!(f, "the API server refuses to create {kind} {named}")
            }
            Self::ReadsFail(of) => write!(f, "the API server answers no read of {}", of.as_str()),
            Self::Arrives => f.write_str("a late request arrives"),
            Self::Restored(true) => f.write_str("the EtcdCluster is lost and restored with its status"),
            Self::Restored(false) => f.write_str("the EtcdCluster is lost and restored without a status"),
            Self::StoreGoesBack(back) => write!(f, "Kubernetes goes back by {back} changes"),
            Self::ReuseAddress(member) => write!(f, "the address of {member} is used again"),
            Self::OthersTakeAddress(member) => {
                write!(f, "Pod {member} is gone, and a member of another cluster has its address")
            }
            Self::ClientWrites => f.write_str("a client writes"),
            Self::ManyWrites(mib) => write!(f, "clients write until databases have {mib} MiB"),
            Self::ClientsOnNames => f.write_str("clients write through the names of members"),
            Self::ClockSet(clock, by) => write!(f, "{clock} set ahead by {by} s"),
            Self::Stays(fault) => write!(f, "{fault}, for good"),
            Self::KillProcess(member) => write!(f, "etcd dies in {member}"),
            Self::Slow(member) => write!(f, "Pod {member} does not start for a long time"),
            Self::LoseNode(member) => write!(f, "the node of {member} is out of reach"),
            Self::NodeGone(member) => {
                write!(f, "the node of {member} is deleted, and its volume was on the disk of that node")
            }
            Self::NodeCreatedAgain(member) => {
                write!(
                    f,
                    "another machine comes under the name of the node of {member}, which had its volume"
                )
            }
            Self::LoseVolume(member) => write!(f, "the volume of {member} is gone, with its Pod"),
            Self::DeleteClaim(member) => {
                write!(f, "somebody deletes the claim of {member}, which stays as long as a Pod names it")
            }
            Self::WentBack(member) if member.is_empty() => {
                f.write_str("an earlier storage snapshot takes the place of every volume")
            }
            Self::WentBack(member) => {
                write!(f, "an earlier storage snapshot takes the place of the volume of {member}")
            }
            Self::Wipe(member) => write!(f, "the volume of {member} is emptied, and its Pod starts again"),
            Self::EmptyMount(member) => write!(f, "the volume of {member} is mounted empty"),
            Self::NoStore(member) => write!(f, "{member} does not reach the store of the snapshot"),
            Self::Swap(member) => write!(f, "the data of {member} are replaced by those of another cluster"),
            Self::RefusedByKubelet(member) => write!(f, "the kubelet of {member} refuses its Pod"),
            Self::Lag(member) => write!(f, "{member} takes no new entries"),
            Self::HangDisk(member) => write!(f, "the disk of {member} hangs"),
            Self::FillDisk(member) => write!(f, "the disk of {member} is full"),
            Self::ReadOnlyDisk(member) => write!(f, "the disk of {member} is mounted read-only"),
            Self::NodeShutsDown(member) => write!(f, "the node of {member} is shut down"),
            Self::SlowDisk(member) => write!(f, "the disk of {member} is slower than an election timeout"),
            Self::Cut(member) => write!(f, "{member} and its peers do not reach each other"),
            Self::CutFromPeers(member) => {
                write!(f, "{member} and its peers do not reach each other, and clients reach it")
            }
            Self::OldList => f.write_str("the operator receives an old member list"),
            Self::Touch(kind, named) => write!(f, "another client changes {kind} {named}"),
            Self::Remove(kind, named) => write!(f, "another client deletes {kind} {named}"),
            Self::LoseStatus => f.write_str("the status of the cluster is gone"),
            Self::SpoilStatus(field) if field == FORMAT => f.write_str("a newer operator writes the status"),
            Self::SpoilStatus(field) => write!(f, "another definition drops status.{field}"),
            Self::Alarm(member) => write!(f, "{member} reports an alarm"),
            Self::Damage(member) => write!(f, "the data of {member} differ from the log"),
            Self::ForgetPromotion(member) => write!(f, "{member} is still a learner to raft"),
            Self::EnableAuth => f.write_str("somebody enables auth"),
            Self::PlantUser(Planted::Orphan) => f.write_str("a user whose EtcdUser is gone is in etcd"),
            Self::PlantUser(Planted::OfEtcdUser) => f.write_str("an EtcdUser is made, and its user"),
            Self::PlantUser(Planted::ByHand) => f.write_str("somebody makes a user in etcd"),
            Self::WipeUnder(member) => {
                write!(f, "the data directory of {member} is emptied, and only etcd starts again")
            }
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
