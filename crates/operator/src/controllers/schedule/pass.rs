//! The worker of one EtcdBackupSchedule: it reads the caches, asks `decide`, and writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt as _};
use quorate_api::{EtcdBackup, EtcdBackupSchedule, Explanation, Reason, keys};
use quorate_manifests::job;
use quorate_model::Instant;
use quorate_reconcile::{ReadCluster, Retry, WriteError};
use serde_json::{Value, json};

use super::decide::{Decision, FirstWrite, NextAct, Seen, decide, name, scheduled};
use super::{ScheduleController, report, verify};
use crate::controllers::backup::outcome;
use crate::runtime::controller::{Pass, Worker};
use crate::runtime::events::{Notice, Reported};
use crate::runtime::pace::Outcome;
use crate::runtime::watch::NamespacedName;
use crate::runtime::write::Writer;

/// How many backups are deleted in a pass.
const PRUNED: usize = 10;

/// Milliseconds by which the clocks of the operator and of the API server may differ.
const CLOCKS: i64 = 60_000;

/// How long a restore test may take.
const TEST_SECONDS: i64 = 3600;

/// Works on one EtcdBackupSchedule.
pub(crate) struct ScheduleWorker {
    controller: ScheduleController,
    root: NamespacedName,
    reported: Reported,
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
            Ok(schedule) => Pass::Ended(self.work(schedule).await),
            Err(error) => {
                tracing::error!(error = %error.error, "the EtcdBackupSchedule does not parse, so nothing is done");
                Pass::Ended(Outcome::UserMustEdit)
            }
        }
    }
}

impl ScheduleWorker {
    pub(super) fn new(controller: ScheduleController, root: NamespacedName) -> Self {
        Self { controller, root, reported: Reported::default(), known: [0; 4] }
    }

    async fn work(&mut self, schedule: &EtcdBackupSchedule) -> Outcome {
        let now = self.controller.runtime.clock.now();
        let backups: Vec<_> = self.controller.backups.get(&self.root).objects.into_values().collect();
        let backups: Vec<&EtcdBackup> = backups
            .iter()
            .filter_map(|backup| backup.0.as_ref().ok())
            .filter(|backup| is_of(backup, schedule))
            .collect();
        let (jobs, pods) = (self.jobs(schedule), self.pods());
        let jobs: Vec<_> = jobs
            .iter()
            .map(|job| (job.as_ref(), outcome(job, pods.iter().map(AsRef::as_ref), now)))
            .collect();
        let decision = decide(Seen { schedule, backups: &backups, jobs: &jobs, now });
        match self.carry_out(schedule, &backups, &decision).await {
            Ok(outcome) => {
                for (warning, what) in decision.events {
                    self.tell(schedule, warning, what, now);
                }
                outcome
            }
            Err(error) => self.stopped(schedule, &decision, &error, now).await,
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
        if let Some(FirstWrite::Create(child)) = &decision.first {
            is_current(&schedules, schedule).await?;
            match children.create(child).await {
                // Created before a crash, and not yet in the cache: the time is used.
                Ok(_) | Err(WriteError::Exists) => {}
                Err(error) => return Err(error),
            }
        }
        let mut seen = schedule.clone();
        if schedule.status.as_ref() != Some(&decision.status) {
            seen = schedules.patch_status(schedule, status_patch(schedule, &decision.status)).await?;
        }
        controller.metrics.show(&self.root, &seen);
        match &decision.then {
            NextAct::Prune { names, floor } => {
                if let Some(floor) = floor
                    && !is_good(children.read(floor).await?.as_ref())
                {
                    // The cache is behind: the newest good one is gone, and what is older may be the last.
                    return Ok(Outcome::Waiting);
                }
                let used = self.used_by_restores();
                for name in names.iter().filter(|name| !used.contains(*name)).take(PRUNED) {
                    let Some(backup) = backups.iter().find(|backup| backup.name_any() == *name) else {
                        continue;
                    };
                    children.delete(backup).await?;
                    let text = format!("EtcdBackup {name} was deleted: no rule of spec.retention keeps it");
                    let what = Explanation::new(Reason::BackupPruned, text);
                    self.tell(schedule, false, what, controller.runtime.clock.now());
                }
                Ok(if names.iter().all(|name| used.contains(name)) {
                    Outcome::Degraded
                } else {
                    Outcome::Waiting
                })
            }
            NextAct::Test { order, etcd_version } => {
                is_current(&schedules, &seen).await?;
                let named = schedule.spec.backup_template.spec.source.cluster.as_ref();
                let cluster = named.and_then(|name| {
                    let at = NamespacedName::new(&self.root.namespace, name);
                    controller.clusters.get(&at).objects.remove(name)
                });
                let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
                let image = job::etcd_image(cluster, etcd_version, &controller.defaults);
                let name =
                    decision.status.test.as_ref().map(|test| test.job_name.clone()).unwrap_or_default();
                let made = job::verify(&seen, order, &name, &image, TEST_SECONDS, &controller.defaults);
                let made = job::with_pull_secrets(made, cluster);
                match jobs.create(&made).await {
                    Ok(_) | Err(WriteError::Exists) => Ok(Outcome::Waiting),
                    Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                        let now = runtime.clock.now();
                        let mut status = decision.status.clone();
                        let refused = Seen { schedule: &seen, backups, jobs: &[], now };
                        let why = verify::refused(refused, &mut status, &text);
                        schedules.patch_status(&seen, status_patch(&seen, &status)).await?;
                        self.tell(schedule, true, why, now);
                        Ok(Outcome::Waiting)
                    }
                    Err(error) => Err(error),
                }
            }
            NextAct::DeleteJob(name) => {
                let job =
                    self.jobs(schedule).into_iter().find(|job| job.metadata.name.as_ref() == Some(name));
                if let Some(job) = job.filter(|job| job.metadata.deletion_timestamp.is_none()) {
                    jobs.delete(&job).await?;
                }
                Ok(Outcome::Waiting)
            }
            NextAct::Wait(Some(until)) if until.0 - runtime.clock.now().0 < 30_000 => Ok(Outcome::Degraded),
            NextAct::Wait(_) => Ok(Outcome::Idle),
            NextAct::Edit => Ok(Outcome::UserMustEdit),
        }
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
                let seen = Seen { schedule, backups: &[], jobs: &[], now };
                let mut status = schedule.status.clone().unwrap_or_default();
                report::not_ready(seen, &mut status, &why);
                if schedule.status.as_ref() != Some(&status) {
                    let writer =
                        Writer::<EtcdBackupSchedule>::new(&self.controller.runtime, &self.root.namespace);
                    // If this fails, the next pass reports it.
                    let _ = writer.patch_status(schedule, status_patch(schedule, &status)).await;
                }
                self.tell(schedule, true, why, now);
                Outcome::Failed
            }
            (_, Retry::Failed) => {
                tracing::warn!(%error, "the pass ended before its act");
                let what = Explanation::new(Reason::WriteRefused, format!("a write failed: {error}"));
                self.tell(schedule, true, what, now);
                Outcome::Failed
            }
            (_, Retry::Now | Retry::Soon | Retry::Refused | Retry::Degraded) => Outcome::Waiting,
        }
    }

    fn tell(&mut self, schedule: &EtcdBackupSchedule, warning: bool, what: Explanation, at: Instant) {
        let notice = Notice { about: schedule.object_ref(&()), warning, what, at };
        self.controller.runtime.events.publish(&mut self.reported, notice);
    }

    /// The EtcdBackups that EtcdClusters of this namespace still begin with, and those that an EtcdRestore names which is not over.
    fn used_by_restores(&self) -> BTreeSet<String> {
        let clusters = &self.controller.clusters;
        let roots = clusters.roots().into_iter().filter(|root| root.namespace == self.root.namespace);
        let clusters = roots.filter_map(|root| clusters.get(&root).objects.remove(&root.name));
        let needed = |cluster: Arc<ReadCluster>| cluster.0.as_ref().ok()?.needs_backup().map(str::to_owned);
        let mut used: BTreeSet<String> = clusters.filter_map(needed).collect();
        let restores = self.controller.restores.in_namespace(&self.root.namespace);
        let named = restores.iter().filter_map(|restore| restore.0.as_ref().ok()?.needs_backup());
        used.extend(named.map(str::to_owned));
        used
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

/// Whether this incarnation of the schedule created the backup. A copy of one has its annotations under another name, and a time that was
/// still to come when it was created is not of the schedule either: neither may push what is into the ranks of what is deleted.
pub(super) fn is_of(backup: &EtcdBackup, schedule: &EtcdBackupSchedule) -> bool {
    let uid = backup.annotations().get(keys::SCHEDULE_UID);
    let created = backup.metadata.creation_timestamp.as_ref().map(|created| created.0.as_millisecond());
    let is_its_name = scheduled(backup).is_some_and(|due| {
        backup.name_any() == name(schedule, due) && created.is_none_or(|created| due.0 <= created + CLOCKS)
    });
    uid.is_some() && uid == schedule.metadata.uid.as_ref() && is_its_name
}

fn is_good(backup: Option<&EtcdBackup>) -> bool {
    backup.is_some_and(|backup| {
        backup.metadata.deletion_timestamp.is_none()
            && backup.status.as_ref().is_some_and(|status| status.result.is_some())
    })
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

/// A merge patch: what is absent now is removed.
fn status_patch(schedule: &EtcdBackupSchedule, status: &quorate_api::EtcdBackupScheduleStatus) -> Value {
    let mut patch = json!(status);
    if let (Value::Object(patch), Value::Object(before)) = (&mut patch, json!(schedule.status)) {
        for field in before.into_iter().map(|(field, _)| field) {
            patch.entry(field).or_insert(Value::Null);
        }
    }
    patch
}
