//! Backups of a cluster: whether those that are taken of it come about, and which read a snapshot of a member now.

use std::collections::BTreeSet;

use quorate_model::{ClusterRef, Instant};
use quorate_orders::schedule;
use quorate_status::BackupHealth;

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::indexes::OF_ENDPOINTS;
use crate::runtime::watch::NamespacedName;

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
