//! The controllers, a folder for each kind, with the same files in each.
//!
//! `cluster` runs EtcdClusters, `backup` EtcdBackups, `schedule` EtcdBackupSchedules, `restore` reports EtcdRestores, and `user` runs EtcdUsers. `desk` is what the workers of the last four share. `members` and `tls` are what several of them need: connections to members, and
//! certificates. `own_namespace` is the end of an operator whose own namespace is being deleted. `example` is a second kind, for tests: it shows what a controller needs.

mod backup;
mod cluster;
mod desk;
#[cfg(test)]
mod example;
pub(crate) mod members;
pub(crate) mod own_namespace;
#[cfg(test)]
mod page;
mod recent;
mod refusal;
mod restore;
mod said;
mod schedule;
mod tls;
mod user;

use std::borrow::Cow;
use std::sync::Arc;

use kube::core::DeserializeGuard;
use prometheus_client::registry::Registry;
use quorate_etcd::Transport;
use quorate_manifests::{Defaults, target};
use quorate_planner::fleet::Limit;
use quorate_reconcile::ReadCluster;

use crate::runtime::fleet::Fleets;
use crate::runtime::watch::{Index, NamespacedName};
use backup::{BackupController, ReadBackup};
use cluster::ClusterController;
use members::KeptConnections;
use restore::{ReadRestore, RestoreController};
use schedule::{ReadSchedule, ScheduleController};
use user::{ReadUser, UserController};

/// What the controllers are configured with.
pub(crate) struct Config {
    /// What specs may leave out.
    pub(crate) defaults: Defaults,
    /// What connections to members run over.
    pub(crate) transport: Transport,
    /// How many of those stay open while nothing is to be done.
    pub(crate) kept_connections: usize,
    /// How many clusters may take new defaults at a time.
    pub(crate) max_rolling: Limit,
    /// How many backups may run at a time over all clusters; any number if it is 0.
    pub(crate) max_backups: usize,
}

/// The caches of the kinds that have a controller. Each fills its own, and the others read it.
#[derive(Clone, Default)]
pub(crate) struct Kinds {
    clusters: Index<ReadCluster>,
    backups: Index<ReadBackup>,
    schedules: Index<ReadSchedule>,
    restores: Index<ReadRestore>,
    users: Index<ReadUser>,
}

impl Kinds {
    /// R26: an EtcdCluster with the last spec that was accepted, as the controllers of other kinds read it.
    fn cluster(&self, namespace: &str, name: &str) -> Option<Arc<ReadCluster>> {
        self.clusters.get(&NamespacedName::new(namespace, name)).objects.remove(name).map(accepted)
    }

    /// The SHA-256 of the object that an EtcdBackup stands for.
    fn stands_for(&self, namespace: &str, name: &str) -> Option<String> {
        let found = self.backups.get(&NamespacedName::new(namespace, name)).objects.remove(name)?;
        found.0.as_ref().ok()?.stands_for().map(str::to_owned)
    }
}

fn accepted(cluster: Arc<ReadCluster>) -> Arc<ReadCluster> {
    match cluster.0.as_ref().map(target::accepted) {
        Ok(Cow::Owned(accepted)) => Arc::new(DeserializeGuard(Ok(accepted))),
        Ok(Cow::Borrowed(_)) | Err(_) => cluster,
    }
}

/// Adds every controller of the product.
pub(crate) fn add_all(fleets: &mut Fleets, registry: &mut Registry, config: Config) {
    let Config { defaults, transport, kept_connections, max_rolling, max_backups } = config;
    let runtime = fleets.runtime().clone();
    let shared = Arc::new(defaults.clone());
    let kinds = Kinds::default();
    let connections = (transport.clone(), KeptConnections::new(kept_connections));
    let clusters =
        ClusterController::new(&runtime, registry, defaults, connections, max_rolling, kinds.clone());
    let by_source = clusters.backups().clone();
    let backups =
        BackupController::new(&runtime, registry, shared.clone(), kinds.clone(), by_source, max_backups);
    let schedules = ScheduleController::new(&runtime, registry, shared.clone(), kinds.clone());
    let restores = RestoreController::new(&runtime, shared, kinds.clone());
    let users = UserController::new(&runtime, transport, kinds, &clusters);
    fleets.add(clusters);
    fleets.add(backups);
    fleets.add(schedules);
    fleets.add(restores);
    fleets.add(users);
}
