//! The faults of the simulation. The caller chooses which one strikes, and when.
//!
//! - this file: the faults, and how one strikes
//! - `catalogue`: the table: number, kind, what it hits, what it destroys, and a sentence
//! - `offer`: which faults can strike at a moment; `strike`: what each one does
//! - `lasting`: faults that go on until all else has come to rest
//! - `go_back`: Kubernetes' own etcd is restored
//! - `by_hand`, `spoil`: what somebody does to etcd or to status past the operator
//!
//! To add one, add a variant to [`Fault`]. The compiler names the two matches that miss it, in `catalogue` and `strike`. Then
//! offer it in `offer`. From then on it strikes in the explored scopes and the random histories. The random tests fail if it is
//! offered and never strikes.

mod by_hand;
mod catalogue;
mod go_back;
mod lasting;
mod offer;
mod spoil;
mod strike;

use quorate_api::keys;
use quorate_apistore::fields::{annotation, deleting, uid};
use quorate_manifests::Kind;
use quorate_model::MemberId;
use quorate_model::quorum::has_quorum;
use quorate_model::record::Stage;
use quorate_model::target::Medium;
use serde::{Deserialize, Serialize};

use super::World;
use super::clocks::Clock;
use super::person::Remedy;
use super::rogue::RogueEffect;
use super::wire::RequestOutcome;
pub use catalogue::{Destroys, Entry, Hits};
pub use lasting::{LastingFaults, Stopping};

/// A departure from the fair schedule. Its number is that of its row in `docs/proof.md`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// F1, F2: the operator dies in the middle of a pass, and starts again.
    Crash,
    /// F3 to F6, F11, F12: the operator's next request meets this outcome.
    Request(RequestOutcome),
    /// F7, F9: in its next pass the operator observes the objects of one kind as they were this many changes ago.
    Stale(String, u32),
    /// F8: the operator starts again, with a list that is older than what it had observed.
    TimeTravel(String, u32),
    /// F13: another replica takes the lease, and this one does not notice. Both go on, in turns, until this one's pass ends.
    TwoLead,
    /// F13: another replica takes the lease while this one is stopped in its pass; it goes on when all else is at rest.
    Paused,
    /// F15: somebody removes a member with etcdctl.
    RemovedByHand(String),
    /// F15, F16: a Pod is deleted, with its processes.
    KillPod(String),
    /// F15: somebody deletes a Pod with its grace period: etcd serves on until all else is at rest, then stops, and then the kubelet
    /// confirms.
    DeletePod(String),
    /// F16: a Pod takes its whole grace period to stop, whoever deletes it.
    Lingers(String),
    /// F15: somebody drains the node of a Pod: the Pod is evicted as soon as its budget admits it.
    Drain(String),
    /// F15: an unmanaged budget selects the Pods, too: every eviction is refused with 500.
    SecondBudget,
    /// F15: another operator of the same group and kind has made the object of this name, a name of the cluster, before the cluster began: its
    /// controller is this EtcdCluster.
    OtherOperator(String),
    /// F18: the disruption controller is behind: budgets are not counted.
    BudgetsBehind,
    /// F12: the API server refuses to create objects of this kind and name (of any, if it is empty), and to change Services and
    /// Secrets: a quota, a webhook, a missing right.
    Refuse(String, String),
    /// F12: the API server answers no read of this kind, or of where volumes can be used. The watches go on, and so do writes.
    ReadsFail(Unread),
    /// F5: the first request of which no reply came arrives now.
    Arrives,
    /// F21: the EtcdCluster and its objects are lost, and a backup tool creates it again under another uid, with its status or without.
    /// The volumes were kept.
    Restored(bool),
    /// F21: Kubernetes' own etcd is restored as it was this many changes ago: all objects go back, with smaller versions. Kubelets start the Pods
    /// of before, and stop those that have no object any more. The operator notices, ends, and begins anew.
    StoreGoesBack(u32),
    /// F9: the next Pod that starts gets the address of this member's Pod, if that is gone by then.
    ReuseAddress(String),
    /// F9: a Pod is gone, a member of another cluster has its address, and the operator's view of Pods is old.
    OthersTakeAddress(String),
    /// F14: clients write through the names of members, too, ready or not.
    ClientsOnNames,
    /// F14: a client writes.
    ClientWrites,
    /// F27: clients write so much that a member that is away needs a snapshot, and each database has so many MiB.
    ManyWrites(u64),
    /// A fault that does not end until a person follows the runbook.
    Stays(Box<Fault>),
    /// F16: etcd dies in its Pod.
    KillProcess(String),
    /// F16, F18: a created Pod does not start until all else is at rest.
    Slow(String),
    /// F16: a node is out of reach: its Pod runs on, and can neither be reached nor stopped.
    LoseNode(String),
    /// F16: the node of a Pod is deleted for good, and the volume of its member was on that node's own disk.
    NodeGone(String),
    /// F16: the same, and another machine comes under the name of the node: the volume can never be mounted again.
    NodeCreatedAgain(String),
    /// F17: a volume and its data are lost, with the Pod that used it.
    LoseVolume(String),
    /// F17: somebody deletes the claim of a member. Kubernetes keeps it, and its data, as long as a Pod names it, and no longer.
    DeleteClaim(String),
    /// F17: while the cluster sleeps, a storage snapshot of before the last write of a client is put in the place of the volume of this member,
    /// or of all volumes, if the name is empty.
    WentBack(String),
    /// F17: a volume is emptied, and all containers of its Pod, if it exists, start again.
    Wipe(String),
    /// F17: the volume of a member is mounted empty, and all containers of its Pod start again. Its data are not lost.
    EmptyMount(String),
    /// F25: the agent of a member does not reach the store with the snapshot that the cluster begins with.
    NoStore(String),
    /// F17: the data on a volume are replaced by those of another cluster, and etcd starts again on them.
    Swap(String),
    /// F18: a member takes no new entries.
    Lag(String),
    /// F18: the disk of a member hangs: it stores nothing from now on, and its etcd still answers.
    HangDisk(String),
    /// F18: the disk of a member is full: its etcd ends at the next entry that it has to store.
    FillDisk(String),
    /// F18: after an I/O error the file system of a member is mounted read-only: its etcd ends at the next entry, and starts no more.
    ReadOnlyDisk(String),
    /// F18: the disk of a member is slower than an election timeout: the member stores everything, and takes no leadership over.
    SlowDisk(String),
    /// F16: the kubelet of a member refuses its Pod, which is bound to the node: the Pod has failed.
    RefusedByKubelet(String),
    /// F16: the node of a member is shut down gracefully: etcd is stopped, and its Pod has failed and stays.
    NodeShutsDown(String),
    /// F19: a member and its peers do not reach each other; its kubelet still reaches it.
    Cut(String),
    /// F19: a member and its peers do not reach each other; clients, the operator and its kubelet still reach it.
    CutFromPeers(String),
    /// F19: the operator receives an old member list.
    OldList,
    /// F15: another client changes a managed object of this kind and name.
    Touch(String, String),
    /// F15: another client deletes a managed object.
    Remove(String, String),
    /// F21: the status of the cluster is lost.
    LoseStatus,
    /// F21: another definition drops this field of the record, or a newer operator writes `formatVersion`, until a person puts it back.
    SpoilStatus(String),
    /// F22: a member reports an alarm.
    Alarm(String),
    /// F22: the data of a member come to differ from the log, and etcd's comparison of hashes raises an alarm.
    Damage(String),
    /// F22: a member is a voter by the list, and still a learner to raft.
    ForgetPromotion(String),
    /// F22: somebody enables auth, without a user for the operator.
    EnableAuth,
    /// F22: a user comes to be in etcd.
    PlantUser(Planted),
    /// F17: the data directory is emptied under a running Pod, and etcd starts again. No other container does, so no guard runs.
    WipeUnder(String),
    /// F23: certificates expire: running members and the operator trust each other no more.
    Expired,
    /// F26: a clock is set ahead by so many seconds, or back.
    ClockSet(Clock, i64),
    /// F24: the etcd in a Pod has another patch version than the tag of its image.
    OtherPatch(String, Patch),
    /// The planner itself is wrong: it proposes this in its next plan. The operator does what the safety checks permit.
    Rogue(RogueEffect),
}

/// What the operator reads from the API server beside its watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unread {
    /// Claims, before Pods end.
    Claims,
    /// Pods, beside each proof of progress.
    Pods,
    /// Services, before the first act.
    Services,
    /// Secrets, before the first act.
    Secrets,
    /// StorageClasses, volumes and nodes: where the volume of a member can be used.
    Sites,
}

impl Unread {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Claims, Self::Pods, Self::Services, Self::Secrets, Self::Sites];

    /// What reads of this kind are about.
    pub fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Volume => Some(Self::Claims),
            Kind::Pod => Some(Self::Pods),
            Kind::Service => Some(Self::Services),
            Kind::Secret => Some(Self::Secrets),
            Kind::Cluster | Kind::Budget | Kind::NetworkPolicy | Kind::Certificate | Kind::Backup => None,
        }
    }

    /// Its name in stories.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claims => "claims",
            Self::Pods => "Pods",
            Self::Services => "Services",
            Self::Secrets => "Secrets",
            Self::Sites => "nodes and volumes",
        }
    }
}

/// A user that comes to be in etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Planted {
    /// One with the name and the role of an EtcdUser that does not exist, as a snapshot brings it.
    Orphan,
    /// That of an EtcdUser that exists.
    OfEtcdUser,
    /// One that a person makes.
    ByHand,
}

/// A patch version other than that of an image's tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Patch {
    /// The next one.
    Next,
    /// The one before.
    Before,
}

impl World {
    /// Lets a fault strike. `false` if it cannot happen now.
    pub fn strike(&mut self, fault: &Fault) -> bool {
        let struck = (self.leaves_an_identity(fault) || self.wide && self.leaves_a_quorum(fault))
            && self.apply_fault(fault);
        if struck {
            self.waited = 0;
            if self.remedy == Remedy::Replaced {
                self.remedy = Remedy::NotYet;
            }
            self.check_for_harm();
        }
        struck
    }

    /// Whether something still identifies the cluster after the fault. If status and data are both lost, nothing does, and no rule
    /// can hold.
    fn leaves_an_identity(&self, fault: &Fault) -> bool {
        match fault.entry().destroys {
            Destroys::Nothing => true,
            Destroys::Data => !self.faults.status_lost,
            Destroys::Status => self.faults.data_destroyed.is_empty(),
        }
    }

    /// Whether status and data are lost, and what is left still says which cluster it is. It is tried on a copy.
    fn leaves_a_quorum(&self, fault: &Fault) -> bool {
        let has_status = !self.faults.status_lost;
        let known = if has_status { self.identifies_itself() } else { !self.faults.unidentified };
        if !known {
            return false;
        }
        let mut after = self.fork();
        after.apply_fault(fault) && after.identities_are_a_quorum()
    }

    /// Whether all that status records can be read from elsewhere: from etcd's list, and from the volumes of a quorum of the voters. An
    /// order that is being carried out is recorded nowhere else, and data in memory have no name.
    fn identifies_itself(&self) -> bool {
        let record = self.record();
        let on_disk = record.target.as_ref().is_some_and(|target| target.storage.medium == Medium::Disk);
        // Also not between two incarnations: the volumes of the one before are quarantined.
        let is_settled = record.cluster_id.is_some()
            && record.members.values().all(|member| member.stage != Stage::Bootstrap);
        on_disk && is_settled && self.open_order().is_none() && self.identities_are_a_quorum()
    }

    /// Whether a quorum of the voters by etcd's list have their data on volumes that name them.
    fn identities_are_a_quorum(&self) -> bool {
        let volumes = self.objects(Kind::Volume);
        let named = volumes.iter().filter_map(|volume| {
            let cluster = annotation(volume, keys::CLUSTER_ID)?;
            let dir = self.etcd.dir(uid(volume))?;
            let is_own = annotation(volume, keys::MEMBER_ID)? == dir.member.to_string();
            (is_own && cluster == dir.cluster.to_string() && !deleting(volume)).then_some(dir)
        });
        let named: Vec<_> = named.collect();
        let Some(group) = named.first().and_then(|dir| self.etcd.group(dir.cluster)) else { return false };
        let voters: Vec<MemberId> = group.conf().voters().collect();
        let has_data = |voter: &&MemberId| named.iter().any(|dir| dir.member == **voter);
        has_quorum(voters.iter().filter(has_data).count(), voters.len())
    }
}
