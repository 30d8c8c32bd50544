//! The worker of one EtcdRestore: it reads the caches, asks `decide`, and writes.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource as _;
use quorate_api::job::ReadOrder;
use quorate_api::restore::EtcdRestoreStatus;
use quorate_api::{EtcdCluster, EtcdRestore, Explanation, Reason};
use quorate_manifests::job;
use quorate_reconcile::{Retry, WriteError};
use serde_json::{Value, json};

use super::RestoreController;
use super::decide::{Decision, Seen, decide, has_ended};
use super::reading::{self, NextAct};
use crate::controllers::backup::outcome;
use crate::runtime::controller::{Pass, Worker};
use crate::runtime::events::{Notice, Reported};
use crate::runtime::pace::Outcome;
use crate::runtime::watch::NamespacedName;
use crate::runtime::write::Writer;

/// How long a try to read the snapshot may take.
const READ_SECONDS: i64 = 3600;

/// Works on one EtcdRestore.
pub(crate) struct RestoreWorker {
    controller: RestoreController,
    root: NamespacedName,
    reported: Reported,
    /// The versions of the caches that the last pass saw.
    known: [u64; 3],
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
            Ok(restore) if restore.metadata.deletion_timestamp.is_some() => Pass::Ended(Outcome::Idle),
            Ok(restore) => Pass::Ended(self.work(restore).await),
            Err(error) => {
                tracing::error!(error = %error.error, "the EtcdRestore does not parse, so nothing is reported");
                Pass::Ended(Outcome::UserMustEdit)
            }
        }
    }
}

impl RestoreWorker {
    pub(super) fn new(controller: RestoreController, root: NamespacedName) -> Self {
        Self { controller, root, reported: Reported::default(), known: [0; 3] }
    }

    async fn work(&mut self, restore: &EtcdRestore) -> Outcome {
        let now = self.controller.runtime.clock.now();
        let at = NamespacedName::new(&self.root.namespace, &restore.spec.cluster_name);
        let cluster = self.controller.clusters.get(&at).objects.remove(&at.name);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let named = restore.spec.snapshot.backup_ref.as_ref().map(|backup| backup.name.clone());
        let backup = named.and_then(|name| {
            let at = NamespacedName::new(&self.root.namespace, &name);
            self.controller.backups.get(&at).objects.remove(&name)
        });
        let backup = backup.as_ref().and_then(|backup| backup.0.as_ref().ok());
        let jobs = self.jobs(restore);
        let pods: Vec<Arc<Pod>> = self.controller.pods.get(&self.root).objects.into_values().collect();
        let outcome_of = |job: &Arc<Job>| outcome(job, pods.iter().map(AsRef::as_ref), now);
        let jobs: Vec<_> = jobs.iter().map(|job| (job.as_ref(), outcome_of(job))).collect();
        let decision = decide(Seen { restore, cluster, backup, jobs: &jobs, now });
        match self.carry_out(restore, cluster, &decision).await {
            Ok(outcome) => {
                if let Some((warning, what)) = decision.event {
                    self.tell(restore, warning, what);
                }
                outcome
            }
            Err(error) => match error.retry() {
                Retry::Failed => {
                    let text = format!("a write for EtcdRestore {} failed: {error}", self.root.name);
                    tracing::warn!(text);
                    self.tell(restore, true, Explanation::new(Reason::WriteRefused, text));
                    Outcome::Failed
                }
                Retry::Now | Retry::Soon | Retry::Refused | Retry::Degraded => Outcome::Waiting,
            },
        }
    }

    async fn carry_out(
        &self,
        restore: &EtcdRestore,
        cluster: Option<&EtcdCluster>,
        decision: &Decision,
    ) -> Result<Outcome, WriteError> {
        let restores = Writer::<EtcdRestore>::new(&self.controller.runtime, &self.root.namespace);
        let jobs = Writer::<Job>::new(&self.controller.runtime, &self.root.namespace);
        let status = &decision.status;
        let mut seen = restore.clone();
        if restore.status.as_ref() != Some(status) {
            seen = restores.patch_status(restore, status_patch(restore, status)).await?;
        }
        match &decision.then {
            NextAct::Wait if has_ended(status) => Ok(Outcome::Idle),
            NextAct::Wait if status.reading.as_ref().is_some_and(|reading| reading.failed.is_some()) => {
                Ok(Outcome::Degraded)
            }
            NextAct::Wait => Ok(Outcome::Waiting),
            NextAct::Read { attempt, order } => {
                let Some(cluster) = cluster else { return Ok(Outcome::Waiting) };
                self.read(&seen, cluster, *attempt, order).await
            }
            NextAct::DeleteJob(name) => {
                let left =
                    self.jobs(restore).into_iter().find(|job| job.metadata.name.as_ref() == Some(name));
                if let Some(job) = left.filter(|job| job.metadata.deletion_timestamp.is_none()) {
                    jobs.delete(&job).await?;
                }
                Ok(Outcome::Waiting)
            }
        }
    }

    /// Creates the Job of a try. One that the API server refuses has failed.
    async fn read(
        &self,
        restore: &EtcdRestore,
        cluster: &EtcdCluster,
        attempt: u32,
        order: &ReadOrder,
    ) -> Result<Outcome, WriteError> {
        let runtime = &self.controller.runtime;
        let job = job::read(restore, cluster, order, attempt, READ_SECONDS, &self.controller.defaults);
        match Writer::<Job>::new(runtime, &self.root.namespace).create(&job).await {
            // Created before a crash, and not yet in the cache.
            Ok(_) | Err(WriteError::Exists) => Ok(Outcome::Waiting),
            Err(WriteError::Invalid(text) | WriteError::Forbidden(text)) => {
                let mut status = restore.status.clone().unwrap_or_default();
                reading::refused(&mut status, &text, runtime.clock.now());
                let restores = Writer::<EtcdRestore>::new(runtime, &self.root.namespace);
                restores.patch_status(restore, status_patch(restore, &status)).await?;
                Ok(Outcome::Waiting)
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

    fn versions(&self) -> [u64; 3] {
        let RestoreController { restores, jobs, pods, .. } = &self.controller;
        [restores.get(&self.root).seen, jobs.get(&self.root).seen, pods.get(&self.root).seen]
    }
}

/// A merge patch: what is absent now is removed.
fn status_patch(restore: &EtcdRestore, status: &EtcdRestoreStatus) -> Value {
    let mut patch = json!(status);
    if let (Value::Object(patch), Value::Object(before)) = (&mut patch, json!(restore.status)) {
        for field in before.into_iter().map(|(field, _)| field) {
            patch.entry(field).or_insert(Value::Null);
        }
    }
    patch
}
