//! One backup of a cluster at a time: each is a read transaction over the whole database. Nothing is left out; who comes later waits.

use kube::ResourceExt as _;
use quorate_api::EtcdBackup;
use quorate_api::backup::BackupPhase;
use quorate_model::Instant;

/// The backup that this one waits for, if any: one of the same source that runs, or that is older and due. One that is taken without
/// the quorum waits only for what runs: those before it may be waiting for the quorum that is lost.
pub(super) fn blocker<'a>(
    own: &EtcdBackup,
    others: impl Iterator<Item = &'a EtcdBackup>,
    now: Instant,
) -> Option<&'a EtcdBackup> {
    let same = |other: &&EtcdBackup| {
        other.uid() != own.uid()
            && other.namespace() == own.namespace()
            && other.spec.source == own.spec.source
            && other.metadata.deletion_timestamp.is_none()
    };
    let comes_first = |other: &&EtcdBackup| match phase(other) {
        BackupPhase::Running => true,
        // One that waits for its next attempt lets others pass.
        BackupPhase::Pending => !own.spec.without_quorum && order(other) < order(own) && !rests(other, now),
        BackupPhase::Complete | BackupPhase::Failed | BackupPhase::Deleting => false,
    };
    others.filter(same).filter(comes_first).min_by_key(|other| order(other))
}

fn phase(backup: &EtcdBackup) -> BackupPhase {
    backup.status.as_ref().and_then(|status| status.phase).unwrap_or(BackupPhase::Pending)
}

fn rests(backup: &EtcdBackup, now: Instant) -> bool {
    let next = backup.status.as_ref().and_then(|status| status.next_attempt.as_ref());
    next.is_some_and(|next| next.0.as_millisecond() > now.0)
}

/// The oldest first. Times have whole seconds, so names decide among those of one second.
fn order(backup: &EtcdBackup) -> (Option<i64>, String) {
    let created = backup.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    (created, backup.name_any())
}
