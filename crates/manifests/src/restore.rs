//! The order to restore a cluster in place: which EtcdRestore counts, and what it restores.
//!
//! A snapshot is ordered from members only after it was read to its end: for one that is not in the store, or is damaged, nothing is stopped.

use std::collections::BTreeSet;

use kube_core::ResourceExt;
use quorate_api::backup::EtcdBackup;
use quorate_api::bootstrap::{RestoreSource, RestoreStatus};
use quorate_api::restore::{BackupBefore, DEFAULT_STARTING_DEADLINE, RestorePhase};
use quorate_api::{EtcdCluster, EtcdRestore, duration, keys};
use quorate_model::incarnation::{Order, RestoreOrder};
use quorate_model::restore::{Restore, RestoreCause, RestoreFailure};
use quorate_model::{ClusterId, Instant, MemberName, Record, Snapshot, Span, Uid};

use crate::backup_before::in_place;
use crate::bootstrap::{self, Hint};
use crate::objects::cluster_ref;
use crate::restored;

/// What to do where the backup of an EtcdRestore cannot be restored.
const HINT: Hint = Hint {
    absent: "Create it, or delete this EtcdRestore",
    other: "Delete this EtcdRestore, and order another backup",
};

/// For how long it counts that a snapshot was read: its object may be gone later.
pub const READING_COUNTS: Span = Span::seconds(600);

/// The EtcdRestore that the record has as the order under way, if it still exists and is not being deleted; without such an order, those
/// that name the recorded cluster id, and are neither over nor older than the EtcdCluster, the oldest first.
pub(crate) fn orders(restores: &[&EtcdRestore], cluster: &EtcdCluster, record: &Record) -> Vec<RestoreOrder> {
    let counts = |restore: &EtcdRestore| {
        restore.metadata.deletion_timestamp.is_none()
            && (record.next_incarnation.is_some()
                || !(has_ended(restore) || is_outlived(restore, cluster) || is_given_again(restore, cluster)))
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
    let orders = orders.into_iter().map(|(_, order)| order);
    match (&record.next_incarnation, record.cluster_id) {
        (Some(replacing), _) => orders.filter(|order| order.order == replacing.order).collect(),
        (None, Some(id)) => orders.filter(|order| order.replaces == id).collect(),
        (None, None) => Vec::new(),
    }
}

/// Until when it may begin: `startingDeadline` after its creation.
pub fn until(restore: &EtcdRestore) -> Instant {
    let created = restore.metadata.creation_timestamp.as_ref();
    let created = created.map_or(Instant(0), |created| Instant(created.0.as_millisecond()));
    let given = duration::seconds(&restore.spec.starting_deadline);
    let seconds = given.or_else(|| duration::seconds(DEFAULT_STARTING_DEADLINE)).unwrap_or_default();
    created + Span::seconds(seconds)
}

/// Whether it was carried out, or has failed: nothing follows any more, also where the data that it names come back.
pub(crate) fn has_ended(restore: &EtcdRestore) -> bool {
    let phase = restore.status.as_ref().and_then(|status| status.phase);
    matches!(phase, Some(RestorePhase::Complete | RestorePhase::Failed))
}

/// Whether it was ordered for an earlier EtcdCluster of this name: the data that it names may have been adopted by this one since, and are not
/// to be given up a second time. A backup tool creates it anew, without its status.
pub fn is_outlived(restore: &EtcdRestore, cluster: &EtcdCluster) -> bool {
    let by_tool = restore.labels().contains_key(keys::VELERO_RESTORE);
    by_tool || restore.metadata.creation_timestamp < cluster.metadata.creation_timestamp
}

/// Whether the data that it names were given up once and taken back, and it may be the order of then, which a repository gives again: it is
/// new to the API server and names the right cluster ID. One that means them again has the uid of this EtcdCluster in an annotation.
pub fn is_given_again(restore: &EtcdRestore, cluster: &EtcdCluster) -> bool {
    let bootstrap = cluster.status.as_ref().and_then(|status| status.bootstrap.as_ref());
    bootstrap.is_some_and(|bootstrap| bootstrap.taken_back)
        && restore.annotations().get(keys::GIVE_UP_AGAIN) != cluster.metadata.uid.as_ref()
}

/// Its name and uid, as the record of the cluster has them.
pub fn name_of(restore: &EtcdRestore) -> Option<Order> {
    let name = restore.metadata.name.clone()?;
    Some(Order::Restore { name, uid: Uid::new(restore.metadata.uid.clone()?) })
}

/// The EtcdBackups that have to be read before an order can begin: their names. None for an order whose time is over.
pub fn backups_to_read(restores: &[&EtcdRestore], snapshot: &Snapshot, now: Instant) -> BTreeSet<String> {
    if snapshot.record.next_incarnation.is_some() {
        return BTreeSet::new();
    }
    let waiting = snapshot.orders.iter().filter(|order| order.until > now);
    let waiting = waiting
        .filter_map(|order| restores.iter().find(|restore| name_of(restore).as_ref() == Some(&order.order)));
    waiting.filter_map(|restore| restore.spec.snapshot.backup_name(&restore.metadata)).collect()
}

/// Puts what the EtcdBackup says into the orders that name it: `None` if it does not exist, an error if it could not be read.
pub fn resolve(
    restores: &[&EtcdRestore],
    snapshot: &mut Snapshot,
    name: &str,
    backup: Result<Option<&EtcdBackup>, &str>,
) {
    for order in &mut snapshot.orders {
        let names_it = |restore: &&&EtcdRestore| {
            let named = restore.spec.snapshot.backup_name(&restore.metadata);
            name_of(restore).as_ref() == Some(&order.order) && named.as_deref() == Some(name)
        };
        if let Some(restore) = restores.iter().find(names_it) {
            order.restore = of_backup(restore, backup).and_then(|found| if_read(restore, &found));
        }
    }
}

/// The object that has to be read before anything is stopped; `None` while the EtcdBackup has none.
pub fn object(restore: &EtcdRestore, backup: Option<&EtcdBackup>) -> Option<RestoreSource> {
    Some(of_backup(restore, Ok(backup)).ok()?.source)
}

fn of_backup(
    restore: &EtcdRestore,
    backup: Result<Option<&EtcdBackup>, &str>,
) -> Result<RestoreStatus, RestoreFailure> {
    let ordered = restored::for_restore(restore, None);
    bootstrap::of_backup(&restore.spec.snapshot, &restore.metadata, ordered.as_ref(), backup, HINT)
}

/// Whether a volume has the name of one of an earlier incarnation.
pub fn is_of_earlier_incarnation(cluster: &EtcdCluster, volume: &str) -> bool {
    let Some(present) = cluster.status.as_ref().and_then(|status| status.incarnation.as_ref()) else {
        return false;
    };
    let ordinal = cluster_ref(cluster).ordinal(&MemberName::new(volume));
    ordinal.is_some_and(|ordinal| ordinal.0 < present.first_ordinal)
}

/// Until when the backup of what is given up counts, which its controller orders. Later than any time where the order begins without one.
fn backed_up_until(restore: &EtcdRestore) -> Instant {
    let taken = restore.status.as_ref().and_then(|status| status.backup_before.as_ref());
    let counts = taken.and_then(|taken| in_place::counts_until(restore, taken)).unwrap_or(Instant(0));
    match restore.spec.backup_before {
        BackupBefore::Never => Instant(i64::MAX),
        BackupBefore::IfPossible if taken.is_some_and(|taken| taken.missing.is_some()) => Instant(i64::MAX),
        BackupBefore::IfPossible | BackupBefore::Required => counts,
    }
}

fn read(restore: &EtcdRestore) -> Option<RestoreOrder> {
    let replaces: ClusterId = restore.spec.cluster_id.parse().ok()?;
    let snapshot = Err(bootstrap::unread(&restore.spec.snapshot, &restore.metadata));
    let read = restore.status.as_ref().and_then(|status| status.snapshot.as_ref()?.time.as_ref());
    let read_until = read.map_or(Instant(0), |read| Instant(read.0.as_millisecond()) + READING_COUNTS);
    let (order, until, backed_up_until) = (name_of(restore)?, until(restore), backed_up_until(restore));
    Some(RestoreOrder {
        order,
        replaces,
        restore: snapshot,
        until,
        read_until,
        admission: None,
        backed_up_until,
    })
}

/// What is ordered, once it was read, with what its manifest says.
fn if_read(restore: &EtcdRestore, ordered: &RestoreStatus) -> Result<Restore, RestoreFailure> {
    let seen = restore.status.as_ref().and_then(|status| status.snapshot.as_ref());
    let Some(seen) = seen.filter(|seen| seen.sha256 == ordered.source.sha256) else {
        let text = "its snapshot is read first, from beginning to end, and compared with its SHA-256";
        return Err(RestoreFailure::new(RestoreCause::NotReady, text));
    };
    Ok(bootstrap::read(&RestoreStatus {
        etcd_version: ordered.etcd_version.clone().or_else(|| seen.etcd_version.clone()),
        snapshot_bytes: ordered.snapshot_bytes.or(Some(seen.bytes)),
        revision: ordered.revision.or(seen.revision),
        auth_enabled: seen.auth_enabled,
        ..ordered.clone()
    }))
}

/// Whether a restore waits for an EtcdBackup that the operator has created for one.
pub fn is_awaited(backup: &EtcdBackup, cluster: Option<&EtcdCluster>, restore: Option<&EtcdRestore>) -> bool {
    let by_cluster = cluster
        .filter(|cluster| restored::is_owned_by(backup, &cluster.metadata))
        .and_then(bootstrap::backup_to_read);
    let by_restore =
        restore.filter(|restore| restored::is_owned_by(backup, &restore.metadata) && !has_ended(restore));
    let by_restore = by_restore.and_then(|restore| restore.spec.snapshot.backup_name(&restore.metadata));
    by_cluster.or(by_restore).is_some_and(|name| backup.metadata.name.as_ref() == Some(&name))
}
