//! Which backups read a snapshot of an EtcdCluster now. None of its members is defragmented meanwhile.

use std::collections::BTreeSet;

use kube_core::ResourceExt as _;
use quorate_api::backup::BackupPhase;
use quorate_api::{EtcdBackup, EtcdUser};
use quorate_model::{ClusterRef, Instant};

use super::decide::deadline;
use super::queue::{is_stuck, phase};
use super::reach;

/// The names of the backups, of those in the namespace of an EtcdCluster with its EtcdUsers, whose Job may read a snapshot of one of its members. One whose Job
/// has had no Pod that started for too long reads nothing, and none reads beyond its deadline: an object of which no controller keeps the
/// status counts no longer.
pub fn running<'a>(
    of: &ClusterRef,
    backups: impl IntoIterator<Item = &'a EtcdBackup>,
    users: &[&EtcdUser],
    now: Instant,
) -> BTreeSet<String> {
    let reads = |backup: &&EtcdBackup| {
        phase(backup) == BackupPhase::Running
            && backup.spec.existing.is_none()
            && reach::is_taken_of(backup, of, users.iter().copied())
            && !is_stuck(backup, now)
            && backup.status.as_ref().is_some_and(|status| now.0 < deadline(backup, status, now))
    };
    backups.into_iter().filter(reads).map(EtcdBackup::name_any).collect()
}
