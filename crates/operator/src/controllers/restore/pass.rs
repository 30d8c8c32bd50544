//! The worker of one EtcdRestore: it reads the caches, asks `decide`, and writes.

use k8s_openapi::api::batch::v1::Job;
use quorate_api::restore::EtcdRestoreStatus;
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, Explanation, Reason};
use quorate_manifests::job::{self, Terms};
use quorate_model::{Instant, Span, Step};
use quorate_orders::restore::{self, Decision, NextAct, Seen, decide, has_ended};
use quorate_reconcile::WriteError;

use super::RestoreController;
use crate::controllers::desk::{Clerk, Desk, refused};
use crate::runtime::controller::Pass;
use crate::runtime::pace::Outcome;
use crate::runtime::watch::NamespacedName;

/// How long a try to read the snapshot may take.
const READ_SECONDS: i64 = 3600;

/// How long after a status that was not stored whole it is written again.
const TRIED_AGAIN: Span = Span::seconds(300);

/// Works on one EtcdRestore.
pub(crate) struct RestoreWorker {
    controller: RestoreController,
    desk: Desk<EtcdRestore>,
    /// The status that an older CustomResourceDefinition did not store whole, and when it was written.
    not_stored: Option<(EtcdRestoreStatus, Instant)>,
}

impl Clerk for RestoreWorker {
    type Kind = EtcdRestore;

    fn desk(&mut self) -> &mut Desk<EtcdRestore> {
        &mut self.desk
    }

    fn beside(&self) -> u64 {
        self.controller.own_backups.get(&self.desk.root).seen
    }

    async fn work(&mut self, restore: &EtcdRestore) -> Pass {
        if restore.metadata.deletion_timestamp.is_some() {
            // The Jobs that it owns go with it.
            return Pass::AtRest;
        }
        // R23: its times are of objects, and so of the API server.
        let now = self.controller.runtime.api_clock.api_servers_time();
        let namespace = &self.desk.root.namespace;
        let cluster = self.controller.kinds.cluster(namespace, &restore.spec.cluster_name);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let named = restore.spec.snapshot.backup_name(&restore.metadata);
        let backup = named.and_then(|name| {
            let at = NamespacedName::new(namespace, &name);
            self.controller.kinds.backups.get(&at).objects.remove(&name)
        });
        let backup = backup.as_ref().and_then(|backup| backup.0.as_ref().ok());
        let backups = self.controller.kinds.backups.in_namespace(namespace);
        let backups: Vec<_> = backups.iter().filter_map(|backup| backup.0.as_ref().ok()).collect();
        let (jobs, pods) = (self.desk.jobs(restore), self.desk.pods());
        let jobs = self.desk.outcomes(&jobs, &pods, now).await;
        let decision = decide(Seen { restore, cluster, backup, backups: &backups, jobs: &jobs, now });
        match Box::pin(self.carry_out(restore, cluster, &decision, now)).await {
            // It is reported already.
            Ok(Pass::Ended(Outcome::UserMustEdit)) => Pass::Ended(Outcome::UserMustEdit),
            Ok(pass) => {
                if let Some((warning, what)) = decision.event {
                    self.desk.tell(restore, warning, what);
                }
                pass
            }
            Err(error) => Pass::Ended(self.desk.stopped(restore, &error)),
        }
    }
}

impl RestoreWorker {
    pub(super) fn new(controller: RestoreController, root: &NamespacedName) -> Self {
        let RestoreController { runtime, kinds, owned, .. } = &controller;
        let desk = Desk::new(runtime, root, &kinds.restores, owned.clone());
        Self { controller, desk, not_stored: None }
    }

    async fn carry_out(
        &mut self,
        restore: &EtcdRestore,
        cluster: Option<&EtcdCluster>,
        decision: &Decision,
        now: Instant,
    ) -> Result<Pass, WriteError> {
        let status = &decision.status;
        let mut seen = restore.clone();
        let tried = self.not_stored.as_ref().filter(|(tried, at)| tried == status && now - *at < TRIED_AGAIN);
        let is_tried = tried.is_some();
        if restore.status.as_ref() != Some(status) && !is_tried {
            seen = self.desk.write_status(Step::X1, restore, status).await?;
            let is_stored =
                serde_json::to_value(&seen.status).ok() == serde_json::to_value(Some(status)).ok();
            self.not_stored = (!is_stored).then(|| (status.clone(), now));
        }
        if !has_ended(status) && !has_backup(&seen, status) {
            if !is_tried {
                self.report_not_stored(&seen, now).await?;
            }
            return Ok(Pass::Ended(Outcome::UserMustEdit));
        }
        let outcome = match &decision.then {
            NextAct::Wait if has_ended(status) && seen.status.as_ref() == Some(status) => {
                return Ok(Pass::AtRest);
            }
            // It is written again after some time.
            NextAct::Wait if has_ended(status) => Outcome::Idle,
            NextAct::Wait if status.reading.as_ref().is_some_and(|reading| reading.failed.is_some()) => {
                Outcome::Degraded
            }
            NextAct::Wait => Outcome::Waiting,
            NextAct::Read { attempt, order } => {
                if cluster.is_none() {
                    return Ok(Pass::Ended(Outcome::Waiting));
                }
                let terms = Terms::new(READ_SECONDS, cluster, &self.controller.defaults);
                let job = job::read(&seen, order, *attempt, terms);
                self.create(&seen, &job).await?
            }
            NextAct::Backup(backup) => self.back_up(&seen, backup).await?,
            NextAct::DeleteJob(name) => {
                if let Some(job) = self.desk.job(restore, name) {
                    self.desk.writer().delete(Step::X3, job.as_ref()).await?;
                }
                Outcome::Waiting
            }
        };
        Ok(Pass::Ended(outcome))
    }

    /// Says that what is recorded of the backup is not stored.
    async fn report_not_stored(&mut self, seen: &EtcdRestore, now: Instant) -> Result<(), WriteError> {
        let mut status = seen.status.clone().unwrap_or_default();
        let why = restore::backup_not_stored(seen, &mut status, now);
        if seen.status.as_ref() != Some(&status) {
            self.desk.write_status(Step::X1, seen, &status).await?;
        }
        self.desk.tell(seen, true, why);
        Ok(())
    }

    /// Creates the Job of a try. One that the API server refuses has failed.
    async fn create(&self, restore: &EtcdRestore, job: &Job) -> Result<Outcome, WriteError> {
        if let Some(text) = self.desk.create_job(Step::X2, job).await? {
            let mut status = restore.status.clone().unwrap_or_default();
            restore::refused(&mut status, &text, self.desk.runtime.clock.now());
            self.desk.write_status(Step::X1, restore, &status).await?;
        }
        Ok(Outcome::Waiting)
    }

    /// Creates the EtcdBackup of the data that are given up, or of the object that is restored. One that the API server refuses is reported, and tried again.
    async fn back_up(&mut self, restore: &EtcdRestore, backup: &EtcdBackup) -> Result<Outcome, WriteError> {
        let Some(text) = refused(self.desk.writer().create(Step::X4, backup).await)? else {
            return Ok(Outcome::Waiting);
        };
        let mut status = restore.status.clone().unwrap_or_default();
        let before = status.backup_before.as_ref().map(|taken| &taken.name);
        if before.is_some() && before == backup.metadata.name.as_ref() {
            restore::backup_refused(restore, &mut status, &text);
        }
        if restore.status.as_ref() != Some(&status) {
            self.desk.write_status(Step::X1, restore, &status).await?;
        }
        let name = backup.metadata.name.as_deref().unwrap_or_default();
        let text = format!("EtcdBackup {name} is refused: {text}");
        self.desk.tell(restore, true, Explanation::new(Reason::WriteRefused, text));
        Ok(Outcome::Degraded)
    }
}

/// Whether what was recorded of the backup of what is given up was stored.
fn has_backup(stored: &EtcdRestore, status: &EtcdRestoreStatus) -> bool {
    let stored = stored.status.as_ref().and_then(|stored| stored.backup_before.as_ref());
    status.backup_before.is_none()
        || stored
            .is_some_and(|stored| Some(&stored.name) == status.backup_before.as_ref().map(|one| &one.name))
}
