//! Who comes first. One backup of a cluster at a time: each is a read transaction over the whole database. Nothing is left out; who comes later waits.

use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupPhase, DeletionPolicy, EtcdBackupStatus};
use quorate_api::{Destination, EtcdBackup, keys};
use quorate_model::{Instant, Span};

use super::decide::{DELAYS, has_finalizer, is_put_off};
use super::ending::REMOVAL_DELAYS;

/// The backup that this one waits for, if any: one of the same source that runs, or that is older and due. One that is taken without
/// the quorum waits only for what runs: those before it may be waiting for the quorum that is lost.
pub fn blocker<'a>(
    own: &EtcdBackup,
    others: impl Iterator<Item = &'a EtcdBackup>,
    now: Instant,
) -> Option<&'a EtcdBackup> {
    let same = |other: &&EtcdBackup| {
        other.uid() != own.uid()
            && other.namespace() == own.namespace()
            && other.spec.source == own.spec.source
            && other.spec.existing.is_none()
            && other.metadata.deletion_timestamp.is_none()
    };
    let comes_first = |other: &&EtcdBackup| match phase(other) {
        // Nobody knows when a Job gets a Pod that starts, if ever. What it writes then is another object.
        BackupPhase::Running => !is_stuck(other, now),
        // One that waits for its next attempt lets others pass.
        BackupPhase::Pending => !own.spec.without_quorum && turn(other) < turn(own) && !rests(other, now),
        BackupPhase::Complete | BackupPhase::Failed | BackupPhase::Deleting => false,
    };
    others.filter(same).filter(comes_first).min_by_key(|other| turn(other))
}

/// For so long a Job without a Pod that has started holds up other backups.
const STARTS_WITHIN: i64 = 300_000;

/// Whether the Job of a backup has had no Pod that started for too long.
pub(crate) fn is_stuck(backup: &EtcdBackup, now: Instant) -> bool {
    let since = backup.status.as_ref().and_then(|status| status.not_started_since.as_ref());
    since.is_some_and(|since| now.0.saturating_sub(since.0.as_millisecond()) > STARTS_WITHIN)
}

/// Whether the operator took it by itself, before an upgrade, a restore in place or the end of its cluster, as far as its name and its
/// annotation tell: who may create EtcdBackups may give both. It overtakes only those of the same etcd.
fn is_of_operator(backup: &EtcdBackup) -> bool {
    let uid = backup.annotations().get(keys::CLUSTER_UID).filter(|uid| !uid.is_empty());
    let name = backup.name_any();
    uid.is_some_and(|uid| {
        let of_cluster = ["before-", "final-"].iter().any(|begin| name.starts_with(begin));
        name.starts_with("before-restore-") || (of_cluster && name.ends_with(uid.as_str()))
    })
}

/// Whose turn it is first: what the operator waits for, then the oldest.
fn turn(backup: &EtcdBackup) -> (bool, Option<i64>, String) {
    let (created, name) = order(backup);
    (!is_of_operator(backup), created, name)
}

/// A removal that came to nothing in its first minutes does not hold up others: it waits for a restore, or for its Pod to end.
pub(super) const FIRST_MINUTES: Span = Span::seconds(600);

/// What holds up the removal of an object from a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalQueue {
    /// The backup whose object comes first.
    pub waits_for: Option<String>,
    /// How many removals from the same destination have failed that are to be repeated.
    pub failed: u32,
    /// Every EtcdBackup of the namespace is being deleted, so the namespace itself may be. Only the refusal of a Job tells, so no removal
    /// waits for longer than the first minutes then.
    pub all_go: bool,
}

/// The store to remove an object from. The Secret that the EtcdBackup names may be gone by now, and its credentials be known under another
/// name: so each further try takes those of another EtcdBackup that is at the same place, the newest first.
pub fn store_of_removal<'a>(
    own: &'a EtcdBackup,
    others: impl Iterator<Item = &'a EtcdBackup>,
    removals: u32,
) -> &'a Destination {
    let is_like = |other: &&EtcdBackup| {
        other.namespace() == own.namespace() && other.spec.destination.is_same_place(&own.spec.destination)
    };
    let mut others: Vec<&EtcdBackup> = others.filter(is_like).collect();
    others.sort_by_key(|other| std::cmp::Reverse(order(other)));
    let mut stores = vec![&own.spec.destination];
    for other in others {
        if !stores.contains(&&other.spec.destination) {
            stores.push(&other.spec.destination);
        }
    }
    let tries = usize::try_from(removals.saturating_sub(1)).unwrap_or(0);
    stores[tries % stores.len()]
}

/// One removal at a time from a destination, with a common delay: a store that refuses one refuses all. The one that was tried least comes
/// first, so that one that always fails does not hold up all others.
pub fn removals<'a>(
    own: &EtcdBackup,
    others: impl Iterator<Item = &'a EtcdBackup>,
    now: Instant,
) -> RemovalQueue {
    let others: Vec<&EtcdBackup> = others.filter(|other| other.namespace() == own.namespace()).collect();
    let all_go = others.iter().all(|other| other.metadata.deletion_timestamp.is_some());
    let same = |other: &&EtcdBackup| {
        other.uid() != own.uid()
            && other.spec.destination.is_same_place(&own.spec.destination)
            && other.spec.deletion_policy == DeletionPolicy::Delete
            && has_finalizer(other)
            && other.status.as_ref().is_some_and(EtcdBackupStatus::may_have_written)
    };
    let going: Vec<(&EtcdBackup, i64)> = others
        .into_iter()
        .filter(same)
        .filter_map(|other| Some((other, other.metadata.deletion_timestamp.as_ref()?.0.as_millisecond())))
        .collect();
    let comes_first = |(other, deleted): &&(&EtcdBackup, i64)| {
        let is_before = (tried(other), order(other)) < (tried(own), order(own));
        match (tried(other), next_attempt(other)) {
            // Its Job was refused: others may be admitted.
            (0, Some(next)) if next > now.0 => false,
            (0, _) => is_before && now - Instant(*deleted) < FIRST_MINUTES,
            (_, None) => true,
            (_, Some(next)) => is_held(next, now, all_go) || is_before,
        }
    };
    // The message names what holds it up now: a removal under way, then one that rests, then who comes before.
    let rank = |other: &EtcdBackup| match (tried(other), next_attempt(other)) {
        (0, _) => 2,
        (_, None) => 0,
        (_, Some(next)) if next > now.0 => 1,
        (_, Some(_)) => 2,
    };
    let first =
        going.iter().filter(comes_first).min_by_key(|(other, _)| (rank(other), tried(other), order(other)));
    let failed = going.iter().map(|(other, _)| tried(other)).fold(0, u32::saturating_add);
    RemovalQueue { waits_for: first.map(|(other, _)| other.name_any()), failed, all_go }
}

/// Whether a removal still waits for its time. A time of before the deletion of the namespace may be hours away.
pub(super) fn is_held(next: i64, now: Instant, all_go: bool) -> bool {
    is_put_off(next, now, longest_removal_delay(all_go))
}

pub(super) fn longest_removal_delay(all_go: bool) -> Span {
    if all_go { FIRST_MINUTES } else { REMOVAL_DELAYS.longest }
}

fn tried(backup: &EtcdBackup) -> u32 {
    backup.status.as_ref().map_or(0, |status| status.removals)
}

fn next_attempt(backup: &EtcdBackup) -> Option<i64> {
    backup.status.as_ref()?.next_attempt.as_ref().map(|next| next.0.as_millisecond())
}

pub(super) fn phase(backup: &EtcdBackup) -> BackupPhase {
    backup.status.as_ref().and_then(|status| status.phase).unwrap_or(BackupPhase::Pending)
}

pub(super) fn rests(backup: &EtcdBackup, now: Instant) -> bool {
    next_attempt(backup).is_some_and(|next| is_put_off(next, now, DELAYS.longest))
}

/// The oldest first. Times have whole seconds, so names decide among those of one second.
pub(super) fn order(backup: &EtcdBackup) -> (Option<i64>, String) {
    let created = backup.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    (created, backup.name_any())
}
