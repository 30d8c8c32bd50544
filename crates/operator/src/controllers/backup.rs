//! The controller of EtcdBackups. Each pass: observe -> decide -> status -> one act.
//!
//! What is next is decided by [`quorate_orders::backup`]. `pass`: the worker, which reads and writes; `metrics`.

mod metrics;
mod pass;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use prometheus_client::registry::Registry;
use quorate_api::{EtcdBackup, keys};
use quorate_manifests::Defaults;
use quorate_orders::backup::Bound;

use super::Kinds;
use super::desk::Owned;
use super::restore::ReadRestore;
use crate::runtime::controller::{Controller, Runtime};
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};
#[cfg(test)]
pub(super) use metrics::example as example_metrics;
use metrics::{Counts, Durations};
use pass::BackupWorker;

/// An EtcdBackup, or why it cannot be read: one that a newer operator wrote must not stop the watch.
pub(super) type ReadBackup = DeserializeGuard<EtcdBackup>;

/// The controller of EtcdBackups.
#[derive(Clone)]
pub(crate) struct BackupController {
    runtime: Runtime,
    defaults: Arc<Defaults>,
    kinds: Kinds,
    /// The EtcdBackups, by what they are taken of: one waits for others of the same etcd.
    by_source: Index<ReadBackup>,
    owned: Owned,
    /// The orders to restore in place, by the EtcdBackup that they name.
    restores: Index<ReadRestore>,
    bound: Arc<Mutex<Bound>>,
    durations: Durations,
}

impl BackupController {
    /// The controller, its metrics registered. `by_source` is the index that the controller of EtcdClusters keeps; `most` backups may run at a time
    /// over all clusters, any number if it is 0.
    pub(crate) fn new(
        runtime: &Runtime,
        registry: &mut Registry,
        defaults: Arc<Defaults>,
        kinds: Kinds,
        by_source: Index<ReadBackup>,
        most: usize,
    ) -> Self {
        let (runtime, owned, restores) = (runtime.clone(), Owned::default(), Index::default());
        registry.register_collector(Box::new(Counts(kinds.backups.clone())));
        let bound = Arc::new(Mutex::new(Bound::new(most)));
        let durations = Durations::new(registry);
        Self { runtime, defaults, kinds, by_source, owned, restores, bound, durations }
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
        &self.kinds.backups
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        watches.add_cut(&Config::default(), &self.kinds.backups, itself, cut);
        self.owned.watch(watches, keys::BACKUP);
        watches.follow(&self.kinds.restores, &self.restores, by_backup);
    }

    fn worker(&self, root: &NamespacedName) -> BackupWorker {
        BackupWorker::new(self.clone(), root)
    }

    fn has_ended(&self, backup: &ReadBackup) -> bool {
        backup.0.as_ref().is_ok_and(quorate_orders::backup::has_ended)
    }

    fn forget(&self, root: &NamespacedName) {
        self.kinds.backups.remove_if_empty(root);
        self.owned.remove_if_empty(root);
        self.restores.remove_if_empty(root);
    }
}

fn cut(backup: &mut ReadBackup) {
    if let Ok(backup) = &mut backup.0 {
        quorate_orders::backup::cut(backup);
    }
}

/// The EtcdBackup that an EtcdRestore names.
fn by_backup(restore: &ReadRestore) -> Option<NamespacedName> {
    let named = restore.0.as_ref().ok()?.spec.snapshot.backup_ref.as_ref()?;
    Some(NamespacedName::new(restore.meta().namespace.as_ref()?, &named.name))
}
