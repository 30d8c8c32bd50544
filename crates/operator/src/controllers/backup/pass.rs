//! The worker of one EtcdBackup: it reads the caches, asks `decide`, and writes.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, ResourceExt};
use quorate_api::backup::EtcdBackupStatus;
use quorate_api::backup::{BackupCondition, BackupPhase};
use quorate_api::{EtcdBackup, Explanation, Reason, keys};
use quorate_manifests::{backup, job};
use quorate_model::Instant;
use quorate_reconcile::{ReadCluster, Retry, WriteError};
use serde_json::json;

use super::decide::{Act, Decision, Seen, User, decide, has_finalizer, state};
use super::outcome::{JobOutcome, outcome};
use super::{BackupController, ending, queue, reach};
use crate::runtime::controller::{Pass, Worker};
use crate::runtime::events::{Notice, Reported};
use crate::runtime::pace::Outcome;
use crate::runtime::watch::NamespacedName;
use crate::runtime::write::Writer;

/// How long a removal may take.
const REMOVAL_SECONDS: i64 = 600;

/// Works on one EtcdBackup.
pub(crate) struct BackupWorker {
    controller: BackupController,
    root: NamespacedName,
    reported: Reported,
    /// The versions of the caches that the last pass saw.
    known: [u64; 4],
}

impl Worker for BackupWorker {
    fn has_changes(&mut self) -> bool {
        self.versions() != self.known
    }

    async fn pass(&mut self) -> Pass {
        self.known = self.versions();
        let cached = self.controller.backups.get(&self.root).objects.remove(&self.root.name);
        let Some(cached) = cached else { return Pass::Gone };
        match &cached.0 {
            Ok(backup) => Pass::Ended(self.work(backup).await),
            Err(error) => {
                tracing::error!(error = %error.error, "the EtcdBackup does not parse, so nothing is done");
                Pass::Ended(Outcome::UserMustEdit)
            }
        }
    }
}

impl BackupWorker {
    pub(super) fn new(controller: BackupController, root: NamespacedName) -> Self {
        Self { controller, root, reported: Reported::default(), known: [0; 4] }
    }

    async fn work(&mut self, backup: &EtcdBackup) -> Outcome {
        let now = self.controller.runtime.clock.now();
        let decision = self.decision(backup, now);
        let status_changes = Some(&decision.status) != backup.status.as_ref()
            && decision.status != EtcdBackupStatus::default();
        let mut seen = backup.clone();
        let writer = Writer::<EtcdBackup>::new(&self.controller.runtime, &self.root.namespace);
        if status_changes {
            match writer.patch_status(backup, status_patch(backup, &decision)).await {
                Ok(written) => seen = written,
                Err(error) => return self.stopped(backup, &error, now),
            }
        }
        if let Some((warning, what)) = decision.event.clone() {
            let notice = Notice { about: backup.object_ref(&()), warning, what, at: now };
            self.controller.runtime.events.publish(&mut self.reported, notice);
        }
        match self.carry_out(&seen, &decision).await {
            Ok(outcome) => outcome,
            Err(error) => self.refused(&seen, &decision.act, &error, now).await,
        }
    }

    fn decision(&self, backup: &EtcdBackup, now: Instant) -> Decision {
        let BackupController { backups, clusters, .. } = &self.controller;
        let (jobs, pods) = (self.jobs(backup), self.pods());
        let pods_of = || pods.iter().map(AsRef::as_ref);
        let jobs: Vec<(&Job, JobOutcome)> =
            jobs.iter().map(|job| (job.as_ref(), outcome(job, pods_of(), now))).collect();
        let running_pods = pods_of().filter(|pod| runs(pod) && is_of(pod, backup)).count();
        let cluster = self.cluster(backup);
        let cluster = cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok());
        let others: Vec<_> = if may_begin(backup) {
            let roots = backups.roots().into_iter().filter(|root| root.namespace == self.root.namespace);
            roots.filter_map(|root| backups.get(&root).objects.remove(&root.name)).collect()
        } else {
            Vec::new()
        };
        let others = others.iter().filter_map(|other| other.0.as_ref().ok());
        let waits_for = queue::blocker(backup, others, now).map(ResourceExt::name_any);
        let waits_for = waits_for.as_deref();
        let used_by = backup.metadata.deletion_timestamp.as_ref().and_then(|_| self.used_by(backup));
        let all: Vec<_> = if backup.spec.source.endpoints.is_some() {
            let roots = clusters.roots().into_iter();
            roots.filter_map(|root| clusters.get(&root).objects.remove(&root.name)).collect()
        } else {
            Vec::new()
        };
        let refusing = reach::refusing(backup, all.iter().filter_map(|cluster| cluster.0.as_ref().ok()));
        decide(Seen {
            backup,
            cluster,
            refusing,
            waits_for,
            jobs: &jobs,
            running_pods,
            used_by: used_by.as_ref(),
            now,
        })
    }

    async fn carry_out(&self, backup: &EtcdBackup, decision: &Decision) -> Result<Outcome, WriteError> {
        let BackupController { runtime, defaults, .. } = &self.controller;
        let backups = Writer::<EtcdBackup>::new(runtime, &self.root.namespace);
        let jobs = Writer::<Job>::new(runtime, &self.root.namespace);
        match &decision.act {
            Act::AddFinalizer => {
                backups.patch_metadata(backup, json!({ "finalizers": finalizers(backup, true) })).await?;
            }
            Act::RemoveFinalizer => {
                backups.patch_metadata(backup, json!({ "finalizers": finalizers(backup, false) })).await?;
            }
            Act::Backup { order, tls_secret, seconds } => {
                self.is_current(backup).await?;
                let attempt = decision.status.attempts;
                let made = job::backup(backup, order, tls_secret.as_deref(), attempt, *seconds, defaults);
                jobs.create(&self.with_pull_secrets(backup, made)).await?;
            }
            Act::Remove => {
                self.is_current(backup).await?;
                let order = backup::remove_order(backup);
                let made = job::remove(backup, &order, decision.status.removals, REMOVAL_SECONDS, defaults);
                jobs.create(&self.with_pull_secrets(backup, made)).await?;
            }
            Act::DeleteJob(name) => {
                let seen = self.jobs(backup).into_iter().find(|job| job.metadata.name.as_ref() == Some(name));
                match seen {
                    Some(job) if job.metadata.deletion_timestamp.is_none() => jobs.delete(&job).await?,
                    Some(_) | None => {}
                }
                return Ok(Outcome::Waiting);
            }
            Act::Wait(until) => return Ok(self.pace(*until)),
            Act::Rest => return Ok(Outcome::Idle),
        }
        Ok(Outcome::Acted)
    }

    /// The EtcdCluster that it names, if it exists.
    fn cluster(&self, backup: &EtcdBackup) -> Option<Arc<ReadCluster>> {
        let name = backup.spec.source.cluster.as_ref()?;
        let at = NamespacedName::new(&self.root.namespace, name);
        self.controller.clusters.get(&at).objects.remove(name)
    }

    fn with_pull_secrets(&self, backup: &EtcdBackup, made: Job) -> Job {
        let cluster = self.cluster(backup);
        job::with_pull_secrets(made, cluster.as_ref().and_then(|cluster| cluster.0.as_ref().ok()))
    }

    /// A Job is created only for the object as it is, and not for what an outdated cache has of it.
    async fn is_current(&self, backup: &EtcdBackup) -> Result<(), WriteError> {
        let writer = Writer::<EtcdBackup>::new(&self.controller.runtime, &self.root.namespace);
        match writer.read(&self.root.name).await? {
            Some(now) if now.metadata.resource_version == backup.metadata.resource_version => Ok(()),
            Some(_) => Err(WriteError::Changed("the EtcdBackup has changed".to_owned())),
            None => Err(WriteError::Missing("the EtcdBackup is gone".to_owned())),
        }
    }

    /// Waits in steps: a pass is cheap, and the clock may be set.
    fn pace(&self, until: Option<Instant>) -> Outcome {
        match until {
            Some(until) if until.0 <= self.controller.runtime.clock.now().0 => Outcome::Acted,
            Some(_) | None => Outcome::Degraded,
        }
    }

    /// The API server refuses an act. A Job that a quota or a policy refuses is reported in status.
    async fn refused(&mut self, backup: &EtcdBackup, act: &Act, error: &WriteError, now: Instant) -> Outcome {
        let is_job = matches!(act, Act::Backup { .. } | Act::Remove);
        let text = match error {
            WriteError::Forbidden(text) | WriteError::Invalid(text) if is_job => text,
            WriteError::Forbidden(_)
            | WriteError::Invalid(_)
            | WriteError::NotLeading
            | WriteError::Outdated
            | WriteError::Exists
            | WriteError::Changed(_)
            | WriteError::Missing(_)
            | WriteError::Blocked(_)
            | WriteError::Unknown(_) => return self.stopped(backup, error, now),
        };
        if matches!(act, Act::Remove) && ending::is_of_namespace_in_deletion(text) {
            return self.let_go(backup, now).await;
        }
        let mut text = format!("the API server refuses the Job: {text}");
        if matches!(act, Act::Remove) {
            text = format!("{text}. {}", ending::way_out());
        }
        let why = Explanation::new(Reason::WriteRefused, text);
        let before = backup.status.clone().unwrap_or_default();
        let phase = before.phase.unwrap_or(BackupPhase::Pending);
        let seen = Seen {
            backup,
            cluster: None,
            refusing: None,
            waits_for: None,
            jobs: &[],
            running_pods: 0,
            used_by: None,
            now,
        };
        let status = state(seen, before, phase, BackupCondition::Pending, &why);
        let decision = Decision { status, act: Act::Rest, event: None };
        let writer = Writer::<EtcdBackup>::new(&self.controller.runtime, &self.root.namespace);
        if backup.status.as_ref() != Some(&decision.status) {
            // If this fails, the next pass reports it.
            let _ = writer.patch_status(backup, status_patch(backup, &decision)).await;
        }
        self.stopped(backup, error, now)
    }

    /// The namespace is being deleted: the EtcdBackup goes without its object.
    async fn let_go(&mut self, backup: &EtcdBackup, now: Instant) -> Outcome {
        let writer = Writer::<EtcdBackup>::new(&self.controller.runtime, &self.root.namespace);
        let without = json!({ "finalizers": finalizers(backup, false) });
        if let Err(error) = writer.patch_metadata(backup, without).await {
            return self.stopped(backup, &error, now);
        }
        let what = ending::abandoned(backup, "with its namespace");
        tracing::warn!("{what}");
        let notice = Notice { about: backup.object_ref(&()), warning: true, what, at: now };
        self.controller.runtime.events.publish(&mut self.reported, notice);
        Outcome::Acted
    }

    fn stopped(&mut self, backup: &EtcdBackup, error: &WriteError, now: Instant) -> Outcome {
        match error.retry() {
            Retry::Failed => {
                let what = Explanation::new(Reason::WriteRefused, format!("a write failed: {error}"));
                tracing::warn!(%error, "the pass ended before its act");
                let notice = Notice { about: backup.object_ref(&()), warning: true, what, at: now };
                self.controller.runtime.events.publish(&mut self.reported, notice);
                Outcome::Failed
            }
            Retry::Now | Retry::Soon | Retry::Refused | Retry::Degraded => Outcome::Waiting,
        }
    }

    /// An EtcdCluster of this namespace that still begins with it, or an EtcdRestore that is not over.
    fn used_by(&self, backup: &EtcdBackup) -> Option<User> {
        let clusters = &self.controller.clusters;
        let roots = clusters.roots().into_iter().filter(|root| root.namespace == self.root.namespace);
        let mut clusters = roots.filter_map(|root| clusters.get(&root).objects.remove(&root.name));
        let needs = |cluster: &Arc<ReadCluster>| {
            let needed = cluster.0.as_ref().ok().and_then(|cluster| cluster.needs_backup());
            needed == backup.metadata.name.as_deref()
        };
        if let Some(cluster) = clusters.find(needs) {
            return Some(User::Cluster(cluster.name_any()));
        }
        // Without a result nothing can be restored from it: the two would wait for each other.
        backup.status.as_ref()?.result.as_ref()?;
        let restores = self.controller.restores.get(&self.root).objects.into_values();
        let mut pending = restores.filter(|restore| {
            restore.0.as_ref().is_ok_and(|restore| restore.needs_backup() == backup.metadata.name.as_deref())
        });
        pending.next().map(|restore| User::Restore(restore.name_any()))
    }

    /// The Jobs of this EtcdBackup. Those of an earlier one of its name go with that.
    fn jobs(&self, backup: &EtcdBackup) -> Vec<Arc<Job>> {
        let own = |job: &Arc<Job>| {
            let mut owners = job.metadata.owner_references.iter().flatten();
            owners.any(|owner| Some(&owner.uid) == backup.metadata.uid.as_ref())
        };
        self.controller.jobs.get(&self.root).objects.into_values().filter(own).collect()
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        self.controller.pods.get(&self.root).objects.into_values().collect()
    }

    fn versions(&self) -> [u64; 4] {
        let BackupController { backups, jobs, pods, restores, .. } = &self.controller;
        let root = &self.root;
        [backups.get(root).seen, jobs.get(root).seen, pods.get(root).seen, restores.get(root).seen]
    }
}

/// Whether the queue decides about it: only then the others are looked at.
fn may_begin(backup: &EtcdBackup) -> bool {
    let phase = backup.status.as_ref().and_then(|status| status.phase);
    has_finalizer(backup) && matches!(phase, None | Some(BackupPhase::Pending))
}

/// Whether a Pod is of a Job of this EtcdBackup, which may be gone already: the name of the Job has the uid. Any Pod may have the label, and
/// must not hold up the removal.
pub(super) fn is_of(pod: &Pod, backup: &EtcdBackup) -> bool {
    let uid = backup.metadata.uid.as_deref().unwrap_or_default();
    let names = [format!("backup-{uid}-"), format!("remove-backup-{uid}-")];
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Job" && names.iter().any(|name| owner.name.starts_with(name)))
}

fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    !matches!(phase, Some("Succeeded" | "Failed"))
}

/// A merge patch: what is absent now is removed.
fn status_patch(backup: &EtcdBackup, decision: &Decision) -> serde_json::Value {
    let mut patch = json!(decision.status);
    if let (serde_json::Value::Object(patch), serde_json::Value::Object(before)) =
        (&mut patch, json!(backup.status))
    {
        for field in before.into_iter().map(|(field, _)| field) {
            patch.entry(field).or_insert(serde_json::Value::Null);
        }
    }
    patch
}

fn finalizers(backup: &EtcdBackup, with_ours: bool) -> Vec<String> {
    let mut all: Vec<String> = backup.finalizers().to_vec();
    all.retain(|finalizer| finalizer != keys::BACKUP_FINALIZER);
    if with_ours {
        all.push(keys::BACKUP_FINALIZER.to_owned());
    }
    all
}
