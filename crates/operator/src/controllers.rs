//! The controllers, a folder for each kind, with the same files in each.
//!
//! `cluster` runs EtcdClusters, `backup` EtcdBackups, `schedule` EtcdBackupSchedules, `restore` reports EtcdRestores, and `user` runs EtcdUsers. `members` and `tls` are what several of them need: connections to members, and
//! certificates. `own_namespace` is the end of an operator whose own namespace is being deleted. `example` is a second kind, for tests: it shows what a controller needs.

mod backup;
mod cluster;
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

use crate::runtime::controller::Controller as _;
use crate::runtime::fleet::Fleets;
use crate::runtime::watch::Index;
use backup::{BackupController, ReadBackup};
use cluster::{ClusterController, OtherKinds};
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

/// R26: the EtcdCluster with the last spec that was accepted, as the controllers of other kinds read it.
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
    let schedules = Index::<ReadSchedule>::default();
    let backups = Index::<ReadBackup>::default();
    let users = Index::<ReadUser>::default();
    let restores = Index::<ReadRestore>::default();
    let clusters = ClusterController::new(
        &runtime,
        registry,
        defaults,
        (transport.clone(), KeptConnections::new(kept_connections)),
        max_rolling,
        OtherKinds {
            schedules: schedules.clone(),
            backups: backups.clone(),
            users: users.clone(),
            restores: restores.clone(),
        },
    );
    let backups = BackupController::new(
        &runtime,
        registry,
        shared.clone(),
        (backups, clusters.backups().clone()),
        (clusters.roots().clone(), users.clone(), restores.clone()),
        max_backups,
    );
    let schedules = ScheduleController::new(
        &runtime,
        registry,
        shared.clone(),
        schedules,
        clusters.roots().clone(),
        restores.clone(),
        backups.roots().clone(),
    );
    let restores =
        RestoreController::new(&runtime, shared, restores, backups.roots().clone(), clusters.roots().clone());
    let users = UserController::new(&runtime, transport, users, &clusters);
    fleets.add(clusters);
    fleets.add(backups);
    fleets.add(schedules);
    fleets.add(restores);
    fleets.add(users);
}
