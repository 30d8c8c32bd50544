//! The order to restore a cluster in place: which EtcdRestore counts, and what it restores.
//!
//! A snapshot is ordered from members only after it was read to its end: for one that is not in the store, or is damaged, nothing is stopped.

use kube_core::ResourceExt;
use quorate_api::backup::EtcdBackup;
use quorate_api::bootstrap::{RestoreSource, RestoreStatus};
use quorate_api::restore::RestorePhase;
use quorate_api::{EtcdCluster, EtcdRestore, keys};
use quorate_model::incarnation::{Order, RestoreOrder};
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use quorate_model::{ClusterId, MemberName, Record, Snapshot, Uid};

use crate::bootstrap::{self, Hint};
use crate::observe;

/// What to do where the backup of an EtcdRestore cannot be restored.
const HINT: Hint = Hint {
    absent: "Create it, or delete this EtcdRestore",
    other: "Delete this EtcdRestore, and order another backup",
};

/// The EtcdRestore that the record has as the order under way, if it still exists and is not being deleted; without such an order, the
/// oldest one that names the recorded cluster id, and is neither over nor older than the EtcdCluster.
pub(crate) fn order(
    restores: &[&EtcdRestore],
    cluster: &EtcdCluster,
    record: &Record,
) -> Option<RestoreOrder> {
    let counts = |restore: &EtcdRestore| {
        restore.metadata.deletion_timestamp.is_none()
            && (record.next_incarnation.is_some() || !(has_ended(restore) || is_outlived(restore, cluster)))
    };
    let present = restores.iter().filter(|restore| counts(restore));
    let mut orders: Vec<(_, RestoreOrder)> = present
        .filter_map(|restore| {
            let created = restore.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
            let order = read(restore)?;
            Some(((created, restore.metadata.name.clone()), order))
        })
        .collect();
    orders.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut orders = orders.into_iter().map(|(_, order)| order);
    match (&record.next_incarnation, record.cluster_id) {
        (Some(replacing), _) => orders.find(|order| order.order == replacing.order),
        (None, Some(id)) => orders.find(|order| order.replaces == id),
        (None, None) => None,
    }
}

/// Whether it was carried out, or has failed: nothing follows any more, also where the data that it names come back.
fn has_ended(restore: &EtcdRestore) -> bool {
    let phase = restore.status.as_ref().and_then(|status| status.phase);
    matches!(phase, Some(RestorePhase::Complete | RestorePhase::Failed))
}

/// Whether it was ordered for an earlier EtcdCluster of this name: the data that it names may have been adopted by this one since, and are not
/// to be given up a second time. A backup tool creates it anew, without its status.
pub fn is_outlived(restore: &EtcdRestore, cluster: &EtcdCluster) -> bool {
    let by_tool = restore.labels().contains_key(keys::VELERO_RESTORE);
    by_tool || restore.metadata.creation_timestamp < cluster.metadata.creation_timestamp
}

/// Its name and uid, as the record of the cluster has them.
pub fn name_of(restore: &EtcdRestore) -> Option<Order> {
    let name = restore.metadata.name.clone()?;
    Some(Order::Restore { name, uid: Uid::new(restore.metadata.uid.clone()?) })
}

/// The EtcdBackup that has to be read before the order can begin: its name.
pub fn backup_to_read<'a>(restores: &[&'a EtcdRestore], snapshot: &Snapshot) -> Option<&'a str> {
    if snapshot.record.next_incarnation.is_some() {
        return None;
    }
    let order = snapshot.order.as_ref()?;
    let restore = restores.iter().find(|restore| name_of(restore).as_ref() == Some(&order.order))?;
    Some(restore.spec.snapshot.backup_ref.as_ref()?.name.as_str())
}

/// Puts what the EtcdBackup says into the order: `None` if it does not exist, an error if it could not be read.
pub fn resolve(
    restores: &[&EtcdRestore],
    snapshot: &mut Snapshot,
    name: &str,
    backup: Result<Option<&EtcdBackup>, &str>,
) {
    let Some(order) = &mut snapshot.order else { return };
    let restore = restores.iter().find(|restore| name_of(restore).as_ref() == Some(&order.order));
    if let Some(restore) = restore {
        order.restore = if_read(restore, bootstrap::of_backup(&restore.spec.snapshot, name, backup, HINT));
    }
}

/// The object that has to be read before anything is stopped; `None` while the EtcdBackup that is named has none.
pub fn object(restore: &EtcdRestore, backup: Option<&EtcdBackup>) -> Option<RestoreSource> {
    let found = match &restore.spec.snapshot.backup_ref {
        None => bootstrap::by_itself(&restore.spec.snapshot),
        Some(named) => bootstrap::of_backup(&restore.spec.snapshot, &named.name, Ok(backup), HINT),
    };
    Some(bootstrap::write(&found.ok()?)?.source)
}

/// Whether a volume has the name of one of an earlier incarnation.
pub fn is_of_earlier_incarnation(cluster: &EtcdCluster, volume: &str) -> bool {
    let Some(present) = cluster.status.as_ref().and_then(|status| status.incarnation.as_ref()) else {
        return false;
    };
    let ordinal = observe::cluster_ref(cluster).ordinal(&MemberName::new(volume));
    ordinal.is_some_and(|ordinal| ordinal.0 < present.first_ordinal)
}

fn read(restore: &EtcdRestore) -> Option<RestoreOrder> {
    let replaces: ClusterId = restore.spec.cluster_id.parse().ok()?;
    let snapshot = if_read(restore, bootstrap::by_itself(&restore.spec.snapshot));
    Some(RestoreOrder { order: name_of(restore)?, replaces, restore: snapshot })
}

/// What is ordered, once it was read, with what its manifest says.
fn if_read(restore: &EtcdRestore, found: Result<Restore, RestoreFailure>) -> Result<Restore, RestoreFailure> {
    let ordered = bootstrap::write(&found?).unwrap_or_default();
    let seen = restore.status.as_ref().and_then(|status| status.snapshot.as_ref());
    let Some(seen) = seen.filter(|seen| seen.sha256 == ordered.source.sha256) else {
        let text = "its snapshot is read first, from beginning to end, and compared with its SHA-256";
        return Err(RestoreFailure::new(RestoreCause::NotReady, text));
    };
    Ok(bootstrap::read(&RestoreStatus {
        etcd_version: ordered.etcd_version.clone().or_else(|| seen.etcd_version.clone()),
        snapshot_bytes: ordered.snapshot_bytes.or(Some(seen.bytes)),
        revision: ordered.revision.or(seen.revision),
        ..ordered
    }))
}
