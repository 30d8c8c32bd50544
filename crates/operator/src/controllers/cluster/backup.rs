//! Backups of a cluster: the EtcdBackup that it is to begin with, those that it takes by itself, and whether those that are taken of it come about.

use std::collections::BTreeSet;

use kube::Api;
use quorate_api::backup::EtcdBackup;
use quorate_manifests::BackupHealth;
use quorate_model::{ClusterRef, Instant};
use quorate_orders::schedule;
use quorate_reconcile::WriteError;
use tokio::time::timeout;

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::indexes::OF_ENDPOINTS;
use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::watch::NamespacedName;
use crate::runtime::write::Writer;

/// What its schedules say about its backups, from the cache of their own controller.
pub(super) fn health(shared: &Shared, cluster: &ClusterRef, now: Instant) -> Option<BackupHealth> {
    let schedules = shared.kinds.schedules.in_namespace(&cluster.namespace);
    // One that does not parse is reported by its own controller: which cluster it names is not known.
    schedule::health(&cluster.name, schedules.iter().filter_map(|schedule| schedule.0.as_ref().ok()), now)
}

/// The EtcdBackups that read a snapshot of a member, from the caches of their own controllers.
pub(super) fn running(shared: &Shared, cluster: &ClusterRef, now: Instant) -> BTreeSet<String> {
    let of = |name: &str| shared.indexes.backups.get(&NamespacedName::new(&cluster.namespace, name)).objects;
    let backups: Vec<_> = of(&cluster.name).into_values().chain(of(OF_ENDPOINTS).into_values()).collect();
    let users = shared.kinds.users.in_namespace(&cluster.namespace);
    let backups = backups.iter().filter_map(|backup| backup.0.as_ref().ok());
    let users: Vec<_> = users.iter().filter_map(|user| user.0.as_ref().ok()).collect();
    quorate_orders::backup::running(cluster, backups, &users, now)
}

/// Creates the EtcdBackup that comes before an upgrade or the end of a cluster.
pub(super) async fn create(shared: &Shared, backup: &EtcdBackup) -> Result<(), WriteError> {
    let namespace = backup.metadata.namespace.as_deref().unwrap_or_default();
    Writer::<EtcdBackup>::new(&shared.runtime, namespace).create_in_effect(backup).await.map(drop)
}

/// An EtcdBackup that a cluster begins with, or that comes before an upgrade or its end; `None` if it does not exist. One read, and only
/// while it is waited for, so no watch is kept for it.
pub(super) async fn read(
    shared: &Shared,
    namespace: &str,
    name: &str,
) -> Result<Option<Box<EtcdBackup>>, String> {
    let backups: Api<EtcdBackup> = Api::namespaced(shared.runtime.client.clone(), namespace);
    let read = timeout(WRITE_DEADLINE, backups.get_opt(name)).await;
    let backup = read.map_err(|_| format!("no answer within {WRITE_DEADLINE:?}"))?;
    backup.map(|backup| backup.map(Box::new)).map_err(|error| error.to_string())
}
