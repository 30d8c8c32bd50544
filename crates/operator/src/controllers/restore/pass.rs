//! The worker of one EtcdRestore: it reads the caches, asks `decide`, and writes.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use quorate_api::restore::EtcdRestoreStatus;
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, Explanation, Reason};
use quorate_manifests::job::{self, Terms};
use quorate_model::{Instant, Span, Step};
use quorate_orders::restore::{self, Decision, NextAct, Seen, decide, has_ended};
use quorate_reconcile::{Retry, WriteError};

use super::RestoreController;
use crate::controllers::accepted;
use crate::controllers::refusal::outcomes;
use crate::controllers::said::Said;
use crate::runtime::controller::{Pass, Worker};
use crate::runtime::events::{Notice, Reported};
use crate::runtime::pace::Outcome;
use crate::runtime::watch::NamespacedName;
use crate::runtime::write::{Writer, status_patch};

/// How long a try to read the snapshot may take.
const READ_SECONDS: i64 = 3600;

/// How long after a status that was not stored whole it is written again.
const TRIED_AGAIN: Span = Span::seconds(300);

/// Works on one EtcdRestore.
pub(crate) struct RestoreWorker {
    controller: RestoreController,
    root: NamespacedName,
    reported: Reported,
    said: Said,
    /// The status that an older CustomResourceDefinition did not store whole, and when it was written.
    not_stored: Option<(EtcdRestoreStatus, Instant)>,
    /// The versions of the caches that the last pass saw.
    known: [u64; 4],
}

impl Worker for RestoreWorker {
    fn has_changes(&mut self) -> bool {
        self.versions() != self.known
    }

    async fn pass(&mut self) -> Pass {
        self.known = self.versions();
        let cached = self.controller.restores.get(&self.root).objects.remove(&self.root.name);
        let Some(cached) = cached else { return Pass::Gone };
        match &cached.0 {
            // The Jobs that it owns go with it.
            Ok(restore) if restore.metadata.deletion_timestamp.is_some() => Pass::AtRest,
            Ok(restore) => Box::pin(self.work(restore)).await,
            Err(error) => {
                tracing::error!(error = %error.error, "the EtcdRestore does not parse, so nothing is reported");
                Pass::Ended(Outcome::UserMustEdit)
            }
        }
    }
}

impl RestoreWorker {
    pub(super) fn new(controller: RestoreController, root: NamespacedName) -> Self {
        let (reported, said) = (Reported::default(), Said::default());
        Self { controller, root, reported, said, not_stored: None, known: [0; 4] }
    }

    async fn work(&mut self, restore: &EtcdRestore) -> Pass {
        // R23: its times are of objects, and so of the API server.
        let now = self.controller.runtime.api_clock.api_servers_time();
        let at = NamespacedName::new(&self.root.namespace, &restore.spec.cluster_name);
        let cluster = self.controller.clusters.get(&at).objects.remove(&at.name).map(accepted);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let named = restore.spec.snapshot.backup_name(&restore.metadata);
        let backup = named.and_then(|name| {
            let at = NamespacedName::new(&self.root.namespace, &name);
            self.controller.backups.get(&at).objects.remove(&name)
        });
        let backup = backup.as_ref().and_then(|backup| backup.0.as_ref().ok());
        let backups = self.controller.backups.in_namespace(&self.root.namespace);
        let backups: Vec<_> = backups.iter().filter_map(|backup| backup.0.as_ref().ok()).collect();
        let jobs = self.jobs(restore);
        let pods: Vec<Arc<Pod>> = self.controller.pods.get(&self.root).objects.into_values().collect();
        let jobs = outcomes(&self.controller.runtime, &self.said, &jobs, &pods, now).await;
        let decision = decide(Seen { restore, cluster, backup, backups: &backups, jobs: &jobs, now });
        match Box::pin(self.carry_out(restore, cluster, &decision, now)).await {
            // It is reported already.
            Ok(Pass::Ended(Outcome::UserMustEdit)) => Pass::Ended(Outcome::UserMustEdit),
            Ok(pass) => {
                if let Some((warning, what)) = decision.event {
                    self.tell(restore, warning, what);
                }
                pass
            }
            Err(error) => Pass::Ended(match error.retry() {
                retry @ (Retry::Failed | Retry::Unanswered) => {
                    let text = format!("a write for EtcdRestore {} failed: {error}", self.root.name);
                    tracing::warn!(text);
                    self.tell(restore, true, Explanation::new(Reason::WriteRefused, text));
                    retry.into()
                }
                retry @ Retry::Throttled(_) => retry.into(),
                Retry::Now | Retry::Soon | Retry::Refused | Retry::Degraded => Outcome::Waiting,
            }),
        }
    }

    async fn carry_out(
        &mut self,
        restore: &EtcdRestore,
        cluster: Option<&EtcdCluster>,
        decision: &Decision,
        now: Instant,
    ) -> Result<Pass, WriteError> {
        let jobs = Writer::<Job>::new(&self.controller.runtime, &self.root.namespace);
        let status = &decision.status;
        let mut seen = restore.clone();
        let tried = self.not_stored.as_ref().filter(|(tried, at)| tried == status && now - *at < TRIED_AGAIN);
        let is_tried = tried.is_some();
        if restore.status.as_ref() != Some(status) && !is_tried {
            seen = self.record(restore, status).await?;
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
                let left =
                    self.jobs(restore).into_iter().find(|job| job.metadata.name.as_ref() == Some(name));
                if let Some(job) = left.filter(|job| job.metadata.deletion_timestamp.is_none()) {
                    jobs.delete(Step::X3, &job).await?;
                }
                Outcome::Waiting
            }
        };
        Ok(Pass::Ended(outcome))
    }

    /// Writes this status; returns the order as it is stored.
    async fn record(
        &self,
        seen: &EtcdRestore,
        status: &EtcdRestoreStatus,
    ) -> Result<EtcdRestore, WriteError> {
        let restores = Writer::<EtcdRestore>::new(&self.controller.runtime, &self.root.namespace);
        restores.patch_status(Step::X1, seen, status_patch(seen.status.as_ref(), status)).await
    }

    /// Says that what is recorded of the backup is not stored.
    async fn report_not_stored(&mut self, seen: &EtcdRestore, now: Instant) -> Result<(), WriteError> {
        let mut status = seen.status.clone().unwrap_or_default();
        let why = restore::backup_not_stored(seen, &mut status, now);
        if seen.status.as_ref() != Some(&status) {
            self.record(seen, &status).await?;
        }
        self.tell(seen, true, why);
        Ok(())
    }

    /// Creates the Job of a try. One that the API server refuses has failed.
    async fn create(&self, restore: &EtcdRestore, job: &Job) -> Result<Outcome, WriteError> {
        let runtime = &self.controller.runtime;
        match Writer::<Job>::new(runtime, &self.root.namespace).create_admitted(Step::X2, job).await {
            // Created before a crash, and not yet in the cache.
            Ok(_) | Err(WriteError::Exists) => Ok(Outcome::Waiting),
            Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                let mut status = restore.status.clone().unwrap_or_default();
                restore::refused(&mut status, &text, runtime.clock.now());
                self.record(restore, &status).await?;
                Ok(Outcome::Waiting)
            }
            Err(error) => Err(error),
        }
    }

    /// Creates the EtcdBackup of the data that are given up, or of the object that is restored. One that the API server refuses is reported, and tried again.
    async fn back_up(&mut self, restore: &EtcdRestore, backup: &EtcdBackup) -> Result<Outcome, WriteError> {
        let runtime = &self.controller.runtime;
        match Writer::<EtcdBackup>::new(runtime, &self.root.namespace).create(Step::X4, backup).await {
            // Created before a crash, and not yet in the cache.
            Ok(_) | Err(WriteError::Exists) => Ok(Outcome::Waiting),
            Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                let mut status = restore.status.clone().unwrap_or_default();
                let before = status.backup_before.as_ref().map(|taken| &taken.name);
                if before.is_some() && before == backup.metadata.name.as_ref() {
                    restore::backup_refused(restore, &mut status, &text);
                }
                if restore.status.as_ref() != Some(&status) {
                    self.record(restore, &status).await?;
                }
                let name = backup.metadata.name.as_deref().unwrap_or_default();
                let text = format!("EtcdBackup {name} is refused: {text}");
                self.tell(restore, true, Explanation::new(Reason::WriteRefused, text));
                Ok(Outcome::Degraded)
            }
            Err(error) => Err(error),
        }
    }

    fn tell(&mut self, restore: &EtcdRestore, warning: bool, what: Explanation) {
        let at = self.controller.runtime.clock.now();
        let notice = Notice { about: restore.object_ref(&()), warning, what, at };
        self.controller.runtime.events.publish(&mut self.reported, notice);
    }

    fn jobs(&self, restore: &EtcdRestore) -> Vec<Arc<Job>> {
        let own = |job: &Arc<Job>| {
            let mut owners = job.metadata.owner_references.iter().flatten();
            owners.any(|owner| Some(&owner.uid) == restore.metadata.uid.as_ref())
        };
        self.controller.jobs.get(&self.root).objects.into_values().filter(own).collect()
    }

    fn versions(&self) -> [u64; 4] {
        let RestoreController { restores, jobs, pods, own_backups, .. } = &self.controller;
        let root = &self.root;
        [restores.get(root).seen, jobs.get(root).seen, pods.get(root).seen, own_backups.get(root).seen]
    }
}

/// Whether what was recorded of the backup of what is given up was stored.
fn has_backup(stored: &EtcdRestore, status: &EtcdRestoreStatus) -> bool {
    let stored = stored.status.as_ref().and_then(|stored| stored.backup_before.as_ref());
    status.backup_before.is_none()
        || stored
            .is_some_and(|stored| Some(&stored.name) == status.backup_before.as_ref().map(|one| &one.name))
}
