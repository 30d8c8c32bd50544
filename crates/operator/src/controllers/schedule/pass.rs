//! The worker of one EtcdBackupSchedule: it reads the caches, asks `decide`, and writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt as _};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, Explanation, Reason};
use quorate_manifests::job::{self, Terms};
use quorate_model::{Instant, Step};
use quorate_orders::gate::{Judge, Scene};
use quorate_orders::schedule::{
    self, Decision, FirstWrite, NextAct, Pruning, Seen, Sighting, decide_beside, is_of,
};
use quorate_reconcile::{ReadCluster, Retry, WriteError};

use super::ScheduleController;
use crate::controllers::accepted;
use crate::controllers::backup::stands_for;
use crate::controllers::refusal::outcomes;
use crate::controllers::said::Said;
use crate::runtime::controller::{Pass, Worker};
use crate::runtime::events::{Notice, Reported};
use crate::runtime::pace::Outcome;
use crate::runtime::watch::NamespacedName;
use crate::runtime::write::{Writer, status_patch};

/// How many backups are deleted in a pass.
const PRUNED: usize = 10;

/// How long a restore test may take.
const TEST_SECONDS: i64 = 3600;

/// How long a look into the store may take, with the start of its Pod: what it sees is counted from the creation of its Job.
const LOOK_SECONDS: i64 = 300;

/// How many bytes a second a look reads of objects at least.
const READ_RATE: u64 = 4 << 20;

/// How long a list of the store may take: a bucket may have millions of objects.
const LIST_SECONDS: i64 = 3600;

/// What has come of the backup that is due.
enum Created {
    /// It exists, or none is due.
    Yes,
    /// An EtcdBackup that is not the schedule's has this name, which is its own.
    Taken(String),
}

/// Works on one EtcdBackupSchedule.
pub(crate) struct ScheduleWorker {
    controller: ScheduleController,
    root: NamespacedName,
    reported: Reported,
    said: Said,
    /// The versions of the caches that the last pass saw.
    known: [u64; 4],
}

impl Worker for ScheduleWorker {
    fn has_changes(&mut self) -> bool {
        self.versions() != self.known
    }

    async fn pass(&mut self) -> Pass {
        self.known = self.versions();
        let cached = self.controller.schedules.get(&self.root).objects.remove(&self.root.name);
        let Some(cached) = cached else { return Pass::Gone };
        match &cached.0 {
            // It owns nothing that is to be stopped: its backups stay, and the Job of a test goes with it.
            Ok(schedule) if schedule.metadata.deletion_timestamp.is_some() => Pass::Ended(Outcome::Idle),
            Ok(schedule) => Pass::Ended(Box::pin(self.work(schedule)).await),
            Err(error) => {
                tracing::error!(error = %error.error, "the EtcdBackupSchedule does not parse, so nothing is done");
                Pass::Ended(Outcome::UserMustEdit)
            }
        }
    }
}

impl ScheduleWorker {
    pub(super) fn new(controller: ScheduleController, root: NamespacedName) -> Self {
        Self { controller, root, reported: Reported::default(), said: Said::default(), known: [0; 4] }
    }

    async fn work(&mut self, schedule: &EtcdBackupSchedule) -> Outcome {
        let now = self.controller.runtime.clock.now();
        let backups: Vec<_> = self.controller.backups.get(&self.root).objects.into_values().collect();
        let backups: Vec<&EtcdBackup> = backups
            .iter()
            .filter_map(|backup| backup.0.as_ref().ok())
            .filter(|backup| is_of(backup, schedule))
            .collect();
        let others = if schedule::is_listing(schedule) {
            self.controller.all_backups.in_namespace(&self.root.namespace)
        } else {
            Vec::new()
        };
        let others: Vec<&EtcdBackup> = others.iter().filter_map(|backup| backup.0.as_ref().ok()).collect();
        let (jobs, pods) = (self.jobs(schedule), self.pods());
        let jobs = outcomes(&self.controller.runtime, &self.said, &jobs, &pods, now).await;
        let seen = Seen {
            schedule,
            backups: &backups,
            others: &others,
            jobs: &jobs,
            clock: self.controller.runtime.api_clock.difference(),
            now,
        };
        let mut taken = Vec::new();
        let mut decision = decide_beside(seen, &taken);
        let created = loop {
            match self.create(schedule, &decision).await {
                Ok(Created::Yes) => break Ok(()),
                Ok(Created::Taken(name)) => {
                    taken.push(name);
                    decision = decide_beside(seen, &taken);
                }
                Err(error) => break Err(error),
            }
        };
        let carried_out = match created {
            Ok(()) => Box::pin(self.carry_out(schedule, &backups, &decision)).await,
            Err(error) => Err(error),
        };
        match carried_out {
            Ok(outcome) => {
                for (warning, what) in decision.events {
                    self.tell(schedule, warning, what, now);
                }
                // Nothing tells that a name is free again.
                if outcome == Outcome::Idle && !taken.is_empty() { Outcome::Degraded } else { outcome }
            }
            Err(error) => self.stopped(schedule, &decision, &error, now).await,
        }
    }

    /// Creates the backup that is due, if one is.
    async fn create(
        &self,
        schedule: &EtcdBackupSchedule,
        decision: &Decision,
    ) -> Result<Created, WriteError> {
        let Some(FirstWrite::Create(child)) = &decision.first else { return Ok(Created::Yes) };
        let runtime = &self.controller.runtime;
        let schedules = Writer::<EtcdBackupSchedule>::new(runtime, &self.root.namespace);
        let children = Writer::<EtcdBackup>::new(runtime, &self.root.namespace);
        is_current(&schedules, schedule).await?;
        match children.create(Step::Y1, child).await {
            Ok(_) => Ok(Created::Yes),
            Err(WriteError::Exists) => match children.read(&child.name_any()).await? {
                // Created before a crash, and not yet in the cache: the time is used.
                Some(there) if is_of(&there, schedule) => Ok(Created::Yes),
                Some(there) => Ok(Created::Taken(there.name_any())),
                None => Err(WriteError::Changed("the EtcdBackup of that name is gone again".to_owned())),
            },
            Err(error) => Err(error),
        }
    }

    async fn carry_out(
        &mut self,
        schedule: &EtcdBackupSchedule,
        backups: &[&EtcdBackup],
        decision: &Decision,
    ) -> Result<Outcome, WriteError> {
        let controller = self.controller.clone();
        let runtime = &controller.runtime;
        let schedules = Writer::<EtcdBackupSchedule>::new(runtime, &self.root.namespace);
        let children = Writer::<EtcdBackup>::new(runtime, &self.root.namespace);
        let jobs = Writer::<Job>::new(runtime, &self.root.namespace);
        if !decision.records.is_empty() {
            is_current(&schedules, schedule).await?;
        }
        for record in &decision.records {
            match children.create(Step::Y8, record).await {
                // Created before a crash or by an earlier order, and by whom ever: it is left as it is.
                Ok(_) | Err(WriteError::Exists) => {}
                Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                    let what = format!("EtcdBackup {}", record.name_any());
                    return self.list_refused(schedule, &what, &text).await;
                }
                Err(error) => return Err(error),
            }
        }
        for sighting in &decision.sightings {
            record(&children, backups, sighting, runtime.clock.now()).await?;
        }
        let mut seen = schedule.clone();
        if schedule.status.as_ref() != Some(&decision.status) {
            seen = schedules
                .patch_status(Step::Y3, schedule, status_patch(schedule.status.as_ref(), &decision.status))
                .await?;
        }
        controller.metrics.show(&self.root, &seen);
        let cluster = self.cluster(schedule);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let terms = |seconds| Terms { seconds, cluster, defaults: &controller.defaults };
        match &decision.then {
            NextAct::Prune(pruned) => self.prune(&seen, decision, backups, pruned).await,
            NextAct::Test { order, etcd_version } => {
                is_current(&schedules, &seen).await?;
                let image = job::etcd_image(cluster, etcd_version, &controller.defaults);
                let name =
                    decision.status.test.as_ref().map(|test| test.job_name.clone()).unwrap_or_default();
                let made = job::verify(&seen, order, &name, &image, terms(TEST_SECONDS));
                match jobs.create_admitted(Step::Y4, &made).await {
                    Ok(_) | Err(WriteError::Exists) => Ok(Outcome::Waiting),
                    Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                        let now = runtime.clock.now();
                        let mut status = decision.status.clone();
                        let refused =
                            Seen { schedule: &seen, backups, others: &[], jobs: &[], clock: None, now };
                        let why = schedule::refused(refused, &mut status, &text);
                        schedules
                            .patch_status(Step::Y3, &seen, status_patch(seen.status.as_ref(), &status))
                            .await?;
                        self.tell(schedule, true, why, now);
                        Ok(Outcome::Waiting)
                    }
                    Err(error) => Err(error),
                }
            }
            NextAct::Look { order, job_template } => {
                is_current(&schedules, &seen).await?;
                let name = decision.status.look.as_ref().map(|look| look.job_name.clone());
                let (name, template) = (name.unwrap_or_default(), job_template.as_deref().cloned());
                let reads = order.objects.iter().filter(|object| object.read).map(|object| object.bytes);
                let seconds =
                    LOOK_SECONDS + i64::try_from(reads.sum::<u64>() / READ_RATE).unwrap_or(i64::MAX / 2);
                let made = job::look(&seen, order, template, &name, terms(seconds));
                match jobs.create_admitted(Step::Y5, &made).await {
                    Ok(_) | Err(WriteError::Exists) => Ok(Outcome::Waiting),
                    Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                        let mut status = decision.status.clone();
                        schedule::look_refused(&mut status, &text, runtime.clock.now());
                        schedules
                            .patch_status(Step::Y3, &seen, status_patch(seen.status.as_ref(), &status))
                            .await?;
                        Ok(Outcome::Waiting)
                    }
                    Err(error) => Err(error),
                }
            }
            NextAct::List { attempt, order } => {
                is_current(&schedules, &seen).await?;
                let made = job::list(&seen, order, *attempt, terms(LIST_SECONDS));
                match jobs.create_admitted(Step::Y9, &made).await {
                    Ok(_) | Err(WriteError::Exists) => Ok(Outcome::Waiting),
                    Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                        self.list_refused(&seen, "the Job", &text).await
                    }
                    Err(error) => Err(error),
                }
            }
            NextAct::DeleteJob(name) => {
                let job =
                    self.jobs(schedule).into_iter().find(|job| job.metadata.name.as_ref() == Some(name));
                if let Some(job) = job.filter(|job| job.metadata.deletion_timestamp.is_none()) {
                    jobs.delete(Step::Y6, &job).await?;
                }
                Ok(Outcome::Waiting)
            }
            NextAct::Wait(Some(until)) if until.0 - runtime.clock.now().0 < 30_000 => Ok(Outcome::Degraded),
            NextAct::Wait(_) => Ok(Outcome::Idle),
            NextAct::Edit => Ok(Outcome::UserMustEdit),
        }
    }

    /// The API server refuses what a list of the store asks for. The try is repeated, and its page with it.
    async fn list_refused(
        &self,
        schedule: &EtcdBackupSchedule,
        what: &str,
        text: &str,
    ) -> Result<Outcome, WriteError> {
        let runtime = &self.controller.runtime;
        let schedules = Writer::<EtcdBackupSchedule>::new(runtime, &self.root.namespace);
        let mut status = schedule.status.clone().unwrap_or_default();
        schedule::catalog_refused(&mut status, what, text, runtime.clock.now());
        schedules.patch_status(Step::Y3, schedule, status_patch(schedule.status.as_ref(), &status)).await?;
        Ok(Outcome::Waiting)
    }

    /// Deletes what no rule keeps, if the gate permits it by what the API server has of the schedule and of the one that stays: both are read
    /// before each deletion, since a person may suspend the schedule, keep more or delete the other one in the middle of them, or restore.
    async fn prune(
        &mut self,
        schedule: &EtcdBackupSchedule,
        decision: &Decision,
        backups: &[&EtcdBackup],
        pruned: &[Pruning],
    ) -> Result<Outcome, WriteError> {
        let controller = self.controller.clone();
        let runtime = &controller.runtime;
        let children = Writer::<EtcdBackup>::new(runtime, &self.root.namespace);
        let schedules = Writer::<EtcdBackupSchedule>::new(runtime, &self.root.namespace);
        let used = self.used_by_restores(backups);
        let (now, clock) = (runtime.clock.now(), runtime.api_clock.difference());
        let mut judge =
            Judge::of(Scene { schedule, status: &decision.status, backups, used: &used, clock, now });
        let mut deleted = 0;
        for Pruning { name, keeper } in pruned {
            let Some(backup) = backups.iter().find(|backup| backup.name_any() == *name) else { continue };
            is_current(&schedules, schedule).await?;
            let stays = match keeper {
                Some(keeper) => children.read(keeper).await?,
                None => None,
            };
            let now = runtime.clock.now();
            judge.see(runtime.api_clock.difference(), self.used_by_restores(backups));
            if let Err(why) = judge.may_prune(backup, stays.as_ref()) {
                tracing::info!("EtcdBackup {name} is not deleted now: {}", why.name());
                continue;
            }
            children.delete(Step::Y7, backup).await?;
            let text = format!("EtcdBackup {name} was deleted: no rule of spec.retention keeps it");
            self.tell(schedule, false, Explanation::new(Reason::BackupPruned, text), now);
            deleted += 1;
            if deleted == PRUNED {
                break;
            }
        }
        Ok(if deleted == 0 { Outcome::Degraded } else { Outcome::Waiting })
    }

    /// A write failed. A refusal that only a person can end is reported in status, without the time being used.
    async fn stopped(
        &mut self,
        schedule: &EtcdBackupSchedule,
        decision: &Decision,
        error: &WriteError,
        now: Instant,
    ) -> Outcome {
        match (error, error.retry()) {
            (WriteError::Invalid(text) | WriteError::Forbidden(text), _) if decision.first.is_some() => {
                let text = format!("the API server refuses the EtcdBackup: {text}");
                let why = Explanation::new(Reason::TemplateRefused, text);
                let seen = Seen { schedule, backups: &[], others: &[], jobs: &[], clock: None, now };
                let mut status = schedule.status.clone().unwrap_or_default();
                schedule::not_ready(seen, &mut status, &why);
                if schedule.status.as_ref() != Some(&status) {
                    let writer =
                        Writer::<EtcdBackupSchedule>::new(&self.controller.runtime, &self.root.namespace);
                    // If this fails, the next pass reports it.
                    let _ = writer
                        .patch_status(Step::Y3, schedule, status_patch(schedule.status.as_ref(), &status))
                        .await;
                }
                self.tell(schedule, true, why, now);
                Outcome::Failed
            }
            (_, retry @ (Retry::Failed | Retry::Unanswered)) => {
                tracing::warn!(%error, "the pass ended before its act");
                let what = Explanation::new(Reason::WriteRefused, format!("a write failed: {error}"));
                self.tell(schedule, true, what, now);
                retry.into()
            }
            (_, retry @ Retry::Throttled(_)) => retry.into(),
            (_, Retry::Now | Retry::Soon | Retry::Refused | Retry::Degraded) => Outcome::Waiting,
        }
    }

    /// The EtcdCluster that the schedule is of.
    fn cluster(&self, schedule: &EtcdBackupSchedule) -> Option<Arc<ReadCluster>> {
        let name = schedule.spec.backup_template.spec.source.cluster.as_ref()?;
        let at = NamespacedName::new(&self.root.namespace, name);
        self.controller.clusters.get(&at).objects.remove(name).map(accepted)
    }

    fn tell(&mut self, schedule: &EtcdBackupSchedule, warning: bool, what: Explanation, at: Instant) {
        let notice = Notice { about: schedule.object_ref(&()), warning, what, at };
        self.controller.runtime.events.publish(&mut self.reported, notice);
    }

    /// Those of these EtcdBackups that an EtcdCluster still begins with, or that an EtcdRestore needs which is not over: of any namespace, by
    /// name or by the object.
    fn used_by_restores(&self, backups: &[&EtcdBackup]) -> BTreeSet<String> {
        let (clusters, restores) = (self.controller.clusters.all(), self.controller.restores.all());
        let of_clusters = clusters.iter().filter_map(|cluster| cluster.0.as_ref().ok()?.needs());
        let of_restores = restores.iter().filter_map(|restore| restore.0.as_ref().ok()?.needs());
        let needed: Vec<_> = of_clusters.chain(of_restores).collect();
        let object = |namespace: &str, name: &str| stands_for(&self.controller.all_backups, namespace, name);
        let is_used = |backup: &&&EtcdBackup| needed.iter().any(|needed| needed.is(backup, object));
        backups.iter().filter(is_used).map(|backup| backup.name_any()).collect()
    }

    fn jobs(&self, schedule: &EtcdBackupSchedule) -> Vec<Arc<Job>> {
        let own = |job: &Arc<Job>| {
            let mut owners = job.metadata.owner_references.iter().flatten();
            owners.any(|owner| Some(&owner.uid) == schedule.metadata.uid.as_ref())
        };
        self.controller.jobs.get(&self.root).objects.into_values().filter(own).collect()
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        self.controller.pods.get(&self.root).objects.into_values().collect()
    }

    fn versions(&self) -> [u64; 4] {
        let ScheduleController { schedules, backups, jobs, pods, .. } = &self.controller;
        let root = &self.root;
        [schedules.get(root).seen, backups.get(root).seen, jobs.get(root).seen, pods.get(root).seen]
    }
}

/// Writes what a look found into the EtcdBackup that it is about, as the API server has it.
async fn record(
    children: &Writer<'_, EtcdBackup>,
    backups: &[&EtcdBackup],
    sighting: &Sighting,
    now: Instant,
) -> Result<(), WriteError> {
    let Some(seen) = backups.iter().find(|seen| seen.name_any() == sighting.backup) else { return Ok(()) };
    let is_new = |backup: &EtcdBackup| {
        backup.status.as_ref().and_then(|status| status.last_look.as_ref()) != Some(&sighting.look)
    };
    if !is_new(seen) {
        return Ok(());
    }
    let Some(backup) = children.read(&sighting.backup).await? else { return Ok(()) };
    if backup.metadata.uid != seen.metadata.uid || !is_new(&backup) {
        return Ok(());
    }
    let status = sighting.status_of(&backup, now);
    match children.patch_status(Step::Y2, &backup, status_patch(backup.status.as_ref(), &status)).await {
        Ok(_) | Err(WriteError::Missing(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What is created is created for the schedule as it is, and not for what an outdated cache has of it.
async fn is_current(
    schedules: &Writer<'_, EtcdBackupSchedule>,
    seen: &EtcdBackupSchedule,
) -> Result<(), WriteError> {
    match schedules.read(&seen.name_any()).await? {
        Some(now) if now.metadata.resource_version == seen.metadata.resource_version => Ok(()),
        Some(_) => Err(WriteError::Changed("the EtcdBackupSchedule has changed".to_owned())),
        None => Err(WriteError::Missing("the EtcdBackupSchedule is gone".to_owned())),
    }
}
