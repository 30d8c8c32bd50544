//! The controller of EtcdBackups. Each pass: observe -> decide -> status -> one act.
//!
//! - `decide`: what is next, as a pure function of what is observed; `ending`: the same while the object is being deleted
//! - `queue`: one backup of a cluster at a time; `reach`: whose etcd endpoints are; `outcome`: what the Job of an attempt has come to
//! - `conditions`: the conditions of its status; `pass`: the worker, which reads and writes

mod conditions;
mod decide;
mod ending;
mod outcome;
mod pass;
mod queue;
mod reach;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use quorate_api::{EtcdBackup, EtcdRestore, keys};
use quorate_manifests::Defaults;
use quorate_reconcile::ReadCluster;

use crate::runtime::controller::{Controller, Runtime};
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};
use pass::BackupWorker;

pub(super) use conditions::{ConditionValue, set};
pub(super) use outcome::{JobOutcome, outcome};

/// An EtcdBackup, or why it cannot be read: one that a newer operator wrote must not stop the watch.
pub(super) type ReadBackup = DeserializeGuard<EtcdBackup>;

/// An EtcdRestore, or why it cannot be read.
pub(super) type ReadRestore = DeserializeGuard<EtcdRestore>;

/// The controller of EtcdBackups.
#[derive(Clone)]
pub(crate) struct BackupController {
    runtime: Runtime,
    defaults: Arc<Defaults>,
    backups: Index<ReadBackup>,
    jobs: Index<Job>,
    pods: Index<Pod>,
    clusters: Index<ReadCluster>,
    /// The orders to restore in place, by the EtcdBackup that they name.
    restores: Index<ReadRestore>,
}

impl BackupController {
    /// The controller. `clusters` is the cache of EtcdClusters that their own controller fills.
    pub(crate) fn new(runtime: &Runtime, defaults: Arc<Defaults>, clusters: Index<ReadCluster>) -> Self {
        let (backups, jobs, pods) = (Index::default(), Index::default(), Index::default());
        let restores = Index::default();
        Self { runtime: runtime.clone(), defaults, backups, jobs, pods, clusters, restores }
    }

    /// The cache of EtcdRestores, by the EtcdBackup that they name.
    pub(super) fn restores(&self) -> &Index<ReadRestore> {
        &self.restores
    }
}

impl Controller for BackupController {
    type Root = ReadBackup;
    type Worker = BackupWorker;
    const NAME: &'static str = "backup";

    fn roots(&self) -> &Index<ReadBackup> {
        &self.backups
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        let labelled = Config::default().labels(keys::BACKUP);
        watches.add(&Config::default(), &self.backups, itself);
        watches.add(&labelled, &self.jobs, by_label);
        watches.add(&labelled, &self.pods, by_label);
        watches.add_by(&Config::default(), &self.restores, by_backup);
    }

    fn worker(&self, root: &NamespacedName) -> BackupWorker {
        BackupWorker::new(self.clone(), root.clone())
    }

    fn forget(&self, root: &NamespacedName) {
        self.backups.remove_if_empty(root);
        self.jobs.remove_if_empty(root);
        self.pods.remove_if_empty(root);
        self.restores.remove_if_empty(root);
    }
}

fn by_label(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(keys::BACKUP)?))
}

/// The EtcdBackup that an EtcdRestore names.
fn by_backup(restore: &ReadRestore) -> Option<NamespacedName> {
    let named = restore.0.as_ref().ok()?.spec.snapshot.backup_ref.as_ref()?;
    Some(NamespacedName::new(restore.meta().namespace.as_ref()?, &named.name))
}
