//! A world in which every effect succeeds at once and nothing else happens. Tests watch protocols run in it, and break one
//! thing at a time. (Effects that fail or arrive late, and late observations, belong to other tests.)
//!
//! Long because every part of it is seen by the same plan: what is observed, and what each effect changes.
#![allow(missing_docs, reason = "each name says it")]

pub mod certificates;
pub mod rotation;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quorate_model::auth::{AuthChange, AuthPolicy, Clients, Marked, Orphan, Root, SeenAuth};
use quorate_model::effect::{Boot, DowngradeAction, Successor};
use quorate_model::incarnation::{Admission, Admitted};
use quorate_model::names::Uid;
use quorate_model::quorum::has_quorum;
use quorate_model::quorum_recovery::{ReadOnlyAnswer, ReadOnlyOrder, ReadOnlyPod};
use quorate_model::record::QuarantineCause;
use quorate_model::restore::Restore;
use quorate_model::rotation::{Handshake, RotationPolicy};
use quorate_model::snapshot::{
    Alarm, AlarmKind, Answer, BackupState, Budget, BudgetPolicy, CLIENTS_LEAVE_WITHIN, COMPARED_WITHIN,
    CommittedMark, Database, DefaultsTurn, DefragmentAttempt, Etcd, Hashes, Issuance, KeysHash, List, Listed,
    Maintenance, NetworkPolicy, Pod, Presence, Proof, Quarantine, ReplacementPolicy, StatusReply,
    TransferAttempt, Unready, Volume,
};
use quorate_model::target::{Medium, PodRevision, PodTemplate, Retention, Storage};
use quorate_model::{
    AppliedObject, Ca, ClusterId, ClusterRef, ClusterUid, DeletedObject, Effect, EtcdCall, Fingerprint,
    Instant, KubeEffect, Leaf, MemberId, MemberName, Minor, ObservedObject, Plan, Record, Revision, Snapshot,
    Span, Target, Version, Waiting,
};
use quorate_planner::{View, plan};

/// The cluster as it is observed, and the state of etcd behind it.
pub struct World {
    pub seen: Snapshot,
    pub now: Instant,
    /// Which member's data are on which volume, also where the volume has no annotation.
    data: BTreeMap<Uid, (ClusterId, MemberId)>,
    pub members: Vec<Listed>,
    pub cluster_id: Option<ClusterId>,
    pub leader: Option<MemberName>,
    /// Members that do not answer although their Pod exists.
    pub silent: BTreeSet<MemberName>,
    /// Those whose raft has not heard of their promotion.
    pub still_learners: BTreeSet<MemberName>,
    /// Members that answer and that their peers do not reach: they follow no leader.
    pub cut_from_peers: BTreeSet<MemberName>,
    /// Members that answer although their Pod is being deleted.
    pub serving_on: BTreeSet<MemberName>,
    /// The authorities that the etcd in each Pod trusts: those of its Secrets when it started.
    pub trusts: BTreeMap<Uid, BTreeMap<Ca, BTreeSet<Fingerprint>>>,
    /// The kubelets of these members have not brought the leaves that were signed last.
    pub presents_earlier: BTreeMap<MemberName, Fingerprint>,
    /// What the members whose disks hang had applied before.
    pub hung: BTreeMap<MemberName, u64>,
    /// Why the API server admits no Pod of a member, if so.
    pub admits_no_pod: Option<String>,
    /// Passes came before, so that what the leader had committed is known without a proof.
    pub sees_commits: bool,
    /// Members that never take leadership over.
    pub never_lead: BTreeSet<MemberName>,
    /// The attempts to move leadership since the leader changed last.
    pub transfers: Vec<TransferAttempt>,
    /// As the pass remembers it from observation to observation.
    unhealthy_since: BTreeMap<MemberName, Instant>,
    unsound_since: BTreeMap<MemberName, Instant>,
    unheard_since: BTreeMap<MemberName, Instant>,
    /// The alarms that every member reports.
    pub alarms: BTreeSet<Alarm>,
    /// Every member reports an alarm CORRUPT that names nobody.
    pub unnamed_alarm: bool,
    /// The members whose data differ from the log, each with its own hash.
    pub wrong: BTreeMap<MemberName, u32>,
    /// Those that refuse to make a hash.
    pub without_hash: BTreeSet<MemberName>,
    /// Those that etcd's check at the start ends again and again, in every Pod.
    pub kept_out: BTreeSet<MemberName>,
    /// The hashes of the last comparison, and when they are made again.
    hashes: Option<Hashes>,
    /// The databases of the members that are not nearly empty.
    pub databases: BTreeMap<MemberName, Database>,
    /// What the pass remembers: the history was compacted, and the defragmentations.
    pub compacted: bool,
    full_since: Option<Instant>,
    pub defragmentations: Vec<DefragmentAttempt>,
    /// Whether the reply to a defragmentation arrives.
    pub replies: bool,
    /// The committed index.
    pub committed: u64,
    /// The revision of etcd's store.
    pub revision: i64,
    /// When progress was proved last.
    pub proved_at: Option<Instant>,
    counter: u64,
    /// The version that each member's Pod runs.
    pub versions: BTreeMap<MemberName, Version>,
    /// No older binary starts below it.
    pub cluster_version: Option<Minor>,
    /// A downgrade to this minor version is enabled.
    pub downgrade: Option<Minor>,
    /// Whether etcd's auth is on, and how far its user root is.
    pub auth: (bool, Root),
    /// The user of the certificate that applications share has the role root.
    /// Who the clients of the cluster are in etcd.
    pub clients: Clients,
    /// The users in etcd without an EtcdUser.
    pub orphans: BTreeMap<Marked, Orphan>,
    /// Who else has the role root.
    pub other_roots: BTreeSet<String>,
    /// etcd has the role root.
    pub has_root_role: bool,
    /// Somebody gave root a password.
    pub planted: bool,
}

/// The quota of a member.
pub const QUOTA: u64 = 600 << 20;

/// The database of a member that hardly holds anything.
const EMPTY: Database = Database { size: 1 << 20, in_use: 1 << 20, quota: Some(QUOTA) };

pub fn target(size: usize) -> Target {
    Target {
        size,
        version: Version::new(3, 6, 16),
        pod: PodTemplate {
            revision: PodRevision("r1".into()),
            image_has_version: true,
            content: "{}".into(),
            quota: Some(QUOTA),
            compacts: false,
        },
        storage: Storage {
            medium: Medium::Disk,
            class: None,
            access_mode: "ReadWriteOnce".into(),
            bytes: 1 << 30,
            limit_bytes: None,
            when_deleted: Retention::Retain,
            when_scaled: Retention::Delete,
        },
        tls: true,
        auth: false,
    }
}

/// A snapshot that can be restored.
pub fn snapshot() -> Restore {
    Restore {
        content: "{}".to_owned(),
        url: "s3://backups/1".to_owned(),
        version: Some(Version::new(3, 6, 16)),
        bytes: Some(1 << 20),
        revision: Some(Revision(2)),
        auth: None,
        bump: 1_000_000_000,
        floor: Revision(0),
    }
}

pub fn name(text: &str) -> MemberName {
    MemberName::new(text)
}

impl World {
    /// What the planner knows, by the record as it was observed.
    pub fn view(&self) -> View<'_> {
        View { seen: &self.seen, record: &self.seen.record, now: self.now }
    }

    /// A cluster that was just created.
    pub fn new(size: usize) -> Self {
        Self {
            seen: Snapshot {
                record_doubt: None,
                clock_differs: None,
                claims_not_read: BTreeMap::new(),
                successors: BTreeMap::new(),
                restore: None,
                orders: Vec::new(),
                recover_from: None,
                accepts_loss: None,
                rotation_policy: RotationPolicy::default(),
                auth_policy: AuthPolicy::default(),
                last_nodes: BTreeMap::new(),
                cluster: ClusterRef::new("default", "demo"),
                uid: ClusterUid::new("uid-1"),
                desired: target(size),
                paused: false,
                keep_volumes: Span::seconds(168 * 3600),
                replacement_policy: ReplacementPolicy::default(),
                sites: BTreeMap::new(),
                deleting: false,
                finalizer: false,
                adopt: None,
                adopt_copies: None,
                adopt_copies_given: None,
                restored_by: None,
                record: Record::default(),
                pods: BTreeMap::new(),
                volumes: BTreeMap::new(),
                image_volume_refused: None,
                foreign: BTreeMap::new(),
                metadata_differs: BTreeMap::new(),
                peer_service: Presence::Absent,
                client_service: Presence::Absent,
                client_service_selects_others: false,
                connection: Presence::Absent,
                network_policy: NetworkPolicy::default(),
                issuance: Issuance::default(),
                endpoints: BTreeSet::new(),
                budget: None,
                budget_policy: BudgetPolicy::OneAtATime,
                certificates: Some(certificates::none()),
                etcd: Etcd::default(),
                allow_downgrade: None,
                replace_member: None,
                backup_before: None,
                data_store: None,
                may_have_data_store: false,
                published: Vec::new(),
                running_backups: BTreeSet::new(),
                users_to_come: BTreeSet::new(),
                defaults: DefaultsTurn::Now,
                maintenance: Maintenance { no_space_remedy: true, defrag: None },
            },
            now: Instant(1_000_000),
            data: BTreeMap::new(),
            members: Vec::new(),
            cluster_id: None,
            leader: None,
            silent: BTreeSet::new(),
            still_learners: BTreeSet::new(),
            serving_on: BTreeSet::new(),
            trusts: BTreeMap::new(),
            presents_earlier: BTreeMap::new(),
            hung: BTreeMap::new(),
            admits_no_pod: None,
            sees_commits: false,
            never_lead: BTreeSet::new(),
            transfers: Vec::new(),
            unhealthy_since: BTreeMap::new(),
            unsound_since: BTreeMap::new(),
            cut_from_peers: BTreeSet::new(),
            unheard_since: BTreeMap::new(),
            alarms: BTreeSet::new(),
            unnamed_alarm: false,
            wrong: BTreeMap::new(),
            without_hash: BTreeSet::new(),
            kept_out: BTreeSet::new(),
            hashes: None,
            databases: BTreeMap::new(),
            compacted: false,
            full_since: None,
            defragmentations: Vec::new(),
            replies: true,
            committed: 100,
            revision: 7,
            proved_at: None,
            counter: 0,
            versions: BTreeMap::new(),
            cluster_version: None,
            auth: (false, Root::Missing),
            clients: Clients::NoUser,
            orphans: BTreeMap::new(),
            other_roots: BTreeSet::new(),
            has_root_role: false,
            planted: false,
            downgrade: None,
        }
    }

    /// A cluster that runs with this many voters.
    pub fn running(size: usize) -> Self {
        let mut world = Self::new(size);
        world.settle();
        world
    }

    /// A cluster whose Pods were just created.
    pub fn with_pods_created(size: usize) -> Self {
        let mut world = Self::new(size);
        while world.seen.pods.is_empty() {
            let plan = world.plan();
            world.carry_out(plan);
        }
        world
    }

    /// Observes, and plans; if the plan needs a proof of progress, proves it and plans again, as a pass does.
    pub fn plan(&mut self) -> Plan {
        self.observe();
        self.plan_as_observed()
    }

    /// The API server was asked about the next Pod of each member, and admits them.
    pub fn admit_successors(&mut self) {
        let admission = Admission { at: self.now, outcome: Admitted::Yes };
        let members = self.seen.pods.keys().cloned();
        self.seen.successors = members.map(|member| (member, admission.clone())).collect();
    }

    /// Plans on what was observed, as a pass does.
    pub fn plan_as_observed(&mut self) -> Plan {
        let mut planned = plan(&self.seen, self.now);
        if (planned.needs_proof || planned.proof_is_due) && self.seen.etcd.list.is_some() {
            self.prove();
            planned = plan(&self.seen, self.now);
        }
        let asked = planned.rehearsal.as_deref().map(|rehearsal| rehearsal.of.clone());
        if let Some(Successor::Pod(member)) = asked {
            let outcome = match &self.admits_no_pod {
                Some(why) => Admitted::No(why.clone()),
                None => Admitted::Yes,
            };
            self.seen.successors.insert(member, Admission { at: self.now, outcome });
            planned = plan(&self.seen, self.now);
        }
        planned
    }

    /// Two entries are committed, and every member applies them whose disk does not hang.
    pub fn prove(&mut self) {
        self.committed += 2;
        let (index, hung) = (self.committed, &self.hung);
        let etcd = &mut self.seen.etcd;
        for (member, answer) in &mut etcd.answers {
            if let Ok(status) = &mut answer.reply {
                status.committed = index;
                status.applied = hung.get(member).copied().unwrap_or(index);
            }
        }
        etcd.proof = Some(Proof { at: self.now, index });
        etcd.proved_at = Some(self.now);
        self.proved_at = Some(self.now);
    }

    /// The Pod of this member goes on serving while it is being deleted.
    pub fn keep_serving(&mut self, member: &str) {
        self.serving_on.insert(name(member));
    }

    /// The disk of a member hangs from now on: it goes on answering, and applies nothing.
    pub fn hang(&mut self, member: &str) {
        self.hung.insert(name(member), self.committed);
    }

    /// The readiness probe of a member's Pod fails like this from now on, and etcd goes on answering.
    pub fn lose_readiness(&mut self, member: &str, unready: Unready) {
        let pod = self.seen.pods.get_mut(&name(member)).expect("it has a Pod");
        (pod.ready, pod.unready) = (false, Some(unready));
    }

    /// Carries plans out until one has this property, and returns that one.
    pub fn plan_that(&mut self, has: impl Fn(&Plan) -> bool) -> Plan {
        for _ in 0..10 {
            let plan = self.plan();
            if has(&plan) {
                return plan;
            }
            self.carry_out(plan);
        }
        panic!("no plan has that property")
    }

    /// Runs passes until a plan has nothing to do. Returns all plans in words.
    pub fn settle(&mut self) -> String {
        let mut story = String::new();
        for _ in 0..200 {
            let plan = self.plan();
            let idle = plan.effects.is_empty() && plan.record == self.seen.record;
            describe(&mut story, &plan);
            let clients_leave = plan.waiting.iter().any(|wait| matches!(wait, Waiting::ClientsLeaving(_)));
            if idle && clients_leave {
                self.now = self.now + CLIENTS_LEAVE_WITHIN;
            } else if idle {
                return story;
            }
            self.carry_out(plan);
        }
        panic!("does not settle:\n{story}");
    }

    /// Writes the record, then carries out every effect.
    pub fn carry_out(&mut self, plan: Plan) {
        self.seen.record = plan.record;
        for effect in plan.effects {
            self.apply(&effect);
            self.now = self.now + Span(100);
        }
        self.now = self.now + Span(1000);
    }

    /// Edits `spec.size`.
    pub fn resize(&mut self, size: usize) {
        self.seen.desired.size = size;
    }

    /// The Pod is gone, its volume stays.
    pub fn lose_pod(&mut self, member: &str) {
        self.seen.pods.remove(&name(member));
    }

    pub fn silence(&mut self, member: &str) {
        self.silent.insert(name(member));
    }

    /// It answers again.
    pub fn unsilence(&mut self, member: &str) {
        self.silent.remove(&name(member));
    }

    pub fn voters(&self) -> Vec<&str> {
        self.members.iter().filter(|member| !member.is_learner).map(|member| member.name.as_str()).collect()
    }

    /// The EtcdCluster was deleted and created again: another uid, an empty status, and the old volumes.
    pub fn recreate(&mut self, uid: &str) {
        let fresh = Self::new(self.seen.desired.size);
        let volumes = std::mem::take(&mut self.seen.volumes);
        self.seen = fresh.seen;
        self.seen.volumes = volumes;
        self.seen.uid = ClusterUid::new(uid);
        self.leader = None;
    }

    /// As etcd's leader does: raised to the lowest version that all run, or lowered where a downgrade is enabled, which ends when all run
    /// the lower one.
    fn move_cluster_version(&mut self) {
        let lines: Vec<Minor> = self.versions.values().map(|version| version.line()).collect();
        let (lowest, highest) = (lines.iter().min().copied(), lines.iter().max().copied());
        match self.downgrade {
            Some(to) if self.cluster_version != Some(to) => self.cluster_version = Some(to),
            Some(to) if lowest == Some(to) && highest == Some(to) => self.downgrade = None,
            Some(_) => {}
            None => self.cluster_version = self.cluster_version.max(lowest),
        }
    }

    /// Observes etcd.
    pub fn observe(&mut self) {
        self.seen.successors.clear();
        self.observe_members();
        self.shake_hands();
    }

    fn observe_members(&mut self) {
        self.move_cluster_version();
        for kept_out in &self.kept_out {
            let id =
                self.members.iter().find(|listed| listed.name == kept_out.as_str()).map(|listed| listed.id);
            let Some(pod) = self.seen.pods.get_mut(kept_out) else { continue };
            (pod.ready, pod.differs_from_peers, pod.refused_by_check) = (false, true, id);
            pod.trouble = Some("CrashLoopBackOff: found data inconsistency with peers".to_owned());
        }
        let alive: Vec<MemberName> = self
            .seen
            .pods
            .iter()
            .filter(|(name, pod)| {
                (!pod.terminating || self.serving_on.contains(*name))
                    && !pod.gated
                    && pod.trouble.is_none()
                    && pod.read_only.is_none()
                    && !self.silent.contains(name)
            })
            .map(|(name, _)| name.clone())
            .collect();
        let (answering, alive) = {
            let connected: Vec<MemberName> =
                alive.iter().filter(|name| !self.cut_from_peers.contains(*name)).cloned().collect();
            (alive, connected)
        };
        let voters = self.members.iter().filter(|member| !member.is_learner).count();
        let living = self
            .members
            .iter()
            .filter(|member| !member.is_learner && alive.iter().any(|name| self.is(name, member)))
            .count();
        let quorum = has_quorum(living, voters);
        if !quorum {
            self.leader = None;
        } else if self.leader.as_ref().is_none_or(|leader| !alive.contains(leader)) {
            let next = self
                .members
                .iter()
                .find(|member| !member.is_learner && alive.iter().any(|name| self.is(name, member)));
            self.leader = next.map(|member| name(&member.name));
        }
        for name in &alive {
            let at = self.members.iter().position(|member| self.is(name, member));
            if let Some(at) = at {
                name.as_str().clone_into(&mut self.members[at].name);
                self.members[at].started = true;
            }
        }
        let leader_id = self
            .leader
            .as_ref()
            .and_then(|leader| self.members.iter().find(|member| self.is(leader, member)));
        let (leader_id, cluster_id) = (leader_id.map(|member| member.id), self.cluster_id);
        let is_full = self.alarms.iter().any(|alarm| alarm.kind == AlarmKind::NoSpace);
        self.full_since = is_full.then(|| self.full_since.map_or(self.now, |since| since.min(self.now)));
        self.seen.etcd = Etcd {
            proved_at: self.proved_at,
            transfers: self.transfers.clone(),
            compacted: self.compacted,
            full_since: self.full_since,
            defragmentations: self.defragmentations.clone(),
            ..Etcd::default()
        };
        for (pod, _) in self.seen.pods.clone() {
            let version = self.versions.get(&pod).copied().unwrap_or(Version::new(3, 6, 16));
            let reports = version.line() >= Minor(3, 6);
            let member = self.members.iter().find(|member| self.is(&pod, member));
            let reply = match (member, cluster_id) {
                (Some(member), Some(cluster_id)) if answering.contains(&pod) => Ok(StatusReply {
                    cluster_id,
                    member_id: member.id,
                    leader: leader_id.filter(|_| alive.contains(&pod)),
                    is_learner: member.is_learner || self.still_learners.contains(&pod),
                    committed: self.committed,
                    applied: self.hung.get(&pod).copied().unwrap_or(self.committed),
                    // Restored in place: raised.
                    revision: Revision(
                        self.revision + self.seen.record.incarnation.as_ref().map_or(0, |_| 1_000_000_000),
                    ),
                    version,
                    alarms: self.alarms.iter().copied().collect(),
                    errors: if self.unnamed_alarm { vec!["alarm:CORRUPT".to_owned()] } else { Vec::new() },
                    database: self.databases.get(&pod).copied().unwrap_or(EMPTY),
                    storage_version: self.cluster_version.filter(|_| reports),
                    downgrade: self.downgrade.filter(|_| reports),
                }),
                _ => Err("no answer within 2s".to_owned()),
            };
            self.seen.etcd.answers.insert(pod, Answer { at: self.now, reply });
        }
        match (cluster_id, &self.leader) {
            (Some(cluster_id), Some(leader)) => {
                self.seen.etcd.list = Some(List {
                    at: self.now,
                    cluster_id,
                    via: leader.clone(),
                    members: self.members.clone(),
                });
            }
            _ => self.seen.etcd.list_failure = Some("no leader".to_owned()),
        }
        if self.sees_commits && self.leader.is_some() {
            self.seen.etcd.committed_before = Some(CommittedMark { at: self.now, index: self.committed });
        }
        self.compare();
        self.remember();
    }

    /// As a pass does: with a reason, and not again for half a minute.
    fn compare(&mut self) {
        let now = self.now;
        if !self.seen.has_reason_to_compare(now) {
            self.hashes = None;
        } else if self.hashes.as_ref().is_none_or(|last| now - last.at >= Span::seconds(30)) {
            let hash = |name: &MemberName, member_id| KeysHash {
                member_id,
                hash: self.wrong.get(name).copied().unwrap_or(1),
                revision: Revision(7),
                compacted: Revision(3),
                latest: Revision(7),
            };
            let answers = self.seen.etcd.answers.iter();
            let replies = answers.filter_map(|(name, answer)| {
                let made = hash(name, answer.reply.as_ref().ok()?.member_id);
                let refused = self.without_hash.contains(name);
                Some((name.clone(), if refused { Err("permission denied".to_owned()) } else { Ok(made) }))
            });
            self.hashes = Some(Hashes { at: now, until: now + COMPARED_WITHIN, replies: replies.collect() });
        }
        self.seen.etcd.hashes.clone_from(&self.hashes);
    }

    fn remember(&mut self) {
        let (seen, now) = (&mut self.seen, self.now);
        let keep = |since: &mut BTreeMap<MemberName, Instant>, are: BTreeSet<MemberName>| {
            since.retain(|member, _| are.contains(member));
            for member in are {
                since.entry(member).or_insert(now);
            }
        };
        if self.leader.is_some() {
            let unhealthy = seen.record.voters().filter(|voter| !seen.is_healthy(voter, now));
            keep(&mut self.unhealthy_since, unhealthy.cloned().collect());
            keep(&mut self.unsound_since, seen.unsound_though_ready(now));
        }
        let is_voter = |name: &&MemberName| {
            let listed = seen.listed(&seen.record, name, now);
            let unheard = seen.status_of(name, now).is_none_or(|status| status.is_learner);
            unheard && listed.is_some_and(|listed| !listed.is_learner)
        };
        let joining = seen.record.joining().map(|(name, _)| name).filter(is_voter);
        keep(&mut self.unheard_since, joining.into_iter().cloned().collect());
        seen.etcd.unhealthy_since.clone_from(&self.unhealthy_since);
        seen.etcd.unsound_since.clone_from(&self.unsound_since);
        seen.etcd.unheard_since.clone_from(&self.unheard_since);
    }

    fn is(&self, name: &MemberName, member: &Listed) -> bool {
        self.seen.peer_url(name) == member.peer_url
    }

    fn new_uid(&mut self, prefix: &str) -> Uid {
        self.counter += 1;
        Uid::new(format!("{prefix}-{}", self.counter))
    }

    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Kube { write, .. } => self.write(write),
            Effect::Etcd { call, .. } => self.call(call),
        }
    }

    fn write(&mut self, write: &KubeEffect) {
        match write {
            KubeEffect::AddFinalizer => self.seen.finalizer = true,
            KubeEffect::RemoveFinalizer => self.seen.finalizer = false,
            KubeEffect::CreateBackup { .. } => {
                let backup = self.seen.backup_before.as_mut().expect("it is asked for");
                backup.state = BackupState::Pending { runs: true, what: "it runs".to_owned() };
            }
            KubeEffect::Apply(AppliedObject::PeerService) => self.seen.peer_service = Presence::Matches,
            KubeEffect::CreateAuthority { .. }
            | KubeEffect::MakeNextAuthority { .. }
            | KubeEffect::ArrangeAuthority { .. }
            | KubeEffect::WriteTrust { .. }
            | KubeEffect::KeepAuthority { .. }
            | KubeEffect::Delete { object: DeletedObject::Authority(_), .. }
            | KubeEffect::IssueLeaf { .. }
            | KubeEffect::RenewLeaf { .. } => {
                assert!(certificates::write(&mut self.seen, self.now, write));
                let of_clients = matches!(
                    write,
                    KubeEffect::IssueLeaf { leaf: Leaf::Client, .. }
                        | KubeEffect::RenewLeaf { leaf: Leaf::Client, .. }
                );
                if of_clients && self.seen.connection == Presence::Matches {
                    self.seen.connection = Presence::Differs;
                }
            }
            KubeEffect::ApplyMetadata { object, .. } => {
                self.seen.metadata_differs.remove(object).expect("it differs");
            }
            KubeEffect::Apply(AppliedObject::Connection) => self.seen.connection = Presence::Matches,
            KubeEffect::Apply(AppliedObject::ClientService) => {
                self.seen.client_service = Presence::Matches;
                self.seen.client_service_selects_others = false;
            }
            KubeEffect::Apply(AppliedObject::Budget { min_available, excludes }) => {
                let excludes = excludes.clone();
                self.seen.budget = Some(Budget { excludes, ..budget(*min_available) });
            }
            KubeEffect::CreateVolume { member, .. } => {
                let uid = self.new_uid("volume");
                let volume = Volume {
                    uid,
                    resource_version: "1".into(),
                    terminating: false,
                    deleted_after_cluster: false,
                    cluster_uid: Some(self.seen.uid.clone()),
                    cluster_id: None,
                    member_id: None,
                    token: self.seen.record.token.clone(),
                    labelled: true,
                    copied_by: None,
                    tls: None,
                    version: None,
                    quarantine: None,
                    gave_way: false,
                    bytes: self.seen.desired.storage.bytes,
                    capacity: Some(4 << 30),
                    grows_at_mount: false,
                    lost: false,
                };
                assert!(self.seen.volumes.insert(member.clone(), volume).is_none());
            }
            KubeEffect::AnnotateVolume { member, volume, cluster_id, member_id, version } => {
                let uid = self.seen.uid.clone();
                let annotated = self.seen.volumes.get_mut(member).expect("annotated volume exists");
                assert_eq!(annotated.uid, *volume);
                (annotated.cluster_id, annotated.member_id) = (Some(*cluster_id), Some(*member_id));
                annotated.cluster_uid = Some(uid);
                annotated.labelled = true;
                annotated.version = version.or(annotated.version);
                annotated.tls = self.seen.record.target.as_ref().map(|target| target.tls);
            }
            KubeEffect::QuarantineVolume { member, volume, since, why } => {
                let kept = self.seen.volumes.get_mut(member).expect("quarantined volume exists");
                assert_eq!(kept.uid, *volume);
                kept.gave_way = *why == QuarantineCause::Superseded;
                kept.quarantine = Some(Quarantine { since: Some(*since), why: why.to_string() });
            }
            KubeEffect::ExpandVolume { member, bytes, .. } => {
                self.seen.volumes.get_mut(member).expect("expanded volume exists").bytes = *bytes;
            }
            KubeEffect::LabelJoined { member, pod } => {
                let labelled = self.seen.pods.get_mut(member).expect("labelled Pod exists");
                assert_eq!(labelled.uid, *pod);
                (labelled.joined, labelled.labelled) = (true, true);
            }
            KubeEffect::LabelServes { member, pod } => {
                let labelled = self.seen.pods.get_mut(member).expect("labelled Pod exists");
                assert_eq!(labelled.uid, *pod);
                (labelled.serves, labelled.served_until) = (true, None);
            }
            KubeEffect::LeadClientsAway { member, pod, at } => {
                let labelled = self.seen.pods.get_mut(member).expect("labelled Pod exists");
                assert_eq!(labelled.uid, *pod);
                (labelled.serves, labelled.served_until) = (false, Some(*at));
            }
            KubeEffect::CreatePod { member, boot, peers } => self.start(member, *boot, peers.len()),
            KubeEffect::UngatePod { member, pod } => {
                let ungated = self.seen.pods.get_mut(member).expect("ungated Pod exists");
                assert_eq!(ungated.uid, *pod);
                (ungated.gated, ungated.ready, ungated.has_run) = (false, true, true);
            }
            // No test of this World asks cert-manager.
            KubeEffect::CreateCertificate { .. }
            | KubeEffect::ChangeCertificate { .. }
            | KubeEffect::Delete { object: DeletedObject::Certificate(_), .. }
            | KubeEffect::Delete { object: DeletedObject::Issued(_), .. } => {}
            KubeEffect::Delete { object: DeletedObject::Budget, .. } => self.seen.budget = None,
            KubeEffect::Apply(AppliedObject::NetworkPolicy) => {
                self.seen.network_policy.presence = Presence::Matches;
                let (uid, resource_version) = (self.new_uid("policy"), "1".to_owned());
                self.seen.network_policy.seen = Some(ObservedObject { uid, resource_version });
            }
            KubeEffect::Delete { object: DeletedObject::NetworkPolicy, observed } => {
                let seen = self.seen.network_policy.seen.take().expect("deleted policy exists");
                assert_eq!(seen, *observed);
                self.seen.network_policy.presence = Presence::Absent;
            }
            KubeEffect::EvictPod { member, pod } | KubeEffect::DeletePod { member, pod, .. } => {
                assert_eq!(self.seen.pods.remove(member).expect("deleted Pod exists").uid, *pod);
            }
            KubeEffect::DeleteVolume { member, volume, .. } => {
                assert_eq!(self.seen.volumes.remove(member).expect("deleted volume exists").uid, *volume);
                self.data.remove(volume);
            }
        }
    }

    fn call(&mut self, call: &EtcdCall) {
        match call {
            EtcdCall::AddLearner { member, peer_url } => {
                self.counter += 1;
                let id = MemberId(0xa000 + self.counter);
                assert!(!self.members.iter().any(|listed| listed.is_learner), "two learners");
                let name = String::new();
                self.members.push(Listed {
                    id,
                    name,
                    peer_url: peer_url.clone(),
                    is_learner: true,
                    started: false,
                });
                assert!(self.seen.record.members.contains_key(member), "not recorded before it was added");
            }
            EtcdCall::Promote { id, .. } => {
                let member = self.members.iter_mut().find(|member| member.id == *id).expect("it is a member");
                member.is_learner = false;
            }
            EtcdCall::RemoveMember { member, id, .. } => {
                self.versions.remove(member);
                self.members.retain(|member| member.id != *id);
            }
            EtcdCall::MoveLeadership { to, to_id } => self.move_leadership(to, *to_id),
            EtcdCall::Disarm { member, kind } => {
                self.alarms.remove(&Alarm { member: *member, kind: *kind });
                self.unnamed_alarm &= *member != MemberId(0);
            }
            EtcdCall::Downgrade { action, to } => {
                self.downgrade = match action {
                    DowngradeAction::Validate => self.downgrade,
                    DowngradeAction::Enable => Some(*to),
                    DowngradeAction::Cancel => None,
                };
            }
            EtcdCall::Auth { change } => {
                self.auth = match change {
                    AuthChange::RemoveRootUser => {
                        self.planted = false;
                        (self.auth.0, Root::Missing)
                    }
                    // The role is there, where it was before.
                    AuthChange::AddRootUser if self.has_root_role => (self.auth.0, Root::NotGranted),
                    AuthChange::AddRootUser => (self.auth.0, Root::NoRole),
                    AuthChange::AddRootRole => {
                        self.has_root_role = true;
                        (self.auth.0, Root::NotGranted)
                    }
                    AuthChange::GrantRoot => (self.auth.0, Root::Ready),
                    AuthChange::AddClientRole
                    | AuthChange::GrantClientKeys
                    | AuthChange::RemoveClientRole => self.auth,
                    AuthChange::RemoveClientUser => {
                        self.clients = Clients::NoUser;
                        self.auth
                    }
                    AuthChange::AddClientUser => {
                        assert_eq!(self.clients, Clients::NoUser, "it exists");
                        self.clients = Clients::NoRole;
                        self.auth
                    }
                    AuthChange::GrantClient => {
                        self.clients = Clients::OfGrace;
                        self.auth
                    }
                    AuthChange::Enable => (true, self.auth.1),
                    AuthChange::Disable => (false, self.auth.1),
                }
            }
            EtcdCall::DeleteUser { .. } => {}
            EtcdCall::DeleteRole { user } => {
                self.orphans.remove(user);
            }
            EtcdCall::Compact { .. } => self.compacted = true,
            EtcdCall::Defragment { member } => {
                if let Some(database) = self.databases.get_mut(member) {
                    database.size = database.in_use;
                }
                let attempt =
                    DefragmentAttempt { member: member.clone(), at: self.now, answered: self.replies };
                self.defragmentations.push(attempt);
            }
        }
    }

    fn move_leadership(&mut self, to: &MemberName, to_id: MemberId) {
        let id_of = |name: &MemberName| self.members.iter().find(|member| self.is(name, member));
        let from = self.leader.as_ref().and_then(id_of).expect("there is a leader").id;
        self.transfers.push(TransferAttempt { from, to: to_id, at: self.now });
        if !self.never_lead.contains(to) {
            self.leader = Some(to.clone());
            self.transfers.clear();
        }
    }

    fn start(&mut self, member: &MemberName, boot: Boot, peers: usize) {
        let version =
            self.seen.record.target.as_ref().map_or(Version::new(3, 6, 16), |target| target.version);
        let data = self.cluster_version.filter(|_| boot == Boot::Resume);
        assert!(
            data.is_none_or(|data| data <= version.line()),
            "{member}: {version} panics on data of {data:?}"
        );
        self.versions.insert(member.clone(), version);
        let uid = self.new_uid("pod");
        let is_first = matches!(boot, Boot::New | Boot::Restore);
        let replaced = self.seen.record.incarnation.is_some();
        if is_first && replaced && !self.members.iter().any(|listed| self.is(member, listed)) {
            self.members.clear();
        }
        if is_first && self.members.is_empty() {
            let names: Vec<MemberName> = self.seen.record.members.keys().cloned().collect();
            assert_eq!(names.len(), peers);
            self.counter += 1;
            self.cluster_id = Some(ClusterId(0xc000 + self.counter));
            for (index, name) in (0u64..).zip(names) {
                let (peer_url, started) = (self.seen.peer_url(&name), false);
                let id = MemberId(0xb000 + 16 * self.counter + index);
                self.members.push(Listed {
                    id,
                    name: name.as_str().to_owned(),
                    peer_url,
                    is_learner: false,
                    started,
                });
            }
        }
        let pod = Pod {
            uid,
            resource_version: "1".into(),
            terminating: false,
            finished: false,
            ready: !is_first,
            ip: Some("127.1.0.1".into()),
            node: None,
            zone: None,
            revision: self
                .seen
                .record
                .target
                .as_ref()
                .map(|target| target.pod.revision.clone())
                .unwrap_or_default(),
            trust: self.seen.certificates.as_ref().map_or(0, |seen| seen.trust().min(self.seen.record.trust)),
            has_credential: self.seen.record.target.as_ref().is_some_and(|target| target.auth),
            gated: is_first,
            boots_new: boot == Boot::New,
            read_only: self.held(boot),
            restores: boot == Boot::Restore,
            restore_failure: None,
            fetches: false,
            runs: !is_first,
            mounting: None,
            node_says: None,
            stops_by: None,
            joined: boot == Boot::Resume,
            labelled: boot == Boot::Resume,
            serves: is_first || (boot == Boot::Resume && self.seen.record.stopped_at.is_none()),
            served_until: None,
            has_run: !is_first,
            unready: None,
            restarts: 0,
            installs_agent: true,
            image_volume: None,
            already_bootstrapped: false,
            differs_from_peers: false,
            refused_by_check: None,
            image: None,
            guard: None,
            data_need: None,
            trouble: None,
            quota: Some(QUOTA),
        };
        self.trusts.insert(pod.uid.clone(), certificates::trusted(&self.seen));
        assert!(self.seen.pods.insert(member.clone(), pod).is_none(), "two Pods of one name");
    }
}

impl World {
    /// What handshakes show, as a pass looks at them.
    fn shake_hands(&mut self) {
        let auth = self.seen.record.has_credential();
        // As `manifests` resolves the spec: what is recorded keeps the credential.
        let desired = self.seen.auth_policy.wanted || self.seen.record.auth.is_some();
        if self.seen.desired.auth != desired {
            self.seen.desired.auth = desired;
            self.seen.desired.pod.revision = PodRevision(format!("r1, with auth: {desired}"));
        }
        let at = self.now;
        self.seen.etcd.auth =
            Some(self.auth).filter(|(is_on, _)| auth || *is_on).map(|(enabled, root)| SeenAuth {
                root,
                clients: self.clients,
                others: self.other_roots.clone(),
                orphans: if enabled { self.orphans.clone() } else { BTreeMap::new() },
                ..SeenAuth::new(at, enabled)
            });
        self.seen.etcd.handshakes.clear();
        let Some(ca) = self.seen.handshakes_wanted(self.now) else { return };
        for (member, pod) in self.seen.pods.iter().filter(|(member, _)| !self.silent.contains(*member)) {
            let trusts = self.trusts.get(&pod.uid).and_then(|all| all.get(&ca)).cloned().unwrap_or_default();
            let serves = self.presents_earlier.get(member).cloned();
            let serves = serves.or_else(|| certificates::presented(&self.seen, ca));
            self.seen
                .etcd
                .handshakes
                .insert((member.clone(), ca), Handshake { named: trusts.len(), unknown: 0, trusts, serves });
        }
    }

    /// A Pod in which etcd does not start.
    fn held(&self, boot: Boot) -> Option<ReadOnlyPod> {
        let order = match boot {
            Boot::Read => ReadOnlyOrder::Read,
            Boot::Extract => ReadOnlyOrder::Extract(
                self.seen.record.quorum_recovery.as_ref().expect("it is recorded").key(),
            ),
            Boot::New | Boot::Restore | Boot::Join | Boot::Resume => return None,
        };
        Some(ReadOnlyPod { order, answer: None, failure: None })
    }

    /// The agent of a held Pod answers, and its container ends.
    pub fn answers(&mut self, member: &str, answer: ReadOnlyAnswer) {
        let pod = self.seen.pods.get_mut(&name(member)).expect("it has a Pod");
        pod.read_only.as_mut().expect("etcd does not start in it").answer = Some(answer);
        (pod.finished, pod.ready, pod.runs) = (true, false, false);
    }
}

/// The plan in words: recorded steps, effects, what is waited on.
pub fn describe(story: &mut String, plan: &Plan) {
    let recorded_steps: Vec<String> = plan.recorded_steps.iter().map(ToString::to_string).collect();
    let _ = match recorded_steps.as_slice() {
        [] if plan.effects.is_empty() => writeln!(story, "-- nothing to do"),
        [] => writeln!(story, "-- pass"),
        steps => writeln!(story, "{} records", steps.join(" ")),
    };
    for effect in &plan.effects {
        let _ = writeln!(story, "   {} {effect}", effect.step());
    }
    for waiting in &plan.waiting {
        let _ = writeln!(story, "   .. {}", words(waiting));
    }
    if let Some(protocol) = plan.ended_by {
        let _ = writeln!(story, "   ended by {protocol}");
    }
}

/// What is waited on: the variant, and of a refusal its text. The words for users are in `manifests`.
pub fn words(waiting: &Waiting) -> String {
    format!("{waiting:?}")
}

/// A budget that the disruption controller has seen.
fn budget(min_available: usize) -> Budget {
    Budget {
        observed: ObservedObject::new("uid-of-budget", "1"),
        min_available: Some(min_available),
        excludes: None,
        allowed: Some(0),
        disrupted: BTreeSet::new(),
    }
}
