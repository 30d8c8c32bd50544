//! The controller of EtcdRestores. It has the snapshot read, and reports: the controller of the EtcdCluster carries the order out.
//!
//! What is next is decided by [`quorate_orders::restore`]. `pass`: the worker, which reads and writes.

mod pass;

use std::sync::Arc;

use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use quorate_api::{EtcdRestore, keys};
use quorate_manifests::Defaults;

use crate::controllers::Kinds;
use crate::controllers::backup::ReadBackup;
use crate::controllers::desk::Owned;
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
    kinds: Kinds,
    owned: Owned,
    /// The EtcdBackups that stand for what an EtcdRestore restores, by that.
    own_backups: Index<ReadBackup>,
}

impl RestoreController {
    /// The controller.
    pub(crate) fn new(runtime: &Runtime, defaults: Arc<Defaults>, kinds: Kinds) -> Self {
        let (owned, own_backups) = (Owned::default(), Index::default());
        Self { runtime: runtime.clone(), defaults, kinds, owned, own_backups }
    }
}

impl Controller for RestoreController {
    type Root = ReadRestore;
    type Worker = RestoreWorker;
    const NAME: &'static str = "restore";

    fn roots(&self) -> &Index<ReadRestore> {
        &self.kinds.restores
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        watches.add(&Config::default(), &self.kinds.restores, itself);
        self.owned.watch(watches, keys::RESTORE);
        watches.follow(&self.kinds.backups, &self.own_backups, by_owner);
    }

    fn worker(&self, root: &NamespacedName) -> RestoreWorker {
        RestoreWorker::new(self.clone(), root)
    }

    fn has_ended(&self, restore: &ReadRestore) -> bool {
        let status = restore.0.as_ref().ok().and_then(|restore| restore.status.as_ref());
        status.is_some_and(quorate_orders::restore::has_ended)
    }

    fn forget(&self, root: &NamespacedName) {
        self.kinds.restores.remove_if_empty(root);
        self.owned.remove_if_empty(root);
        self.own_backups.remove_if_empty(root);
    }
}

fn by_owner(backup: &ReadBackup) -> Option<NamespacedName> {
    let meta = backup.meta();
    let mut owners = meta.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == "EtcdRestore")?;
    Some(NamespacedName::new(meta.namespace.as_ref()?, &owner.name))
}
