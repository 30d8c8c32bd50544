//! The controller of EtcdBackups. Each pass: observe -> decide -> status -> one act.
//!
//! What is next is decided by [`quorate_orders::backup`]. `pass`: the worker, which reads and writes; `metrics`.

mod metrics;
mod pass;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use prometheus_client::registry::Registry;
use quorate_api::{EtcdBackup, keys};
use quorate_manifests::Defaults;
use quorate_orders::backup::Bound;
use quorate_reconcile::ReadCluster;

use super::restore::ReadRestore;
use super::user::ReadUser;
use crate::runtime::controller::{Controller, Runtime};
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};
#[cfg(test)]
pub(super) use metrics::example as example_metrics;
use metrics::{Counts, Durations};
use pass::BackupWorker;

/// An EtcdBackup, or why it cannot be read: one that a newer operator wrote must not stop the watch.
pub(super) type ReadBackup = DeserializeGuard<EtcdBackup>;

/// The SHA-256 of the object that an EtcdBackup stands for.
pub(super) fn stands_for(backups: &Index<ReadBackup>, namespace: &str, name: &str) -> Option<String> {
    let found = backups.get(&NamespacedName::new(namespace, name)).objects.remove(name)?;
    found.0.as_ref().ok()?.stands_for().map(str::to_owned)
}

/// The controller of EtcdBackups.
#[derive(Clone)]
pub(crate) struct BackupController {
    runtime: Runtime,
    defaults: Arc<Defaults>,
    backups: Index<ReadBackup>,
    /// The same ones, by what they are taken of: one waits for others of the same etcd.
    by_source: Index<ReadBackup>,
    jobs: Index<Job>,
    pods: Index<Pod>,
    clusters: Index<ReadCluster>,
    users: Index<ReadUser>,
    all_restores: Index<ReadRestore>,
    /// The orders to restore in place, by the EtcdBackup that they name.
    restores: Index<ReadRestore>,
    bound: Arc<Mutex<Bound>>,
    durations: Durations,
}

impl BackupController {
    /// The controller, its metrics registered. `backups` is the cache that it fills, `by_source` the index of it that the controller of
    /// EtcdClusters keeps, `clusters`, `users` and `all_restores` those of other kinds, which their own controllers fill; `most` backups may run at a time over all clusters, any number if it is 0.
    pub(crate) fn new(
        runtime: &Runtime,
        registry: &mut Registry,
        defaults: Arc<Defaults>,
        (backups, by_source): (Index<ReadBackup>, Index<ReadBackup>),
        (clusters, users, all_restores): (Index<ReadCluster>, Index<ReadUser>, Index<ReadRestore>),
        most: usize,
    ) -> Self {
        let (jobs, pods) = (Index::default(), Index::default());
        let restores = Index::default();
        registry.register_collector(Box::new(Counts(backups.clone())));
        let bound = Arc::new(Mutex::new(Bound::new(most)));
        let durations = Durations::new(registry);
        let runtime = runtime.clone();
        Self {
            runtime,
            defaults,
            backups,
            by_source,
            jobs,
            pods,
            clusters,
            users,
            all_restores,
            restores,
            bound,
            durations,
        }
    }

    /// The bound on backups over all clusters. It is held for no await.
    fn bound(&self) -> MutexGuard<'_, Bound> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
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
        watches.add_cut(&Config::default(), &self.backups, itself, cut);
        watches.add(&labelled, &self.jobs, by_label);
        watches.add(&labelled, &self.pods, by_label);
        watches.follow(&self.all_restores, &self.restores, by_backup);
    }

    fn worker(&self, root: &NamespacedName) -> BackupWorker {
        BackupWorker::new(self.clone(), root.clone())
    }

    fn has_ended(&self, backup: &ReadBackup) -> bool {
        backup.0.as_ref().is_ok_and(quorate_orders::backup::has_ended)
    }

    fn forget(&self, root: &NamespacedName) {
        self.backups.remove_if_empty(root);
        self.jobs.remove_if_empty(root);
        self.pods.remove_if_empty(root);
        self.restores.remove_if_empty(root);
    }
}

fn cut(backup: &mut ReadBackup) {
    if let Ok(backup) = &mut backup.0 {
        quorate_orders::backup::cut(backup);
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
