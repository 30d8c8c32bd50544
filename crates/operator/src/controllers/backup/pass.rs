//! The worker of one EtcdBackup: it reads the caches, asks `decide`, and writes.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource as _, ResourceExt};
use quorate_api::backup::EtcdBackupStatus;
use quorate_api::backup::{BackupCondition, BackupPhase};
use quorate_api::job::{RemoveOrder, SIGNING_SECRET, Task as _};
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, Explanation, Reason, keys};
use quorate_manifests::job::{self, Terms};
use quorate_manifests::{backup, restore, restored};
use quorate_model::{Instant, Step};
use quorate_orders::backup as orders;
use quorate_orders::backup::{
    Act, Decision, Place, Seen, User, decide, has_started, is_in_queue, is_of, is_of_attempt, runs, state,
};
use quorate_orders::gate::{self, Removal};
use quorate_reconcile::{ReadCluster, WriteError};

use super::{BackupController, ReadRestore};
use crate::controllers::cluster::source;
use crate::controllers::desk::{Clerk, Desk, refused};
use crate::controllers::tls;
use crate::controllers::{Kinds, accepted};
use crate::runtime::controller::Pass;
use crate::runtime::pace::Outcome;
use crate::runtime::watch::NamespacedName;

/// So many of those that wait for the bound look every second, the others every ten.
const NEAR: usize = 3;

/// How long a removal may take.
const REMOVAL_SECONDS: i64 = 600;

/// Why an act was not done. Only the refusal of a Job is reported as that.
enum Undone {
    /// The API server did not create the Job.
    Job(WriteError),
    /// Something before or beside it.
    Other(WriteError),
}

impl From<WriteError> for Undone {
    fn from(error: WriteError) -> Self {
        Self::Other(error)
    }
}

/// Works on one EtcdBackup.
pub(crate) struct BackupWorker {
    controller: BackupController,
    desk: Desk<EtcdBackup>,
    /// It is among the first that wait for the bound: it looks often, so that a place that becomes free is not left empty.
    is_near: bool,
}

impl Clerk for BackupWorker {
    type Kind = EtcdBackup;

    fn desk(&mut self) -> &mut Desk<EtcdBackup> {
        &mut self.desk
    }

    fn beside(&self) -> u64 {
        self.controller.restores.get(&self.desk.root).seen
    }

    async fn work(&mut self, backup: &EtcdBackup) -> Pass {
        let now = self.controller.runtime.clock.now();
        self.is_near = false;
        let decision = self.decision(backup, now).await;
        let begins = matches!(decision.act, Act::Backup { .. });
        let status_changes = Some(&decision.status) != backup.status.as_ref()
            && decision.status != EtcdBackupStatus::default();
        let mut seen = backup.clone();
        if status_changes {
            match self.desk.write_status(Step::E2, backup, &decision.status).await {
                Ok(written) => {
                    if backup.spec.existing.is_none() {
                        self.controller.durations.see(backup.status.as_ref(), &decision.status, now);
                    }
                    seen = written;
                }
                Err(error) => {
                    if begins {
                        self.not_begun(backup, &error, now);
                    }
                    return Pass::Ended(self.desk.stopped(backup, &error));
                }
            }
        }
        if let Some((warning, what)) = decision.event.clone() {
            self.desk.tell(backup, warning, what);
        }
        match self.carry_out(&seen, &decision).await {
            Ok(pass) => pass,
            Err(Undone::Job(error)) => Pass::Ended(self.refused(&seen, &decision.act, &error, now).await),
            Err(Undone::Other(error)) => Pass::Ended(self.desk.stopped(&seen, &error)),
        }
    }
}

impl BackupWorker {
    pub(super) fn new(controller: BackupController, root: &NamespacedName) -> Self {
        let BackupController { runtime, kinds, owned, .. } = &controller;
        let desk = Desk::new(runtime, root, &kinds.backups, owned.clone());
        Self { controller, desk, is_near: false }
    }

    async fn decision(&mut self, backup: &EtcdBackup, now: Instant) -> Decision {
        let BackupController { kinds: Kinds { backups, clusters, users, .. }, by_source, .. } =
            &self.controller;
        let (jobs, pods) = (self.desk.jobs(backup), self.desk.pods());
        let jobs = self.desk.outcomes(&jobs, &pods, now).await;
        let running_pods = pods.iter().filter(|pod| runs(pod) && is_of(pod, backup)).count();
        let has_started = pods.iter().any(|pod| has_started(pod) && is_of_attempt(pod, backup));
        let cluster = self.cluster(backup);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let is_going = backup.metadata.deletion_timestamp.is_some();
        let is_existing = backup.spec.existing.is_some();
        let others: Vec<_> = if is_existing || is_going {
            backups.in_namespace(&self.desk.root.namespace)
        } else if is_in_queue(backup) {
            by_source.get(&source(&self.desk.root.namespace, backup)).objects.into_values().collect()
        } else {
            Vec::new()
        };
        let others = others.iter().filter_map(|other| other.0.as_ref().ok());
        let learned = orders::learned(backup, others.clone(), now);
        let (waits_for, failed_removals, all_go) = if is_going {
            let queue = orders::removals(backup, others, now);
            (queue.waits_for, queue.failed, queue.all_go)
        } else if is_existing {
            (orders::inspects_before(backup, others, now).map(ResourceExt::name_any), 0, false)
        } else {
            (orders::blocker(backup, others, now).map(ResourceExt::name_any), 0, false)
        };
        let waits_for = waits_for.as_deref();
        let used_by = backup.metadata.deletion_timestamp.as_ref().and_then(|_| self.used_by(backup));
        let concerns_any = backup.spec.source.endpoints.is_some() || backup.spec.destination.pvc.is_some();
        let all: Vec<_> =
            if concerns_any { clusters.all().into_iter().map(accepted).collect() } else { Vec::new() };
        let all = || all.iter().filter_map(|cluster| cluster.0.as_ref().ok());
        let users = users.in_namespace(&self.desk.root.namespace);
        let users = users.iter().filter_map(|user| user.0.as_ref().ok());
        let refusing = orders::refusing(backup, all(), users);
        let is_given_up = backup.is_for_restore() && !self.is_awaited(backup);
        let owner_of_claim = orders::owner_of_claim(backup, all());
        let seen = Seen {
            backup,
            cluster,
            refusing,
            owner_of_claim,
            waits_for,
            learned,
            place: None,
            has_started,
            jobs: &jobs,
            running_pods,
            failed_removals,
            all_go,
            used_by: used_by.as_ref(),
            is_given_up,
            now,
        };
        if !is_in_queue(backup) {
            return decide(seen);
        }
        // One decides at a time: two that see the same free place must not both take it.
        let mut bound = self.controller.bound();
        let is_held = bound.holds(backup, cluster);
        if is_held && bound.is_outdated(now) {
            let all = backups.all();
            bound.look(all.iter().filter_map(|other| other.0.as_ref().ok()), now);
        }
        let place = is_held.then(|| bound.place(backup)).flatten();
        let decision = decide(Seen { place, ..seen });
        if matches!(decision.act, Act::Backup { .. }) {
            bound.begins(backup, decision.status.attempts, now);
        }
        self.is_near = is_near(&decision, place);
        decision
    }

    /// Whether the restore that an EtcdBackup was created for waits for it.
    fn is_awaited(&self, backup: &EtcdBackup) -> bool {
        // One that cannot be read may wait for it.
        let by_cluster = self.cluster(backup).is_some_and(|read| match &read.0 {
            Ok(cluster) => restore::is_awaited(backup, Some(cluster), None),
            Err(_) => restored::is_owned_by(backup, read.meta()),
        });
        let restores = self.controller.kinds.restores.in_namespace(&self.desk.root.namespace);
        let by_restore = |read: &Arc<ReadRestore>| match &read.0 {
            Ok(restore) => restore::is_awaited(backup, None, Some(restore)),
            Err(_) => restored::is_owned_by(backup, read.meta()),
        };
        by_cluster || restores.iter().any(by_restore)
    }

    /// The status with the attempt was not written. Where that is certain, it counts for nothing.
    fn not_begun(&self, backup: &EtcdBackup, error: &WriteError, now: Instant) {
        let mut bound = self.controller.bound();
        match error {
            WriteError::Forbidden(_) | WriteError::Invalid(_) | WriteError::Blocked(_) => {
                bound.is_refused(backup, now);
            }
            WriteError::NotLeading
            | WriteError::Outdated
            | WriteError::Exists
            | WriteError::Missing(_)
            | WriteError::Throttled(..) => {
                bound.takes_back(backup);
            }
            // It may be there: without an answer, or where the cache lacks what this operator wrote just before.
            WriteError::Changed(_) | WriteError::Unknown(_) => {}
        }
    }

    async fn carry_out(&self, backup: &EtcdBackup, decision: &Decision) -> Result<Pass, Undone> {
        let (desk, defaults) = (&self.desk, &self.controller.defaults);
        let jobs = desk.writer::<Job>();
        let cluster = self.cluster(backup);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let terms = |seconds| Terms { seconds, cluster, defaults };
        match &decision.act {
            Act::AddFinalizer => {
                desk.set_finalizer(Step::E1, backup, keys::BACKUP_FINALIZER, true).await?;
            }
            Act::RemoveFinalizer => {
                desk.set_finalizer(Step::E6, backup, keys::BACKUP_FINALIZER, false).await?;
            }
            Act::Backup { order, tls_secret, seconds } => {
                desk.is_current(backup).await?;
                self.has_signing_key().await?;
                let attempt = decision.status.attempts;
                let made = job::backup(backup, order, tls_secret.as_deref(), attempt, terms(*seconds));
                jobs.create_admitted(Step::E3, &made).await.map_err(Undone::Job)?;
            }
            Act::Inspect { order, seconds } => {
                desk.is_current(backup).await?;
                let attempt = decision.status.attempts;
                let made = job::inspect(backup, order, attempt, terms(*seconds));
                jobs.create_admitted(Step::E3, &made).await.map_err(Undone::Job)?;
            }
            Act::Remove => {
                desk.is_current(backup).await?;
                let used_by = self.used_by(backup);
                let running_pods = desk.pods().iter().filter(|pod| runs(pod) && is_of(pod, backup)).count();
                let status = &decision.status;
                let removal = Removal { backup, status, running_pods, used_by: used_by.as_ref() };
                if let Err(why) = gate::may_remove(&removal) {
                    tracing::info!("its object is not removed now: {}", why.name());
                    let name = RemoveOrder::job_name(&backup.uid().unwrap_or_default(), status.removals);
                    // Created before a crash, and not yet in the cache: it stays recorded.
                    if jobs.read(&name).await?.is_none() {
                        let held = orders::removal_held(status.clone());
                        desk.write_status(Step::E2, backup, &held).await?;
                    }
                    return Ok(Pass::Ended(Outcome::Degraded));
                }
                let others = self.controller.kinds.backups.in_namespace(&self.desk.root.namespace);
                let others: Vec<_> = others.iter().filter_map(|other| other.0.as_ref().ok()).collect();
                let store = orders::store_of_removal(backup, others.into_iter(), decision.status.removals);
                let order = RemoveOrder { destination: store.clone(), ..backup::remove_order(backup) };
                let made = job::remove(backup, &order, decision.status.removals, terms(REMOVAL_SECONDS));
                jobs.create_admitted(Step::E5, &made).await.map_err(Undone::Job)?;
            }
            Act::DeleteJob(name) => {
                if let Some(job) = desk.job(backup, name) {
                    // A view that is outdated must not take a Job away whose answer is not in status yet.
                    desk.is_current(backup).await?;
                    jobs.delete(Step::E4, &job).await?;
                }
                return Ok(Pass::Ended(Outcome::Waiting));
            }
            Act::Wait(until) => return Ok(Pass::Ended(self.pace(*until))),
            Act::Rest => return Ok(Pass::AtRest),
        }
        Ok(Pass::Ended(Outcome::Acted))
    }

    /// The EtcdCluster that it names, if it exists.
    fn cluster(&self, backup: &EtcdBackup) -> Option<Arc<ReadCluster>> {
        let name = backup.spec.source.cluster.as_ref()?;
        self.controller.kinds.cluster(&self.desk.root.namespace, name)
    }

    /// The namespace has a key that signs manifests. One that is there stays, whatever it is: older backups are signed by it. A Secret without it
    /// was created by a person, with keys of another namespace.
    async fn has_signing_key(&self) -> Result<(), WriteError> {
        let secrets = self.desk.writer::<Secret>();
        let written = if let Some(found) = secrets.read(SIGNING_SECRET).await? {
            let Some(patch) = backup::signing_key(&found, tls::random_key()) else { return Ok(()) };
            secrets.patch(Step::E7, SIGNING_SECRET, &patch).await
        } else {
            let made = backup::signing_secret(&self.desk.root.namespace, tls::random_key());
            secrets.create(Step::E7, &made).await
        };
        // A quota, perhaps. A backup that nobody vouches for is better than none, and its status says so.
        if let Some(text) = refused(written)? {
            tracing::warn!("Secret {SIGNING_SECRET} is refused: {text}");
        }
        Ok(())
    }

    /// Waits in steps: a pass is cheap, and the clock may be set.
    fn pace(&self, until: Option<Instant>) -> Outcome {
        match until {
            Some(until) if until.0 <= self.controller.runtime.clock.now().0 => Outcome::Acted,
            None if self.is_near => Outcome::Waiting,
            Some(_) | None => Outcome::Degraded,
        }
    }

    /// The Job of an act was not created. One that a quota or a policy refuses is reported in status.
    async fn refused(&mut self, backup: &EtcdBackup, act: &Act, error: &WriteError, now: Instant) -> Outcome {
        let text = match error {
            WriteError::Forbidden(text) | WriteError::Invalid(text) => text,
            WriteError::NotLeading
            | WriteError::Outdated
            | WriteError::Exists
            | WriteError::Changed(_)
            | WriteError::Missing(_)
            | WriteError::Blocked(_)
            | WriteError::Throttled(..)
            | WriteError::Unknown(_) => return self.desk.stopped(backup, error),
        };
        if matches!(act, Act::Remove) && orders::is_of_namespace_in_deletion(text) {
            return self.let_go(backup).await;
        }
        let text = format!("the Job is refused: {text}");
        let why = Explanation::new(Reason::WriteRefused, text.clone());
        let before = backup.status.clone().unwrap_or_default();
        let phase = before.phase.unwrap_or(BackupPhase::Pending);
        let seen = Seen::only(backup, now);
        let decision = if matches!(act, Act::Remove) {
            orders::removal_refused(seen, before, &text)
        } else {
            let status = state(seen, before, phase, BackupCondition::Pending, &why);
            Decision { status, act: Act::Rest, event: None }
        };
        if backup.status.as_ref() != Some(&decision.status) {
            // If this fails, the next pass reports it.
            let _ = self.desk.write_status(Step::E2, backup, &decision.status).await;
        }
        self.desk.stopped(backup, error)
    }

    /// The namespace is being deleted: the EtcdBackup goes without its object.
    async fn let_go(&mut self, backup: &EtcdBackup) -> Outcome {
        let done = self.desk.set_finalizer(Step::E6, backup, keys::BACKUP_FINALIZER, false).await;
        if let Err(error) = done {
            return self.desk.stopped(backup, &error);
        }
        let what = orders::abandoned(backup, "with its namespace");
        tracing::warn!("{what}");
        self.desk.tell(backup, true, what);
        Outcome::Acted
    }

    /// An EtcdCluster that still begins with it, or an EtcdRestore that is not over: of any namespace, by its name or by its object.
    fn used_by(&self, backup: &EtcdBackup) -> Option<User> {
        let object = |namespace: &str, name: &str| self.controller.kinds.stands_for(namespace, name);
        let name = |user: &ObjectMeta| {
            let (namespace, name) = (user.namespace.as_deref().unwrap_or_default(), user.name.as_deref());
            let name = name.unwrap_or_default();
            if namespace == self.desk.root.namespace {
                name.to_owned()
            } else {
                format!("{namespace}/{name}")
            }
        };
        let needs = |cluster: &Arc<ReadCluster>| {
            let needed = cluster.0.as_ref().ok().and_then(EtcdCluster::needs);
            needed.is_some_and(|needed| needed.is(backup, object))
        };
        if let Some(cluster) = self.controller.kinds.clusters.all().into_iter().find(needs) {
            return Some(User::Cluster(name(cluster.meta())));
        }
        // Without a result nothing can be restored from it: the two would wait for each other.
        backup.status.as_ref()?.result.as_ref()?;
        let mut pending = self.controller.kinds.restores.all().into_iter().filter(|restore| {
            let needed = restore.0.as_ref().ok().and_then(EtcdRestore::needs);
            needed.is_some_and(|needed| needed.is(backup, object))
        });
        pending.next().map(|restore| User::Restore(name(restore.meta())))
    }
}

/// Whether it waits for the bound only, and few are before it.
fn is_near(decision: &Decision, place: Option<Place>) -> bool {
    orders::waits_for_place(&decision.status) && place.is_some_and(|place| place.before < NEAR)
}
