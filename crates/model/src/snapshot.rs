//! What was observed of one cluster, in Kubernetes and in etcd, and how old it is. It is partial: what is absent was not
//! observed, and may still exist.

mod auth;
mod backup;
mod certificates;
mod database;
mod ended_pods;
mod hashes;
mod health;
mod issuance;
mod leadership;
mod loss;
mod network_policy;
mod progress;
mod published;
mod quarantine;
mod service;
mod site;
mod volume_space;

use std::collections::{BTreeMap, BTreeSet};

use crate::auth::{AuthPolicy, SeenAuth};
use crate::certificate::Ca;
use crate::effect::Wave;
use crate::guard::GuardVerdict;
use crate::ids::{ClusterId, MemberId, Revision};
use crate::incarnation::{Admission, RestoreOrder};
use crate::names::{ClusterRef, ClusterUid, MemberName, PeerUrl, Token, Uid};
use crate::object::{ManagedObject, ObservedObject};
use crate::quorum::has_quorum;
use crate::quorum_recovery::{ReadOnlyPod, RecoverFrom};
use crate::record::{Record, RecordDoubt};
use crate::restore::{Restore, RestoreFailure};
use crate::rotation::{Handshake, RotationPolicy};
use crate::target::{PodRevision, Retention, Target};
use crate::time::{ClockDifference, Instant, Present, Span};
use crate::version::{Minor, Version};
pub use auth::{KeptOutByAuth, needs_user};
pub use backup::{BackupBefore, BackupPurpose, BackupState};
pub use certificates::{
    Authority, AuthorityLoss, AuthoritySecret, Certificates, GivenAuthority, LeafCertificate, LeafSecret,
    Signing,
};
pub use database::{
    BACKUP_MAY_TAKE, DEFRAGMENT_DEADLINE, Database, DefragmentAttempt, Maintenance, SPACE_REGAINED_PERCENT,
    Threshold, Window, largest_quota, share_of_volume, volume_for_quota,
};
pub use hashes::{COMPARED_WITHIN, Comparison, Hashes, KeysHash};
pub use quarantine::Quarantine;

pub use ended_pods::{EndedPods, RAN_WELL_FOR};
pub use health::{CATCH_UP_ENTRIES, NoRoom, PodName, READY_WITHIN, ReplaceMember, Sick, Unhealthy, Unready};
pub use issuance::{Asked, Issuance, IssuedLeaf, IssuedSecret, SeenCertificate};
pub use leadership::TransferAttempt;
pub use loss::MOUNTED_WITHIN;
pub use network_policy::NetworkPolicy;
pub use progress::{CommittedMark, DOUBT_INTERVAL, IN_SYNC_WITHIN, PROOF_INTERVAL, Proof};
pub use published::{Published, Reader};
pub use service::{CLIENTS_LEAVE_WITHIN, CONNECTIONS_END_AFTER, LED_AWAY_AFTER, Presence};
pub use site::{LastNodes, ReplacementPolicy, Site};
pub use volume_space::{NearlyUsedUp, VolumeSpace};

/// How much later than its grace period a Pod may be gone. Kubelets report within seconds; clocks differ.
const LATE_STOP: Span = Span::seconds(60);

/// How long an observation of etcd counts as fresh. Effects rest on nothing older (R9, R18). Every pass asks every member, so it only
/// has to be longer than a pass.
pub const FRESH: Span = Span::seconds(15);

/// How long a quorum that served counts as one, while every Status shows that nothing was committed since and that all follow one
/// leader. Longer than the interval of the proofs of progress (300 s), each of which is an entry that a quorum stores, and two calm
/// looks of 30 s.
pub const SERVED_WITHIN: Span = Span::seconds(360);

/// Everything the planner knows of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which cluster.
    pub cluster: ClusterRef,
    /// Its incarnation.
    pub uid: ClusterUid,
    /// What the spec asks for now (not yet committed).
    pub desired: Target,
    /// `spec.paused`.
    pub paused: bool,
    /// `spec.recovery.keepVolumes`: how long a quarantined volume is kept.
    pub keep_volumes: Span,
    /// The object is being deleted, and nothing but its own protocol comes before its members are stopped.
    pub deleting: bool,
    /// Its deletion is ordered, and waits for the DataStore that Kamaji has for it; why. Until then it runs as any other cluster.
    pub data_store: Option<String>,
    /// A DataStore of Kamaji may exist for it, and tenants may use it.
    pub may_have_data_store: bool,
    /// The Secrets that clients follow a rotation of their authority by.
    pub published: Vec<Published>,
    /// Our finalizer is on the object.
    pub finalizer: bool,
    /// The annotation that adopts volumes of an earlier cluster.
    pub adopt: Option<ClusterId>,
    /// The annotation that says of the volumes of a cluster that they are the originals, or copies of one moment.
    pub adopt_copies: Option<ClusterId>,
    /// That annotation as it is, if there is one, for messages: it may name another cluster, or another EtcdCluster.
    pub adopt_copies_given: Option<String>,
    /// The backup tool that created this EtcdCluster, for messages, if one did.
    pub restored_by: Option<String>,
    /// What is recorded in status.
    pub record: Record,
    /// What the spec has the cluster begin with, or why that is not known; `None`: with nothing.
    pub restore: Option<Result<Restore, RestoreFailure>>,
    /// The EtcdRestore that is recorded as the order under way, if it still exists; without one, those that name the recorded cluster
    /// id, the oldest first.
    pub orders: Vec<RestoreOrder>,
    /// The annotation that orders to recover a lost quorum.
    pub recover_from: Option<RecoverFrom>,
    /// The cluster of which a person knows that its data are older than those that it was stopped with, and the revision that it has.
    pub accepts_loss: Option<(ClusterId, Revision)>,
    /// What people say about the rotation of certificate authorities.
    pub rotation_policy: RotationPolicy,
    /// What people ask of etcd's auth.
    pub auth_policy: AuthPolicy,
    /// Where members ran, as status has it.
    pub last_nodes: BTreeMap<MemberName, LastNodes>,
    /// Why the record is not known to be whole, if so (R22).
    pub record_doubt: Option<RecordDoubt>,
    /// How far the operator's clock is from the API server's, if it is too far to judge by it what is old, or to sign.
    pub clock_differs: Option<ClockDifference>,
    /// The members whose claims were to be read from the API server and could not be, and why: the watch does not show them, or their Pods
    /// were to be ended.
    pub claims_not_read: BTreeMap<MemberName, String>,
    /// What the API server said in this pass to the next Pods of members, without creating them (R27).
    pub successors: BTreeMap<MemberName, Admission>,
    /// Pods by member name.
    pub pods: BTreeMap<MemberName, Pod>,
    /// Volumes by member name, of every incarnation.
    pub volumes: BTreeMap<MemberName, Volume>,
    /// Why the API server refused a Pod with an image volume, if it did.
    pub image_volume_refused: Option<String>,
    /// Objects that have the names of this cluster's objects and are not owned by this EtcdCluster, each with its kind and name
    /// for messages: `Service default/demo`.
    pub foreign: BTreeMap<ManagedObject, String>,
    /// Objects of this cluster other than Pods that lack labels or annotations that the spec gives them, or have some that it gave before.
    pub metadata_differs: BTreeMap<ManagedObject, ObservedObject>,
    /// The headless peer Service.
    pub peer_service: Presence,
    /// The client Service.
    pub client_service: Presence,
    /// Whether there is a client Service of this EtcdCluster, and it selects other Pods than it is to: [`Self::client_service`] differs also for less.
    pub client_service_selects_others: bool,
    /// The Secret with all that an application connects with. Its desired form has the client certificate as it was observed.
    pub connection: Presence,
    /// Members whose Pods the client Service, as it is, sends clients to: it selects them, and they are ready.
    pub endpoints: BTreeSet<MemberName>,
    /// Which evictions the spec wants to admit.
    pub budget_policy: BudgetPolicy,
    /// The PodDisruptionBudget, if it exists.
    pub budget: Option<Budget>,
    /// The NetworkPolicy.
    pub network_policy: NetworkPolicy,
    /// The Secrets with certificates; `None` if TLS is off.
    pub certificates: Option<Certificates>,
    /// What cert-manager is asked for, and what there is of it.
    pub issuance: Issuance,
    /// What etcd reported.
    pub etcd: Etcd,
    /// `spec.maintenance`.
    pub maintenance: Maintenance,
    /// When and how lost members are replaced.
    pub replacement_policy: ReplacementPolicy,
    /// What Kubernetes says about where volumes can be used, of members for which it was asked.
    pub sites: BTreeMap<MemberName, Site>,
    /// The annotation that lets a finished minor upgrade be taken back, to exactly this version.
    pub allow_downgrade: Option<Version>,
    /// The annotation of the EtcdCluster that orders to replace this member.
    pub replace_member: Option<MemberName>,
    /// The backup that the spec wants: of a cluster that is being deleted before its end, of others before an upgrade to the desired
    /// version.
    pub backup_before: Option<BackupBefore>,
    /// The EtcdBackups that read a snapshot of a member now, as far as their status tells. Of which member is not known.
    pub running_backups: BTreeSet<String>,
    /// The EtcdUsers of the cluster whose users are not made yet, are not refused, and may still come.
    pub users_to_come: BTreeSet<String>,
    /// Whether changes of the operator's own defaults may be committed now.
    pub defaults: DefaultsTurn,
}

/// Whether changes of the operator's own defaults, such as a new image of the agent, may reach this cluster now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefaultsTurn {
    /// They may.
    #[default]
    Now,
    /// They wait for the next change of the spec: `spec.updates.operatorDefaults` is `OnNextChange`.
    OnNextChange,
    /// They wait for other clusters, or until this one is well.
    After(Wave),
}

/// A member's Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its uid: the precondition of every delete.
    pub uid: Uid,
    /// Its resource version when it was observed.
    pub resource_version: String,
    /// It is being deleted.
    pub terminating: bool,
    /// Failed or Succeeded: it will never run again.
    pub finished: bool,
    /// Its containers run and its member is a started voter.
    pub ready: bool,
    /// It has an address, so it can be dialled.
    pub ip: Option<String>,
    /// The node it is bound to.
    pub node: Option<String>,
    /// The zone of that node, where known.
    pub zone: Option<String>,
    /// The revision of the Pod template it was built from.
    pub revision: PodRevision,
    /// The generation of trust that its agent waited for before etcd started.
    pub trust: u32,
    /// Its agent has the operator's credential for etcd's auth.
    pub has_credential: bool,
    /// It has our scheduling gate: it runs nowhere before it is ungated.
    pub gated: bool,
    /// Started with `new`.
    pub boots_new: bool,
    /// etcd does not start in it: its agent reads the member's data while the quorum is recovered.
    pub read_only: Option<ReadOnlyPod>,
    /// Its agent restores the snapshot that the bootstrap begins with, unless the volume has data.
    pub restores: bool,
    /// Why the last try that ended failed, if it did. The next one may be under way.
    pub restore_failure: Option<RestoreFailure>,
    /// The container runs that fetches the snapshot, before etcd's.
    pub fetches: bool,
    /// etcd's container runs: the agent, and etcd as its child.
    pub runs: bool,
    /// Since when it is bound to its node, if its volumes and its network are still being set up for its first start.
    pub mounting: Option<Instant>,
    /// What its node says last of why it does not start, or is not ready. For messages only.
    pub node_says: Option<String>,
    /// When it stops at the latest, if it is being deleted: its kubelet ends it by then.
    pub stops_by: Option<Instant>,
    /// Annotated as joined: its guard takes an empty volume for a loss.
    pub joined: bool,
    /// Labelled as joined, and as the cluster's: without that the client Service does not select it.
    pub labelled: bool,
    /// Labelled as serving: with [`Self::labelled`], the client Service selects it (R24).
    pub serves: bool,
    /// Until when it was labelled as serving, if the operator took the label off to lead clients away.
    pub served_until: Option<Instant>,
    /// etcd was started in it at least once. Where the agent restores first: it has served at least once.
    pub has_run: bool,
    /// How its readiness probe fails while etcd's container runs; `None` while it passes, or nothing runs.
    pub unready: Option<Unready>,
    /// How often etcd was restarted in it.
    pub restarts: u32,
    /// etcd refused to start as new because its peers know it (from the termination message).
    pub already_bootstrapped: bool,
    /// etcd ended at its start because its data differ from a peer's (from the termination message). Which of them is wrong is not known.
    pub differs_from_peers: bool,
    /// The member that its etcd says it is, where etcd's check at the start refused its data: the last words of a run that ended with
    /// that error, and nothing else. Stricter than `differs_from_peers`, which is a reason to compare and no evidence.
    pub refused_by_check: Option<MemberId>,
    /// The image of etcd's container. Where images differ, so may the way in which hashes are made.
    pub image: Option<String>,
    /// An init container brings the agent.
    pub installs_agent: bool,
    /// The agent comes by an image volume, and etcd's container does not run: what keeps it.
    pub image_volume: Option<ImageVolume>,
    /// What the guard refused, if it did.
    pub guard: Option<(GuardVerdict, String)>,
    /// The minor version that its data need at least, if its etcd ended because it is older.
    pub data_need: Option<Minor>,
    /// What keeps it from running, as Kubernetes reports it: `ErrImagePull: ...`.
    pub trouble: Option<String>,
    /// The quota of the database by the flags of its etcd, if they set one.
    pub quota: Option<u64>,
}

/// What keeps a Pod from starting that gets the agent by an image volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageVolume {
    /// Its volumes and its network are being set up, since it was bound to its node, and etcd never ran in it. A kubelet that knows no
    /// image volumes reports nothing else.
    Mounting(Instant),
    /// The container cannot be created, or its program not executed, and why.
    Refused(String),
}

/// Which evictions the PodDisruptionBudget admits, as the spec asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BudgetPolicy {
    /// One Pod at a time, also of a cluster of one or two, which is out of service meanwhile.
    #[default]
    OneAtATime,
    /// As long as a quorum stays: a cluster of one or two admits none.
    Quorum,
    /// There is no budget.
    None,
}

/// The PodDisruptionBudget of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its uid and its version when it was observed.
    pub observed: ObservedObject,
    /// Its `minAvailable`; `None` if it does not match its desired form otherwise.
    pub min_available: Option<usize>,
    /// The member whose Pod it does not select.
    pub excludes: Option<MemberName>,
    /// How many evictions it admits now; `None` while its status is not yet of the present spec.
    pub allowed: Option<usize>,
    /// Pods whose eviction it admitted and that are not gone yet.
    pub disrupted: BTreeSet<MemberName>,
}

/// A member's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its uid.
    pub uid: Uid,
    /// Its resource version when it was observed.
    pub resource_version: String,
    /// It is being deleted.
    pub terminating: bool,
    /// It was deleted when the EtcdCluster was being deleted already, by the API server's clock.
    pub deleted_after_cluster: bool,
    /// The incarnation of the cluster that it was created for.
    pub cluster_uid: Option<ClusterUid>,
    /// The cluster id of its identity annotation.
    pub cluster_id: Option<ClusterId>,
    /// The member id of its identity annotation.
    pub member_id: Option<MemberId>,
    /// The token of its identity annotation.
    pub token: Option<Token>,
    /// It has the label of the cluster, without which the watches do not show it.
    pub labelled: bool,
    /// What created its claim with data that may be a copy, for messages: `VolumeSnapshot demo-0`. `None` for a claim of the operator.
    pub copied_by: Option<String>,
    /// Whether the members of its data use TLS; `None` as long as it is not annotated.
    pub tls: Option<bool>,
    /// The version of etcd that has run on its data, or was about to; `None` as long as it is not annotated.
    pub version: Option<Version>,
    /// Its quarantine, if it is quarantined.
    pub quarantine: Option<Quarantine>,
    /// It is or was quarantined because another incarnation took the place of its own. A person who takes it back leaves the reason there.
    pub gave_way: bool,
    /// The bytes that it requests.
    pub bytes: u64,
    /// The bytes that it has, once it is bound. A growth may take a while, or never come about.
    pub capacity: Option<u64>,
    /// It has grown, and its file system grows when it is mounted next.
    pub grows_at_mount: bool,
    /// Its phase is Lost: the PersistentVolume that it was bound to does not exist any more.
    pub lost: bool,
}

/// What etcd reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    /// A linearizable member list: proof of a quorum at that moment (R9).
    pub list: Option<List>,
    /// When the Status of every member showed that nothing was committed since the list was read: then it is still the list. `None` if
    /// the list was read in this pass.
    pub list_holds_at: Option<Instant>,
    /// When a quorum last served: a list was read, or an entry of the operator was committed. In this pass or an earlier one.
    pub quorum_at: Option<Instant>,
    /// Since when there is no list: the first pass without one or, if that came late, the last one with one. `None` if there is one, or
    /// never was.
    pub no_list_since: Option<Instant>,
    /// Since when this operator has read no list: its first pass without one. `None` if there is one.
    pub unserved_since: Option<Instant>,
    /// Why there is no list.
    pub list_failure: Option<String>,
    /// Each member's own answer, by the name of its Pod.
    pub answers: BTreeMap<MemberName, Answer>,
    /// What a handshake of this pass at each port of a member showed. Looked at while an authority is rotated.
    pub handshakes: BTreeMap<(MemberName, Ca), Handshake>,
    /// What was last seen of etcd's auth, in this pass or an earlier one.
    pub auth: Option<SeenAuth>,
    /// What the leader had committed in an earlier look, at least [`IN_SYNC_WITHIN`] ago.
    pub committed_before: Option<CommittedMark>,
    /// The proof of progress of this pass.
    pub proof: Option<Proof>,
    /// Why the proof of progress of this pass failed.
    pub proof_failure: Option<String>,
    /// When the last proof of progress was made, in this pass or an earlier one.
    pub proved_at: Option<Instant>,
    /// The recent attempts to move leadership that did not come about, in the order in which they were made.
    pub transfers: Vec<TransferAttempt>,
    /// The voters that are not healthy while there is a leader, and since when.
    pub unhealthy_since: BTreeMap<MemberName, Instant>,
    /// The voters that are not sound although their Pods are ready, while there is a leader, and since when.
    pub unsound_since: BTreeMap<MemberName, Instant>,
    /// The Pods of each member that ended one after another, of late.
    pub ended_pods: BTreeMap<MemberName, EndedPods>,
    /// The joining member, and when it was last in sync, received data, or came closer to the leader.
    pub learner_progress: Option<(MemberName, Instant)>,
    /// The joining members that the list has as voters and that do not answer as voters, and since when.
    pub unheard_since: BTreeMap<MemberName, Instant>,
    /// The operator compacted the history since the alarm NOSPACE was raised.
    pub compacted: bool,
    /// Since when this operator observes an alarm NOSPACE. `None` if there is none.
    pub full_since: Option<Instant>,
    /// The recent defragmentations, in the order in which they were made.
    pub defragmentations: Vec<DefragmentAttempt>,
    /// The last hashes of the members' data, if there was a reason to ask for them.
    pub hashes: Option<Hashes>,
    /// The member that may still make a hash: the operator gave the call up, and etcd goes on with it. It may answer nothing meanwhile.
    pub hashing: Option<MemberName>,
    /// The members whose volumes are nearly used up, as their agents last reported.
    pub nearly_used_up: BTreeMap<MemberName, NearlyUsedUp>,
}

/// A linearizable member list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// When it was read.
    pub at: Instant,
    /// The cluster it is of.
    pub cluster_id: ClusterId,
    /// The member that served it; membership calls go to the same one.
    pub via: MemberName,
    /// Its members.
    pub members: Vec<Listed>,
}

/// A member in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: MemberId,
    /// Its name; empty until it first started.
    pub name: String,
    /// Its peer URL. Members of this EtcdCluster have exactly one.
    pub peer_url: PeerUrl,
    /// Not yet a voter.
    pub is_learner: bool,
    /// It has published its client URLs by consensus, which a member does when it first runs with a quorum. What never
    /// did so, `etcdctl member list` calls unstarted.
    pub started: bool,
}

/// What one member answered, or that it did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When the reply or the failure arrived.
    pub at: Instant,
    /// The reply, or why there is none.
    pub reply: Result<StatusReply, String>,
}

/// A member's own Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusReply {
    /// The cluster it believes to be in.
    pub cluster_id: ClusterId,
    /// Its own id.
    pub member_id: MemberId,
    /// The leader it follows.
    pub leader: Option<MemberId>,
    /// Its raft still says learner (the list alone can lie: etcd-io/etcd#18347).
    pub is_learner: bool,
    /// The index that it knows to be committed (`raftIndex`).
    pub committed: u64,
    /// The index that it has applied (`raftAppliedIndex`).
    pub applied: u64,
    /// The store's revision.
    pub revision: Revision,
    /// The version that it runs.
    pub version: Version,
    /// The alarms it knows of, of any member: alarms are replicated.
    pub alarms: Vec<Alarm>,
    /// Its other errors. An alarm without a member is here, so it counts for every member.
    pub errors: Vec<String>,
    /// Its database.
    pub database: Database,
    /// The version of its data, which follows the cluster version: no older minor version runs on them. Before 3.6 it is not
    /// reported.
    pub storage_version: Option<Minor>,
    /// The minor version that etcd is being downgraded to. Before 3.6 it is not reported.
    pub downgrade: Option<Minor>,
}

/// An alarm, active until it is disarmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alarm {
    /// The member that raised it.
    pub member: MemberId,
    /// Its kind.
    pub kind: AlarmKind,
}

/// The kind of an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlarmKind {
    /// The database has reached its quota; every member refuses writes.
    NoSpace,
    /// The member's data differ from its peers'.
    Corrupt,
}

impl Pod {
    /// Whether label and annotation are both on it: its member's data must exist, and the client Service may select it.
    pub fn is_labelled_joined(&self) -> bool {
        self.joined && self.labelled
    }
}

impl Budget {
    /// Whether no Pod is being evicted, and none will be while the spec of the budget stays.
    pub fn is_closed(&self, at_least: usize) -> bool {
        let refuses = self.min_available.is_some_and(|min_available| min_available >= at_least);
        refuses && self.allowed == Some(0) && self.disrupted.is_empty()
    }
}

impl Pod {
    /// Whether it is being deleted, and its kubelet has not ended it in time. Its node may be gone.
    pub fn is_stuck(&self, now: Instant) -> bool {
        self.stops_by.is_some_and(|by| now > by + LATE_STOP)
    }
}

impl Snapshot {
    /// The linearizable list, if it was read a moment ago, or if the Status of every member shows that it still holds.
    pub fn list(&self, now: Instant) -> Option<&List> {
        let still_holds = self.etcd.list_holds_at.is_some_and(|at| now - at <= FRESH);
        self.etcd.list.as_ref().filter(|list| still_holds || now - list.at <= FRESH)
    }

    /// The linearizable list, if it was read a moment ago. Only on such a list anything is done (R9).
    pub fn list_just_read(&self, now: Instant) -> Option<&List> {
        let is_read = self.etcd.list_holds_at.is_none();
        self.etcd.list.as_ref().filter(|list| is_read && now - list.at <= FRESH)
    }

    /// The Pods in which a member may answer. A stray Pod is not asked, because its member is not part of the cluster.
    pub fn can_answer(&self) -> impl Iterator<Item = (&MemberName, &Pod)> {
        let is_asked = |member: &MemberName, pod: &Pod| {
            pod.ip.is_some()
                && !pod.finished
                && pod.read_only.is_none()
                && !self.is_stray(member)
                && !self.is_superseded(member)
        };
        self.pods.iter().filter(move |(member, pod)| is_asked(member, pod))
    }

    /// Whether this is the name of a member of an earlier incarnation. A late call may have created its Pod again. It is not asked and not
    /// counted, no Service selects it, and it is deleted.
    pub fn is_superseded(&self, member: &MemberName) -> bool {
        let ordinal = self.cluster.ordinal(member);
        ordinal.is_some_and(|ordinal| self.record.is_of_earlier_incarnation(ordinal))
    }

    /// Whether a late call created a Pod for a bootstrap attempt that was given up: its name is not recorded, and it was never
    /// labelled joined. If it runs, the cluster that it bootstraps has no clients.
    pub fn is_stray(&self, member: &MemberName) -> bool {
        let never_joined = self.pods.get(member).is_some_and(|pod| !pod.joined && !pod.labelled);
        never_joined && self.record.attempt > 0 && !self.record.members.contains_key(member)
    }

    /// What a member reports about itself, if it answered recently.
    pub fn status_of(&self, member: &MemberName, now: Instant) -> Option<&StatusReply> {
        self.etcd
            .answers
            .get(member)
            .filter(|answer| now - answer.at <= FRESH)
            .and_then(|answer| answer.reply.as_ref().ok())
    }

    /// Whether any volume of this incarnation has an identity annotation: then the cluster has served, even if status was lost.
    pub fn has_identity(&self) -> bool {
        let own = self.volumes.iter().filter(|(member, _)| !self.is_superseded(member));
        own.map(|(_, volume)| volume)
            .any(|volume| volume.cluster_uid.as_ref() == Some(&self.uid) && volume.cluster_id.is_some())
    }

    /// Whether this incarnation never served a client: a bootstrap attempt is recorded, and no cluster id, leader or identity annotation.
    /// Where no attempt is recorded, status was lost, and nothing is known.
    pub fn never_served(&self, record: &Record) -> bool {
        let is_whole = self.record_doubt.is_none();
        is_whole
            && record.attempt > 0
            && record.cluster_id.is_none()
            && !record.had_leader
            && !self.has_identity()
    }

    /// Whether its data stay when it is deleted: the retention policy says so, or the backup that was to come before is not known to be
    /// complete and of just now, which a wrong clock cannot tell (R23). Who asks for that backup wants the data, and a store that is down must
    /// not be the end of them.
    pub fn keeps_data_when_deleted(&self) -> bool {
        let lacks_backup = self.backup_before.as_ref().is_some_and(|backup| match backup.before {
            BackupPurpose::Deletion { .. } => {
                backup.state != BackupState::Complete || self.clock_differs.is_some()
            }
            BackupPurpose::Upgrade(_) => false,
        });
        lacks_backup || self.desired.storage.when_deleted == Retention::Retain
    }

    /// R23: the present by both clocks, where the operator's shows `now`.
    pub fn present(&self, now: Instant) -> Present {
        let differs = self.clock_differs.filter(|_| !crate::mutants::is_broken(crate::mutants::Rule::R23));
        Present::new(now, differs)
    }

    /// What the API server's clock shows.
    pub fn api_servers_time(&self, now: Instant) -> Instant {
        ClockDifference::of_api_server(self.clock_differs, now)
    }

    /// The peer URL of a member of this EtcdCluster.
    pub fn peer_url(&self, member: &MemberName) -> PeerUrl {
        let scheme = if self.target().tls { "https" } else { "http" };
        PeerUrl::new(format!("{scheme}://{}:2380", self.cluster.dns_name(member)))
    }

    /// The list's entry of a member of this EtcdCluster: by id where the record has it, else by peer URL. Never by position
    /// (R7). The record is an argument, because a plan in the making may know more than the observed record.
    pub fn listed(&self, record: &Record, member: &MemberName, now: Instant) -> Option<&Listed> {
        let id = record.members.get(member).and_then(|member| member.id);
        let url = self.peer_url(member);
        self.list(now)?.members.iter().find(|listed| match id {
            Some(id) => listed.id == id,
            None => listed.peer_url == url,
        })
    }

    /// The member of the record that has this id or, while it has none, this peer URL.
    pub fn member_of(&self, record: &Record, listed: &Listed) -> Option<MemberName> {
        record
            .members
            .iter()
            .find(|(name, member)| match member.id {
                Some(id) => id == listed.id,
                None => self.peer_url(name) == listed.peer_url,
            })
            .map(|(name, _)| name.clone())
    }

    /// The leader: the member that a quorum of the voters follow. A leader that was cut off, or whose disk hangs, goes on
    /// reporting itself. The term in a Status does not tell them apart: it is that of the last applied entry.
    pub fn leader(&self, now: Instant) -> Option<MemberId> {
        let voters = self.count_voters(now);
        let followers = |id| self.voters_that_answer(now).filter(|status| status.leader == Some(id)).count();
        let mut named = self.etcd.answers.keys().filter_map(|member| self.status_of(member, now)?.leader);
        named.find(|id| has_quorum(followers(*id), voters))
    }

    fn voters_that_answer(&self, now: Instant) -> impl Iterator<Item = &StatusReply> {
        let answers = self.etcd.answers.keys().filter_map(move |member| self.status_of(member, now));
        answers.filter(|status| !status.is_learner)
    }

    fn count_voters(&self, now: Instant) -> usize {
        let voters = self.list(now).map_or_else(
            || self.record.members.values().filter(|member| member.counts_for_quorum()).count(),
            |list| list.members.iter().filter(|listed| !listed.is_learner).count(),
        );
        // Without a list and without a record, those that answer are all that is known.
        if voters > 0 { voters } else { self.etcd.answers.len() }
    }

    /// The version that a member's data ran on last: the one that it reports, else the later one of what it reported last and what its data need,
    /// as they say themselves. Kubernetes' own etcd may have been restored, and status with it. Where nothing is recorded, because
    /// the record was lost, the one that its volume says.
    pub fn version_of(&self, record: &Record, member: &MemberName, now: Instant) -> Option<Version> {
        let reported = self.status_of(member, now).map(|status| status.version);
        let recorded = record.members.get(member).and_then(|member| member.version);
        let noted = || self.own_volume(record, member)?.version;
        let needed = self.pods.get(member).and_then(|pod| pod.data_need);
        let needed = needed.map(|Minor(major, minor)| Version::new(major, minor, 0));
        reported.or_else(|| recorded.or_else(noted).max(needed))
    }

    /// The committed target; before the first commit, the desired one.
    pub fn target(&self) -> &Target {
        self.record.target.as_ref().unwrap_or(&self.desired)
    }
}
