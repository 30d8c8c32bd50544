//! The worker of one EtcdBackupSchedule: it reads the caches, asks `decide`, and writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::ResourceExt as _;
use quorate_api::{EtcdBackup, EtcdBackupSchedule, Explanation, Reason};
use quorate_manifests::job::{self, Terms};
use quorate_model::{Instant, Step};
use quorate_orders::gate::{Judge, Scene};
use quorate_orders::schedule::{
    self, Decision, FirstWrite, NextAct, Pruning, Seen, Sighting, decide_beside, is_of,
};
use quorate_reconcile::{ReadCluster, WriteError};

use super::ScheduleController;
use crate::controllers::desk::{Clerk, Desk, refused};
use crate::runtime::controller::Pass;
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
    desk: Desk<EtcdBackupSchedule>,
}

impl Clerk for ScheduleWorker {
    type Kind = EtcdBackupSchedule;

    fn desk(&mut self) -> &mut Desk<EtcdBackupSchedule> {
        &mut self.desk
    }

    fn beside(&self) -> u64 {
        self.controller.backups.get(&self.desk.root).seen
    }

    async fn work(&mut self, schedule: &EtcdBackupSchedule) -> Pass {
        // It owns nothing that is to be stopped: its backups stay, and the Job of a test goes with it.
        if schedule.metadata.deletion_timestamp.is_some() {
            return Pass::Ended(Outcome::Idle);
        }
        Pass::Ended(self.go_on(schedule).await)
    }
}

impl ScheduleWorker {
    pub(super) fn new(controller: ScheduleController, root: &NamespacedName) -> Self {
        let ScheduleController { runtime, kinds, owned, .. } = &controller;
        let desk = Desk::new(runtime, root, &kinds.schedules, owned.clone());
        Self { controller, desk }
    }

    async fn go_on(&mut self, schedule: &EtcdBackupSchedule) -> Outcome {
        let now = self.controller.runtime.clock.now();
        let backups: Vec<_> = self.controller.backups.get(&self.desk.root).objects.into_values().collect();
        let backups: Vec<&EtcdBackup> = backups
            .iter()
            .filter_map(|backup| backup.0.as_ref().ok())
            .filter(|backup| is_of(backup, schedule))
            .collect();
        let others = if schedule::is_listing(schedule) {
            self.controller.kinds.backups.in_namespace(&self.desk.root.namespace)
        } else {
            Vec::new()
        };
        let others: Vec<&EtcdBackup> = others.iter().filter_map(|backup| backup.0.as_ref().ok()).collect();
        let (jobs, pods) = (self.desk.jobs(schedule), self.desk.pods());
        let jobs = self.desk.outcomes(&jobs, &pods, now).await;
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
                    self.desk.tell(schedule, warning, what);
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
        let children = self.desk.writer::<EtcdBackup>();
        self.desk.is_current(schedule).await?;
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
        if !decision.records.is_empty() {
            self.desk.is_current(schedule).await?;
        }
        for record in &decision.records {
            // One that was created before, and by whom ever, is left as it is.
            if let Some(text) = refused(self.desk.writer().create(Step::Y8, record).await)? {
                let what = format!("EtcdBackup {}", record.name_any());
                return self.list_refused(schedule, &what, &text).await;
            }
        }
        for sighting in &decision.sightings {
            record(&self.desk.writer(), backups, sighting, runtime.clock.now()).await?;
        }
        let mut seen = schedule.clone();
        if schedule.status.as_ref() != Some(&decision.status) {
            seen = self.desk.write_status(Step::Y3, schedule, &decision.status).await?;
        }
        controller.metrics.show(&self.desk.root, &seen);
        let cluster = self.cluster(schedule);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let terms = |seconds| Terms { seconds, cluster, defaults: &controller.defaults };
        match &decision.then {
            NextAct::Prune(pruned) => self.prune(&seen, decision, backups, pruned).await,
            NextAct::Test { order, etcd_version } => {
                self.desk.is_current(&seen).await?;
                let image = job::etcd_image(cluster, etcd_version, &controller.defaults);
                let name =
                    decision.status.test.as_ref().map(|test| test.job_name.clone()).unwrap_or_default();
                let made = job::verify(&seen, order, &name, &image, terms(TEST_SECONDS));
                if let Some(text) = self.desk.create_job(Step::Y4, &made).await? {
                    let now = runtime.clock.now();
                    let mut status = decision.status.clone();
                    let refused = Seen { schedule: &seen, backups, others: &[], jobs: &[], clock: None, now };
                    let why = schedule::refused(refused, &mut status, &text);
                    self.desk.write_status(Step::Y3, &seen, &status).await?;
                    self.desk.tell(schedule, true, why);
                }
                Ok(Outcome::Waiting)
            }
            NextAct::Look { order, job_template } => {
                self.desk.is_current(&seen).await?;
                let name = decision.status.look.as_ref().map(|look| look.job_name.clone());
                let (name, template) = (name.unwrap_or_default(), job_template.as_deref().cloned());
                let reads = order.objects.iter().filter(|object| object.read).map(|object| object.bytes);
                let seconds =
                    LOOK_SECONDS + i64::try_from(reads.sum::<u64>() / READ_RATE).unwrap_or(i64::MAX / 2);
                let made = job::look(&seen, order, template, &name, terms(seconds));
                if let Some(text) = self.desk.create_job(Step::Y5, &made).await? {
                    let mut status = decision.status.clone();
                    schedule::look_refused(&mut status, &text, runtime.clock.now());
                    self.desk.write_status(Step::Y3, &seen, &status).await?;
                }
                Ok(Outcome::Waiting)
            }
            NextAct::List { attempt, order } => {
                self.desk.is_current(&seen).await?;
                let made = job::list(&seen, order, *attempt, terms(LIST_SECONDS));
                match self.desk.create_job(Step::Y9, &made).await? {
                    Some(text) => self.list_refused(&seen, "the Job", &text).await,
                    None => Ok(Outcome::Waiting),
                }
            }
            NextAct::DeleteJob(name) => {
                if let Some(job) = self.desk.job(schedule, name) {
                    self.desk.writer().delete(Step::Y6, job.as_ref()).await?;
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
        let mut status = schedule.status.clone().unwrap_or_default();
        schedule::catalog_refused(&mut status, what, text, self.desk.runtime.clock.now());
        self.desk.write_status(Step::Y3, schedule, &status).await?;
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
        let used = self.used_by_restores(backups);
        let (now, clock) = (runtime.clock.now(), runtime.api_clock.difference());
        let mut judge =
            Judge::of(Scene { schedule, status: &decision.status, backups, used: &used, clock, now });
        let mut deleted = 0;
        for Pruning { name, keeper } in pruned {
            let Some(backup) = backups.iter().find(|backup| backup.name_any() == *name) else { continue };
            self.desk.is_current(schedule).await?;
            let stays = match keeper {
                Some(keeper) => self.desk.writer::<EtcdBackup>().read(keeper).await?,
                None => None,
            };
            judge.see(runtime.api_clock.difference(), self.used_by_restores(backups));
            if let Err(why) = judge.may_prune(backup, stays.as_ref()) {
                tracing::info!("EtcdBackup {name} is not deleted now: {}", why.name());
                continue;
            }
            self.desk.writer().delete(Step::Y7, *backup).await?;
            let text = format!("EtcdBackup {name} was deleted: no rule of spec.retention keeps it");
            self.desk.tell(schedule, false, Explanation::new(Reason::BackupPruned, text));
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
        match error {
            WriteError::Invalid(text) | WriteError::Forbidden(text) if decision.first.is_some() => {
                let text = format!("the API server refuses the EtcdBackup: {text}");
                let why = Explanation::new(Reason::TemplateRefused, text);
                let seen = Seen { schedule, backups: &[], others: &[], jobs: &[], clock: None, now };
                let mut status = schedule.status.clone().unwrap_or_default();
                schedule::not_ready(seen, &mut status, &why);
                if schedule.status.as_ref() != Some(&status) {
                    // If this fails, the next pass reports it.
                    let _ = self.desk.write_status(Step::Y3, schedule, &status).await;
                }
                self.desk.tell(schedule, true, why);
                Outcome::Failed
            }
            error => self.desk.stopped(schedule, error),
        }
    }

    /// The EtcdCluster that the schedule is of.
    fn cluster(&self, schedule: &EtcdBackupSchedule) -> Option<Arc<ReadCluster>> {
        let name = schedule.spec.backup_template.spec.source.cluster.as_ref()?;
        self.controller.kinds.cluster(&self.desk.root.namespace, name)
    }

    /// Those of these EtcdBackups that an EtcdCluster still begins with, or that an EtcdRestore needs which is not over: of any namespace, by
    /// name or by the object.
    fn used_by_restores(&self, backups: &[&EtcdBackup]) -> BTreeSet<String> {
        let (clusters, restores) =
            (self.controller.kinds.clusters.all(), self.controller.kinds.restores.all());
        let of_clusters = clusters.iter().filter_map(|cluster| cluster.0.as_ref().ok()?.needs());
        let of_restores = restores.iter().filter_map(|restore| restore.0.as_ref().ok()?.needs());
        let needed: Vec<_> = of_clusters.chain(of_restores).collect();
        let object = |namespace: &str, name: &str| self.controller.kinds.stands_for(namespace, name);
        let is_used = |backup: &&&EtcdBackup| needed.iter().any(|needed| needed.is(backup, object));
        backups.iter().filter(is_used).map(|backup| backup.name_any()).collect()
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
