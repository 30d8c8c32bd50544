//! From the caches to a plan: own writes that the watches should have confirmed are read, then names that are taken, then
//! every member is asked for its Status, all at the same time, and one of them for the member list. Where the list of an earlier pass
//! still holds and nothing is to be done, that is all: such a look is one request to each member.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube_core::DeserializeGuard;
use quorate_api::EtcdRestore;
use quorate_api::backup::EtcdBackup;
use quorate_manifests::certificate::rotation::{Shown, read_handshake};
use quorate_manifests::{
    Defaults, Invalid, Kind, NameConflict, Observation, SiteQuestion, backup_before, bootstrap, labels,
    restore, snapshot,
};
use quorate_model::quorum_recovery::Container;
use quorate_model::snapshot::{DefaultsTurn, List};
use quorate_model::{Ca, ClockDifference, ClusterRef, Instant, MemberName, Plan, Snapshot};

use super::act::Acting;
use super::claims::ReadClaims;
use super::rehearsal::Asked;
use super::{PassEnd, Planned, Stage, names, parsed, progress, uid, unlabelled};
use crate::command::{Command, CommandId, Purpose, Reply, Task};
use crate::members::member_to_ask;
use crate::memory::Memory;
use crate::objects::{ClusterView, Object, OfCluster as _, ReadCluster};
use crate::ownership::is_visible;
use crate::progress::committed;
use crate::reply::WriteError;

/// The state of the first half of a pass.
#[derive(Clone, Debug)]
pub(super) struct Observing {
    at: ClusterRef,
    defaults: Arc<Defaults>,
    phase: Phase,
    /// The commands of this phase; a command is named by its place.
    tasks: Vec<Task>,
    issued: usize,
    answered: usize,
    /// Claims that status records, the caches lack, and no read showed, and why.
    claims_not_read: BTreeMap<MemberName, String>,
    #[cfg(feature = "mutants")]
    always_prove: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The operator reads the objects of its writes that no watch has confirmed in time.
    Unconfirmed,
    /// The caches are read.
    Caches(Option<ClusterView>),
    /// The operator reads names that were taken, which may be free now, and objects that may have lost their label.
    Conflicts(ClusterView, Arc<ReadCluster>),
    /// There is a snapshot, and more is asked for it.
    Asking(Box<Observed>, Asks),
}

/// What is asked about a snapshot.
#[derive(Clone, Debug)]
enum Asks {
    /// Members are asked for their Status.
    Members,
    /// There is a reason to compare the members' data, so one of them makes a hash. That may take long, so all are asked for their Status
    /// again.
    Hashes,
    /// Nothing is to be done, on a list that still holds. A proof of progress is due, so an entry is made.
    Entry { plan: Box<Plan>, at: MemberName, is_made: bool },
    /// One member is asked for the list.
    MemberList,
    /// Progress is proved, and the Pods are read from the API: the caches may not have a deletion yet.
    Proof,
    /// The plan ends Pods, so their claims are read from the API.
    Claims,
    /// An order to restore in place would begin, so the API server is asked whether it would admit new members.
    Rehearsal(Asked),
}

/// What was observed so far.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) view: ClusterView,
    pub(super) cluster: Arc<ReadCluster>,
    pub(super) conflicts: Vec<NameConflict>,
    pub(super) snapshot: Snapshot,
    pub(super) refused: Option<Invalid>,
    /// A Pod that could not be read for the proof, and why.
    pub(super) unread: Option<String>,
    pub(super) claims: ReadClaims,
}

impl Observing {
    pub(super) fn new(at: ClusterRef, defaults: Arc<Defaults>, memory: &Memory, now: Instant) -> Self {
        let unconfirmed = memory.unconfirmed(now);
        let tasks: Vec<Task> =
            unconfirmed.map(|(kind, name)| Task::Read { kind, name: name.to_owned() }).collect();
        let mut observing = Self {
            at,
            defaults,
            phase: Phase::Unconfirmed,
            tasks,
            issued: 0,
            answered: 0,
            claims_not_read: BTreeMap::new(),
            #[cfg(feature = "mutants")]
            always_prove: false,
        };
        if observing.tasks.is_empty() {
            observing.begin(Phase::Caches(None), vec![Task::Caches]);
        }
        observing
    }

    #[cfg(feature = "mutants")]
    pub(super) fn always_prove(&mut self) {
        self.always_prove = true;
    }

    pub(super) fn next(&mut self) -> Option<Command> {
        let task = self.tasks.get(self.issued)?.clone();
        let id = CommandId(self.issued);
        self.issued += 1;
        Some(Command { id, purpose: Purpose::Observe, task, not_after: None })
    }

    pub(super) fn upcoming(&self) -> Option<super::Upcoming> {
        let task = self.tasks.get(self.issued)?;
        Some(super::Upcoming { purpose: Purpose::Observe, changes_something: task.changes_something() })
    }

    pub(super) fn observed(&self) -> Option<(&Snapshot, &ClusterView)> {
        let Phase::Asking(observed, _) = &self.phase else { return None };
        Some((&observed.snapshot, &observed.view))
    }

    /// R23: the plan is made by what is known of the clocks when it is made.
    pub(super) fn see_clocks(&mut self, differs: Option<ClockDifference>) {
        if let Phase::Asking(observed, _) = &mut self.phase {
            observed.snapshot.clock_differs = differs;
        }
    }

    /// Takes the reply to a command of this phase.
    pub(super) fn reply(&mut self, memory: &mut Memory, id: CommandId, reply: Reply, now: Instant) {
        let Some(task) = self.tasks.get(id.0) else { return };
        self.answered += 1;
        match (&mut self.phase, task, reply) {
            (Phase::Unconfirmed, Task::Read { kind, name }, Reply::Object(read)) => match read {
                Ok(Some(object)) => memory.exists(&object, now),
                Ok(None) => memory.missing(*kind, name, now),
                // It is read in the next pass.
                Err(_) => {}
            },
            (Phase::Caches(view), Task::Caches, Reply::Caches(caches)) => {
                *view = Some(memory.overlay(&self.at, *caches));
            }
            (Phase::Conflicts(..), Task::Read { kind, name }, Reply::Object(read))
                if memory.issuing.take(*kind, name, &read) => {}
            (Phase::Conflicts(_, cluster), Task::Read { kind, name }, Reply::Object(Err(error)))
                if names::is_needed(cluster, *kind, name) =>
            {
                names::is_not_known(memory, *kind, name, &error);
            }
            (Phase::Conflicts(..), Task::Read { kind: Kind::Volume, name }, Reply::Object(Err(error))) => {
                self.claims_not_read.insert(MemberName::new(&**name), error.to_string());
            }
            (Phase::Conflicts(view, cluster), Task::Read { kind, name }, Reply::Object(Ok(read))) => {
                let uid = uid(cluster);
                let foreign = read.as_ref().filter(|object| !is_visible(object, &self.at, &uid));
                match foreign {
                    None => memory.conflicts.retain(|known| (known.kind, &known.name) != (*kind, name)),
                    Some(object) if names::is_needed(cluster, *kind, name) => {
                        let made_by = labels::made_by(object.meta(), &uid);
                        memory.conflicts.insert(NameConflict { kind: *kind, name: name.clone(), made_by });
                    }
                    Some(_) => {}
                }
                unlabelled::take(view, cluster, memory, name, read, &self.at);
            }
            (Phase::Asking(observed, asks), task, reply) => {
                observed.answered(asks, (task, reply), memory, &self.at, now);
            }
            // If the read fails, the last known state stays.
            (Phase::Unconfirmed | Phase::Caches(_) | Phase::Conflicts(..), ..) => {}
        }
    }

    /// Continues with the next phase once all replies of this one have arrived. Returns the next stage once there is a plan.
    pub(super) fn advance(&mut self, memory: &mut Memory, now: Instant) -> Option<Stage> {
        while self.answered == self.tasks.len() {
            match std::mem::replace(&mut self.phase, Phase::Unconfirmed) {
                Phase::Unconfirmed => self.begin(Phase::Caches(None), vec![Task::Caches]),
                Phase::Caches(view) => {
                    let view = view.unwrap_or_default();
                    let Some(cluster) = view.cluster.clone() else {
                        return Some(Stage::Ended(PassEnd::Gone, None));
                    };
                    let read = |conflict: &NameConflict| Task::Read {
                        kind: conflict.kind,
                        name: conflict.name.clone(),
                    };
                    let mut tasks: Vec<Task> = memory.conflicts().map(read).collect();
                    let others = unlabelled::to_read(&view, &cluster, memory);
                    let others = others.chain(names::to_read(&view, &cluster));
                    let at = &self.at;
                    let issued = parsed(&cluster).map(|own| memory.issuing.to_read(&view, own, at, now));
                    let others = others.chain(issued.into_iter().flatten());
                    tasks.extend(
                        others.filter(|task| !memory.conflicts().any(|conflict| read(conflict) == *task)),
                    );
                    self.begin(Phase::Conflicts(view, cluster), tasks);
                }
                Phase::Conflicts(view, cluster) => match self.observe(view, cluster, memory, now) {
                    Ok(observed) => {
                        let mut tasks = observed.status_tasks();
                        let can_answer = observed.snapshot.can_answer().map(|(member, _)| member);
                        tasks.extend(memory.free_space.to_ask(can_answer, now));
                        tasks.extend(observed.handshakes_to_see(now));
                        tasks.extend(observed.sites_to_ask());
                        let hear = observed.snapshot.nodes_to_hear(now);
                        tasks.extend(hear.map(|(member, pod)| Task::NodeSays {
                            member: member.clone(),
                            pod: pod.clone(),
                        }));
                        tasks.extend(observed.backups_to_read(now));
                        let asks_why = memory.issuing.asks_why(&observed.snapshot);
                        tasks.extend(asks_why.then_some(Task::CertificateRequests));
                        memory.comparing.begin_pass();
                        if let Ok(cluster) = &observed.cluster.0 {
                            memory.recent.go_on_from(cluster.status.as_ref(), now);
                        }
                        self.ask(observed, Asks::Members, tasks);
                    }
                    Err(stage) => return Some(*stage),
                },
                Phase::Asking(observed, asks) => {
                    if let Some(stage) = self.all_answered(*observed, asks, memory, now) {
                        return Some(stage);
                    }
                }
            }
        }
        None
    }

    /// What follows once all of this was answered; `None` if more is asked.
    fn all_answered(
        &mut self,
        mut observed: Observed,
        asks: Asks,
        memory: &mut Memory,
        now: Instant,
    ) -> Option<Stage> {
        match asks {
            Asks::Hashes => {
                let tasks = observed.status_tasks();
                self.ask(observed, Asks::Members, tasks);
                return None;
            }
            Asks::Members => match member_to_ask(&observed.snapshot.etcd.answers).cloned() {
                Ok(at) => {
                    let tasks = memory.comparing.next(&observed.snapshot, now);
                    if !tasks.is_empty() {
                        self.ask(observed, Asks::Hashes, tasks);
                        return None;
                    }
                    memory.comparing.add_to(&mut observed.snapshot, now);
                    memory.free_space.add_to(&mut observed.snapshot, now);
                    memory.progress.add_to(&mut observed.snapshot, now);
                    match self.plan_calmly(&mut observed, memory, now) {
                        Some(plan) if plan.proof_is_due && memory.progress.may_make_entry(now) => {
                            let tasks = vec![Task::Entry { at: at.clone() }];
                            let plan = Box::new(plan);
                            self.ask(observed, Asks::Entry { plan, at, is_made: false }, tasks);
                        }
                        Some(plan) => return Some(Stage::Act(self.act(observed, plan, memory, now))),
                        None => self.read_list(observed, at, now),
                    }
                    return None;
                }
                Err(why) => {
                    memory.calm.read(None, None);
                    observed.list(Err(why));
                    memory.comparing.add_busy_to(&mut observed.snapshot, now);
                    memory.free_space.add_to(&mut observed.snapshot, now);
                    memory.progress.add_to(&mut observed.snapshot, now);
                    memory.recent.add_to(&mut observed.snapshot, now);
                }
            },
            Asks::Entry { plan, is_made: true, .. } => {
                return Some(Stage::Act(self.act(observed, *plan, memory, now)));
            }
            Asks::Entry { at, is_made: false, .. } => {
                observed.forget_list();
                self.read_list(observed, at, now);
                return None;
            }
            Asks::MemberList => {
                memory.recent.add_to(&mut observed.snapshot, now);
                let plan = quorate_planner::plan(&observed.snapshot, now);
                let wants_proof = plan.needs_proof || plan.proof_is_due || self.always_proves();
                if progress::is_wanted(&observed.snapshot, wants_proof) {
                    let tasks = observed.proof_tasks();
                    self.ask(observed, Asks::Proof, tasks);
                    return None;
                }
                return self.act_with_claims(observed, plan, memory, now);
            }
            Asks::Rehearsal(asked) => asked.add_to(&mut observed.snapshot, now),
            Asks::Proof | Asks::Claims => match self.observe_again(observed, memory, now) {
                Ok(again) => observed = again,
                Err(stage) => return Some(*stage),
            },
        }
        let plan = quorate_planner::plan(&observed.snapshot, now);
        self.act_with_claims(observed, plan, memory, now)
    }

    /// The plan on a list that still holds, if nothing is to be done and nothing asks for attention. Anything else rests on a list
    /// of its own pass.
    fn plan_calmly(&self, observed: &mut Observed, memory: &mut Memory, now: Instant) -> Option<Plan> {
        let committed = committed(&observed.snapshot, now);
        if observed.snapshot.record.has_credential() && observed.snapshot.etcd.auth.is_none() {
            // Nothing is seen of it in this etcd cluster: it may be off.
            return None;
        }
        let list = memory.calm.list_that_holds(&observed.snapshot.etcd.answers, committed, now)?.clone();
        if self.always_proves() {
            return None;
        }
        observed.list(Ok(list));
        observed.snapshot.etcd.list_holds_at = Some(now);
        memory.recent.add_to(&mut observed.snapshot, now);
        let plan = quorate_planner::plan(&observed.snapshot, now);
        if plan.is_settled() && observed.snapshot.is_well(now) {
            return Some(plan);
        }
        observed.forget_list();
        None
    }

    fn read_list(&mut self, observed: Observed, at: MemberName, now: Instant) {
        let known = observed.snapshot.etcd.auth.as_ref();
        let is_ours = observed.snapshot.record.has_credential();
        let asks = observed.snapshot.asks_for_auth(known, now);
        let auth = asks.then(|| Task::Auth { at: at.clone(), is_ours });
        let tasks = auth.into_iter().chain([Task::MemberList { at }]).collect();
        self.ask(observed, Asks::MemberList, tasks);
    }

    fn begin(&mut self, phase: Phase, tasks: Vec<Task>) {
        (self.phase, self.tasks, self.issued, self.answered) = (phase, tasks, 0, 0);
    }

    fn ask(&mut self, observed: Observed, asks: Asks, tasks: Vec<Task>) {
        self.begin(Phase::Asking(Box::new(observed), asks), tasks);
    }

    fn always_proves(&self) -> bool {
        #[cfg(feature = "mutants")]
        return self.always_prove;
        #[cfg(not(feature = "mutants"))]
        false
    }

    /// The snapshot of the objects; the stage that follows if there is none.
    pub(super) fn observe(
        &self,
        view: ClusterView,
        cluster: Arc<ReadCluster>,
        memory: &mut Memory,
        now: Instant,
    ) -> Result<Observed, Box<Stage>> {
        let conflicts: Vec<NameConflict> = memory.conflicts().cloned().collect();
        let made = match &cluster.0 {
            Ok(parsed) => snapshot(&view.objects(parsed, conflicts.clone()), &self.defaults),
            Err(invalid) => {
                let end = PassEnd::Unreadable(invalid.error.clone());
                return Err(Box::new(Stage::Ended(end, None)));
            }
        };
        match made {
            Ok(Observation { mut snapshot, refused, accepted }) => {
                let cluster = accepted.map_or(cluster, |accepted| Arc::new(DeserializeGuard(Ok(accepted))));
                snapshot.claims_not_read.clone_from(&self.claims_not_read);
                snapshot.clock_differs = memory.clock_differs;
                snapshot.image_volume_refused.clone_from(&memory.image_volume_refused);
                snapshot.running_backups.clone_from(&memory.running_backups);
                snapshot.users_to_come.clone_from(&memory.users_to_come);
                snapshot.etcd.auth = memory.auth_of(snapshot.record.cluster_id);
                if let (Some(why), Some(health)) = (snapshot.data_store.as_mut(), &memory.data_store) {
                    health.why.message().clone_into(why);
                }
                if snapshot.defaults == DefaultsTurn::Now {
                    snapshot.defaults.clone_from(&memory.defaults_turn);
                }
                let (unread, claims) = (None, ReadClaims::default());
                let mut observed = Observed { view, cluster, conflicts, snapshot, refused, unread, claims };
                observed.see_issuance(memory, now);
                Ok(observed)
            }
            Err(invalid) => Err(Box::new(Stage::Act(Acting::refuse(self.at.clone(), cluster, invalid, now)))),
        }
    }

    /// The plan is carried out, unless it ends Pods whose claims were not read yet, or asks what would be admitted.
    fn act_with_claims(
        &mut self,
        observed: Observed,
        plan: Plan,
        memory: &Memory,
        now: Instant,
    ) -> Option<Stage> {
        if let Some((asked, tasks)) = observed.rehearse(&plan, &self.defaults, now) {
            self.ask(observed, Asks::Rehearsal(asked), tasks);
            return None;
        }
        let tasks = observed.claims_to_read(&plan, now);
        if tasks.is_empty() {
            return Some(Stage::Act(self.act(observed, plan, memory, now)));
        }
        self.ask(observed, Asks::Claims, tasks);
        None
    }

    fn act(&self, observed: Observed, plan: Plan, memory: &Memory, now: Instant) -> Acting {
        let Observed { view, cluster, conflicts, snapshot, refused, unread: _, claims: _ } = observed;
        let mut planned = Planned {
            cluster,
            view,
            snapshot,
            plan,
            status: quorate_api::status::EtcdClusterStatus::default(),
            refused,
            at: now,
            conflicts,
            backups: memory.backups.clone(),
            data_store: memory.data_store.clone(),
            last_failure: memory.failure.clone(),
            defaults: self.defaults.clone(),
            compares: memory.comparing.goes_on(),
        };
        planned.make_status();
        Acting::new(Arc::new(planned))
    }
}

impl Observed {
    /// Takes what was answered.
    fn answered(
        &mut self,
        asks: &mut Asks,
        (task, reply): (&Task, Reply),
        memory: &mut Memory,
        at: &ClusterRef,
        now: Instant,
    ) {
        match (task, reply) {
            (Task::Status { member }, Reply::Status(answer)) => {
                self.snapshot.etcd.answers.insert(member.clone(), answer);
            }
            (Task::FreeSpace { member }, Reply::FreeSpace(space)) => {
                memory.free_space.replied(member, space, now);
            }
            (Task::CertificateRequests, Reply::CertificateRequests(Ok(requests))) => {
                memory.issuing.take_requests(requests);
                self.see_issuance(memory, now);
            }
            (Task::Handshake { member, ca }, Reply::Handshake(Ok(shown))) => {
                self.saw_handshake(member, *ca, &shown);
            }
            (Task::Site { member, .. }, Reply::Site(Ok(site))) => {
                self.snapshot.sites.insert(member.clone(), site);
            }
            (Task::NodeSays { member, .. }, Reply::NodeSays(Ok(says))) => {
                if let Some(pod) = self.snapshot.pods.get_mut(member) {
                    pod.node_says = says;
                }
            }
            (Task::Hash { member, .. }, Reply::Hash(hash)) => {
                memory.comparing.replied(&self.snapshot, member, hash, now);
            }
            (Task::Entry { .. }, Reply::Entry(Ok(()))) => {
                self.made_entry(memory, now);
                if let Asks::Entry { is_made, .. } = asks {
                    *is_made = true;
                }
            }
            (Task::MemberList { .. }, Reply::List(list)) => {
                let committed = committed(&self.snapshot, now);
                memory.calm.read(list.as_ref().ok(), committed);
                self.list(list);
            }
            (Task::Auth { .. }, Reply::Auth(seen)) => {
                // Where it is not known, what was seen before stays, and grows old.
                let cluster = self.snapshot.record.cluster_id;
                memory.auth = seen.ok().map(|seen| (cluster, seen)).or(memory.auth.take());
                self.snapshot.etcd.auth = memory.auth_of(cluster);
            }
            (Task::Read { kind: Kind::Backup, name }, Reply::Object(read)) => {
                self.resolve_backup(name, read, memory, now);
            }
            (Task::Read { kind: Kind::Pod, name }, Reply::Object(read)) => {
                self.read_pod(memory, name, read, now);
            }
            (Task::Read { kind: Kind::Volume, name }, Reply::Object(read)) => {
                self.read_claim(memory, at, name, read, now);
            }
            (Task::ProveProgress { .. }, Reply::Proved(proved)) => self.proved(memory, proved),
            (Task::DryRun(write), Reply::DryRun(admitted)) => {
                if let Asks::Rehearsal(asked) = asks {
                    asked.answered(&self.view, write, admitted);
                }
            }
            // It is not known, or the reply is to something else: what was known before stays, and nothing follows.
            (_, _) => {}
        }
    }

    /// Who is asked for its Status.
    fn status_tasks(&self) -> Vec<Task> {
        let members = self.snapshot.can_answer();
        members.map(|(member, _)| Task::Status { member: member.clone() }).collect()
    }

    /// At which ports a handshake is looked at: at none, unless an authority is being replaced, since etcd logs each of them.
    fn handshakes_to_see(&self, now: Instant) -> Vec<Task> {
        let Some(ca) = self.snapshot.handshakes_wanted(now) else { return Vec::new() };
        let members = self.snapshot.can_answer();
        members.map(|(member, _)| Task::Handshake { member: member.clone(), ca }).collect()
    }

    /// Takes what is known of the Certificates of cert-manager, for the spec that was accepted.
    fn see_issuance(&mut self, memory: &mut Memory, now: Instant) {
        if let Some(cluster) = parsed(&self.cluster) {
            memory.issuing.add_to(&mut self.snapshot, cluster, &self.view, now);
        }
    }

    fn saw_handshake(&mut self, member: &MemberName, ca: Ca, shown: &Shown) {
        let (at, uid) = (&self.snapshot.cluster, &self.snapshot.uid);
        let secrets: Vec<&Secret> = self.view.secrets.values().map(AsRef::as_ref).collect();
        let handshake = read_handshake(&secrets, (at, uid), shown);
        self.snapshot.etcd.handshakes.insert((member.clone(), ca), handshake);
    }

    /// About whose volumes Kubernetes is asked.
    fn sites_to_ask(&self) -> Vec<Task> {
        let recovery = self.snapshot.record.quorum_recovery.as_ref();
        let container = |member: &MemberName| recovery?.containers.get(member).cloned();
        let ask = |member: &MemberName| {
            let claim = self.view.volumes.get(member.as_str());
            let of_claim = claim.map_or_else(SiteQuestion::default, |claim| SiteQuestion::of(claim));
            let Container { node, served_on, .. } = container(member).unwrap_or_default();
            let question = SiteQuestion { node, served_on, ..of_claim };
            Task::Site { member: member.clone(), question }
        };
        self.snapshot.sites_to_ask().map(ask).collect()
    }

    /// The EtcdBackups that matter now: the one that the cluster is to begin with, while the bootstrap has not recorded what it is; the one
    /// of the order to restore it in place; and the one that comes before an upgrade or the end of the cluster.
    fn backups_to_read(&self, now: Instant) -> Vec<Task> {
        let Some(cluster) = parsed(&self.cluster) else { return Vec::new() };
        let mut names = restore::backups_to_read(&self.restores(), &self.snapshot, now);
        names.extend(bootstrap::backup_to_read(cluster));
        names.extend(backup_before::to_read(cluster));
        names.into_iter().map(|name| Task::Read { kind: Kind::Backup, name }).collect()
    }

    fn resolve_backup(
        &mut self,
        name: &str,
        read: Result<Option<Object>, WriteError>,
        memory: &Memory,
        now: Instant,
    ) {
        let Some(cluster) = parsed(&self.cluster) else { return };
        let read = read.map_err(|error| error.to_string());
        let backup = match &read {
            Ok(object) => Ok(object.as_ref().and_then(EtcdBackup::of).map(AsRef::as_ref)),
            Err(why) => Err(why.as_str()),
        };
        if backup_before::to_read(cluster).as_deref() == Some(name) {
            self.snapshot.backup_before = backup_before::read(cluster, backup, now);
            memory.add_ending_namespace(&mut self.snapshot);
        }
        // An EtcdRestore may name the same one.
        if bootstrap::backup_to_read(cluster).as_deref() == Some(name) {
            self.snapshot.restore = bootstrap::by_backup(cluster, backup);
        } else {
            let restores: Vec<_> = self.view.restores.values().map(AsRef::as_ref).collect();
            restore::resolve(&restores, &mut self.snapshot, name, backup);
        }
    }

    fn restores(&self) -> Vec<&EtcdRestore> {
        self.view.restores.values().map(AsRef::as_ref).collect()
    }

    fn list(&mut self, list: Result<List, String>) {
        let etcd = &mut self.snapshot.etcd;
        (etcd.list, etcd.list_failure) = match list {
            Ok(list) => (Some(list), None),
            Err(why) => (None, Some(why)),
        };
    }

    /// The list of an earlier pass does not count.
    fn forget_list(&mut self) {
        (self.snapshot.etcd.list, self.snapshot.etcd.list_holds_at) = (None, None);
    }
}
