//! The controller of EtcdRestores. It has the snapshot read, and reports: the controller of the EtcdCluster carries the order out.
//!
//! What is next is decided by [`quorate_orders::restore`]. `pass`: the worker, which reads and writes.

mod pass;

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use quorate_api::{EtcdRestore, keys};
use quorate_manifests::Defaults;
use quorate_reconcile::ReadCluster;

use crate::controllers::backup::ReadBackup;
use crate::runtime::controller::{Controller, Runtime};
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};
use pass::RestoreWorker;

/// An EtcdRestore, or why it cannot be read: one that a newer operator wrote must not stop the watch.
pub(super) type ReadRestore = DeserializeGuard<EtcdRestore>;

/// The controller of EtcdRestores.
#[derive(Clone)]
pub(crate) struct RestoreController {
    runtime: Runtime,
    defaults: Arc<Defaults>,
    restores: Index<ReadRestore>,
    jobs: Index<Job>,
    pods: Index<Pod>,
    backups: Index<ReadBackup>,
    /// The EtcdBackups that stand for what an EtcdRestore restores, by that.
    own_backups: Index<ReadBackup>,
    clusters: Index<ReadCluster>,
}

impl RestoreController {
    /// The controller. It fills `restores`; `backups` and `clusters` are the caches that their own controllers fill.
    pub(crate) fn new(
        runtime: &Runtime,
        defaults: Arc<Defaults>,
        restores: Index<ReadRestore>,
        backups: Index<ReadBackup>,
        clusters: Index<ReadCluster>,
    ) -> Self {
        let (jobs, pods, own_backups) = (Index::default(), Index::default(), Index::default());
        Self { runtime: runtime.clone(), defaults, restores, jobs, pods, backups, own_backups, clusters }
    }
}

impl Controller for RestoreController {
    type Root = ReadRestore;
    type Worker = RestoreWorker;
    const NAME: &'static str = "restore";

    fn roots(&self) -> &Index<ReadRestore> {
        &self.restores
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        let labelled = Config::default().labels(keys::RESTORE);
        watches.add(&Config::default(), &self.restores, itself);
        watches.add(&labelled, &self.jobs, by_label);
        watches.add(&labelled, &self.pods, by_label);
        watches.follow(&self.backups, &self.own_backups, by_owner);
    }

    fn worker(&self, root: &NamespacedName) -> RestoreWorker {
        RestoreWorker::new(self.clone(), root.clone())
    }

    fn has_ended(&self, restore: &ReadRestore) -> bool {
        let status = restore.0.as_ref().ok().and_then(|restore| restore.status.as_ref());
        status.is_some_and(quorate_orders::restore::has_ended)
    }

    fn forget(&self, root: &NamespacedName) {
        self.restores.remove_if_empty(root);
        self.jobs.remove_if_empty(root);
        self.pods.remove_if_empty(root);
        self.own_backups.remove_if_empty(root);
    }
}

fn by_label(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(keys::RESTORE)?))
}

fn by_owner(backup: &ReadBackup) -> Option<NamespacedName> {
    let meta = backup.meta();
    let mut owners = meta.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == "EtcdRestore")?;
    Some(NamespacedName::new(meta.namespace.as_ref()?, &owner.name))
}
