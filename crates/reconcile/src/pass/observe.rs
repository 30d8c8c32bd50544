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
use crate::objects::{ClusterView, ReadCluster};
use crate::ownership::is_visible;
use crate::progress::committed;

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
    /// Members are asked for their Status.
    Members(Observed),
    /// There is a reason to compare the members' data, so one of them makes a hash. That may take long, so all are asked for their Status
    /// again.
    Hashes(Observed),
    /// Nothing is to be done, on a list that still holds. A proof of progress is due, so an entry is made.
    Entry { observed: Observed, plan: Box<Plan>, at: MemberName, is_made: bool },
    /// One member is asked for the list.
    MemberList(Observed),
    /// Progress is proved, and the Pods are read from the API: the caches may not have a deletion yet.
    Proof(Observed),
    /// The plan ends Pods, so their claims are read from the API.
    Claims(Observed),
    /// An order to restore in place would begin, so the API server is asked whether it would admit new members.
    Rehearsal(Observed, Asked),
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
        let unconfirmed = memory.unconfirmed(now).into_iter().map(|(kind, name)| Task::Read { kind, name });
        let tasks: Vec<Task> = unconfirmed.collect();
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
        match &self.phase {
            Phase::Members(observed)
            | Phase::Hashes(observed)
            | Phase::Entry { observed, .. }
            | Phase::MemberList(observed)
            | Phase::Proof(observed)
            | Phase::Claims(observed)
            | Phase::Rehearsal(observed, _) => Some((&observed.snapshot, &observed.view)),
            Phase::Unconfirmed | Phase::Caches(_) | Phase::Conflicts(..) => None,
        }
    }

    /// R23: the plan is made by what is known of the clocks when it is made.
    pub(super) fn see_clocks(&mut self, differs: Option<ClockDifference>) {
        match &mut self.phase {
            Phase::Members(observed)
            | Phase::Hashes(observed)
            | Phase::Entry { observed, .. }
            | Phase::MemberList(observed)
            | Phase::Proof(observed)
            | Phase::Claims(observed)
            | Phase::Rehearsal(observed, _) => observed.snapshot.clock_differs = differs,
            Phase::Unconfirmed | Phase::Caches(_) | Phase::Conflicts(..) => {}
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
            (Phase::Members(observed), Task::Status { member }, Reply::Status(answer)) => {
                observed.snapshot.etcd.answers.insert(member.clone(), answer);
            }
            (Phase::Members(_), Task::FreeSpace { member }, Reply::FreeSpace(space)) => {
                memory.free_space.replied(member, space, now);
            }
            (Phase::Members(observed), Task::CertificateRequests, Reply::CertificateRequests(requests)) => {
                // Where they are not known, what was told before stays.
                if let Ok(requests) = requests {
                    memory.issuing.take_requests(requests);
                    observed.see_issuance(memory, now);
                }
            }
            (Phase::Members(observed), Task::Handshake { member, ca }, Reply::Handshake(shown)) => {
                observed.saw_handshake(member, *ca, shown);
            }
            (Phase::Members(observed), Task::Site { member, .. }, Reply::Site(site)) => {
                // Where that is not known, nothing follows from it.
                if let Ok(site) = site {
                    observed.snapshot.sites.insert(member.clone(), site);
                }
            }
            (Phase::Members(observed), Task::NodeSays { member, .. }, Reply::NodeSays(Ok(says))) => {
                if let Some(pod) = observed.snapshot.pods.get_mut(member) {
                    pod.node_says = says;
                }
            }
            (Phase::Hashes(observed), Task::Hash { member, .. }, Reply::Hash(hash)) => {
                memory.comparing.replied(&observed.snapshot, member, hash, now);
            }
            (Phase::Members(observed), Task::Backup { name }, Reply::Backup(backup)) => {
                observed.resolve_backup(name, backup.as_ref(), memory, now);
            }
            (Phase::Entry { observed, is_made, .. }, Task::Entry { .. }, Reply::Entry(entry)) => {
                if entry.is_ok() {
                    observed.made_entry(memory, now);
                }
                *is_made = entry.is_ok();
            }
            (Phase::MemberList(observed), Task::MemberList { .. }, Reply::List(list)) => {
                let committed = committed(&observed.snapshot, now);
                memory.calm.read(list.as_ref().ok(), committed);
                observed.list(list);
            }
            (Phase::MemberList(observed), Task::Auth { .. }, Reply::Auth(seen)) => {
                // Where it is not known, what was seen before stays, and grows old.
                let cluster = observed.snapshot.record.cluster_id;
                memory.auth = seen.ok().map(|seen| (cluster, seen)).or(memory.auth.take());
                observed.snapshot.etcd.auth = memory.auth_of(cluster);
            }
            (Phase::Proof(observed), Task::Read { kind, name }, Reply::Object(read)) => {
                observed.read_pod(memory, *kind, name, read, now);
            }
            (Phase::Proof(observed), Task::ProveProgress { .. }, Reply::Proved(proved)) => {
                observed.proved(memory, proved);
            }
            (Phase::Claims(observed), Task::Read { name, .. }, Reply::Object(read)) => {
                observed.read_claim(memory, &self.at, name, read, now);
            }
            (Phase::Rehearsal(observed, asked), Task::DryRun(write), Reply::DryRun(admitted)) => {
                asked.answered(&observed.view, write, admitted);
            }
            // If the read fails, the last known state stays.
            (
                Phase::Unconfirmed
                | Phase::Caches(_)
                | Phase::Conflicts(..)
                | Phase::Members(_)
                | Phase::Hashes(_)
                | Phase::Entry { .. }
                | Phase::MemberList(_)
                | Phase::Proof(_)
                | Phase::Claims(_)
                | Phase::Rehearsal(..),
                ..,
            ) => {}
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
                        self.begin(Phase::Members(observed), tasks);
                    }
                    Err(stage) => return Some(*stage),
                },
                Phase::Hashes(observed) => {
                    let tasks = observed.status_tasks();
                    self.begin(Phase::Members(observed), tasks);
                }
                Phase::Members(mut observed) => match member_to_ask(&observed.snapshot.etcd.answers).cloned()
                {
                    Ok(at) => {
                        let tasks = memory.comparing.next(&observed.snapshot, now);
                        if !tasks.is_empty() {
                            self.begin(Phase::Hashes(observed), tasks);
                            continue;
                        }
                        memory.comparing.add_to(&mut observed.snapshot, now);
                        memory.free_space.add_to(&mut observed.snapshot, now);
                        memory.progress.add_to(&mut observed.snapshot, now);
                        match self.plan_calmly(&mut observed, memory, now) {
                            Some(plan) if plan.proof_is_due && memory.progress.may_make_entry(now) => {
                                let tasks = vec![Task::Entry { at: at.clone() }];
                                let plan = Box::new(plan);
                                self.begin(Phase::Entry { observed, plan, at, is_made: false }, tasks);
                            }
                            Some(plan) => return Some(Stage::Act(self.act(observed, plan, memory, now))),
                            None => self.read_list(observed, at, now),
                        }
                    }
                    Err(why) => {
                        memory.calm.read(None, None);
                        observed.list(Err(why));
                        memory.comparing.add_busy_to(&mut observed.snapshot, now);
                        memory.free_space.add_to(&mut observed.snapshot, now);
                        memory.progress.add_to(&mut observed.snapshot, now);
                        memory.recent.add_to(&mut observed.snapshot, now);
                        let plan = quorate_planner::plan(&observed.snapshot, now);
                        if let Some(stage) = self.act_with_claims(observed, plan, memory, now) {
                            return Some(stage);
                        }
                    }
                },
                Phase::Entry { observed, plan, is_made: true, .. } => {
                    return Some(Stage::Act(self.act(observed, *plan, memory, now)));
                }
                Phase::Entry { mut observed, at, is_made: false, .. } => {
                    observed.forget_list();
                    self.read_list(observed, at, now);
                }
                Phase::MemberList(mut observed) => {
                    memory.recent.add_to(&mut observed.snapshot, now);
                    let plan = quorate_planner::plan(&observed.snapshot, now);
                    let wants_proof = plan.needs_proof || plan.proof_is_due || self.always_proves();
                    if progress::is_wanted(&observed.snapshot, wants_proof) {
                        let tasks = observed.proof_tasks();
                        self.begin(Phase::Proof(observed), tasks);
                    } else if let Some(stage) = self.act_with_claims(observed, plan, memory, now) {
                        return Some(stage);
                    }
                }
                Phase::Rehearsal(mut observed, asked) => {
                    asked.add_to(&mut observed.snapshot, now);
                    let plan = quorate_planner::plan(&observed.snapshot, now);
                    if let Some(stage) = self.act_with_claims(observed, plan, memory, now) {
                        return Some(stage);
                    }
                }
                Phase::Proof(observed) | Phase::Claims(observed) => {
                    let observed = match self.observe_again(observed, memory, now) {
                        Ok(observed) => observed,
                        Err(stage) => return Some(*stage),
                    };
                    let plan = quorate_planner::plan(&observed.snapshot, now);
                    if let Some(stage) = self.act_with_claims(observed, plan, memory, now) {
                        return Some(stage);
                    }
                }
            }
        }
        None
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
        self.begin(Phase::MemberList(observed), tasks);
    }

    fn begin(&mut self, phase: Phase, tasks: Vec<Task>) {
        (self.phase, self.tasks, self.issued, self.answered) = (phase, tasks, 0, 0);
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
            self.begin(Phase::Rehearsal(observed, asked), tasks);
            return None;
        }
        let tasks = observed.claims_to_read(&plan, now);
        if tasks.is_empty() {
            return Some(Stage::Act(self.act(observed, plan, memory, now)));
        }
        self.begin(Phase::Claims(observed), tasks);
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

    /// Where it failed, nothing is known, and what rests on it waits.
    fn saw_handshake(&mut self, member: &MemberName, ca: Ca, shown: Result<Shown, String>) {
        let Ok(shown) = shown else { return };
        let (at, uid) = (&self.snapshot.cluster, &self.snapshot.uid);
        let secrets: Vec<&Secret> = self.view.secrets.values().map(AsRef::as_ref).collect();
        let handshake = read_handshake(&secrets, (at, uid), &shown);
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
        names.into_iter().map(|name| Task::Backup { name }).collect()
    }

    fn resolve_backup(
        &mut self,
        name: &str,
        backup: Result<&Option<Box<EtcdBackup>>, &String>,
        memory: &Memory,
        now: Instant,
    ) {
        let Some(cluster) = parsed(&self.cluster) else { return };
        let backup = backup.map(Option::as_deref).map_err(String::as_str);
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
