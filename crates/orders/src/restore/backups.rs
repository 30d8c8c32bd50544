//! Backups of the data that are to be given up: those that were ordered before the restore are over before a member is stopped.

use kube_core::ResourceExt as _;
use quorate_api::backup::{BackupCondition, BackupPhase};
use quorate_api::restore::BackupBefore;
use quorate_api::status::EtcdClusterStatus;
use quorate_api::{ConditionType, EtcdBackup, EtcdRestore, Explanation, Reason, conditions};
use quorate_manifests::backup_before::in_place;
use quorate_model::{Instant, Span};

use super::decide::Seen;
use crate::backup::is_stuck;

/// How long a quorum has not answered when a backup that needs it is not waited for any more. Not in the first moment, since leaders change.
const LOST_FOR: Span = Span::seconds(60);

/// Why the order waits for an EtcdBackup of the same cluster that is not over and was created before it: the oldest. Both are often applied
/// together, so one of the same second counts as older. What waits for the restore itself, or for the backups of other clusters, is not waited for.
pub(super) fn comes_first(seen: &Seen<'_>, cluster: &EtcdClusterStatus) -> Option<Explanation> {
    let restore = seen.restore;
    let cluster_name = &restore.spec.cluster_name;
    let quorum = Quorum::of(cluster, seen.now);
    let second =
        |backup: &EtcdBackup| backup.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    let ordered = restore.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    let of_cluster = seen.backups.iter().copied().filter(|backup| {
        backup.spec.source.cluster.as_ref() == Some(cluster_name)
            && backup.metadata.deletion_timestamp.is_none()
            // It saves nothing.
            && backup.spec.existing.is_none()
            // It is ordered when those are over, and may have the second of the order.
            && !in_place::has_name_for(backup, seen.uid())
            && !is_done_without(restore, backup)
    });
    let of_cluster: Vec<&EtcdBackup> = of_cluster.collect();
    let runs =
        |backup: &EtcdBackup| phase(backup) == Some(BackupPhase::Running) && !is_stuck(backup, seen.now);
    // What is queued behind one that waits for other clusters waits for them, too.
    let queue_moves = of_cluster.iter().any(|backup| runs(backup))
        || !of_cluster.iter().any(|backup| pending(backup) == Some(Reason::BackupLimitReached.as_str()));
    let goes_on = |backup: &EtcdBackup| match phase(backup) {
        Some(BackupPhase::Running) => runs(backup),
        Some(BackupPhase::Pending) | None => {
            let is_able = backup.spec.without_quorum || quorum != Quorum::Lost;
            is_able && begins_by_itself(pending(backup), quorum, queue_moves)
        }
        Some(BackupPhase::Complete | BackupPhase::Failed | BackupPhase::Deleting) => false,
    };
    let older = of_cluster.iter().copied().filter(|backup| second(backup) <= ordered && goes_on(backup));
    let first = older.min_by_key(|backup| (second(backup), backup.name_any()))?;
    let does = if phase(first) == Some(BackupPhase::Running) { "runs" } else { "waits" };
    let text = format!(
        "EtcdBackup {name} of EtcdCluster {cluster_name} was ordered before this EtcdRestore and {does}, and no member is stopped before it \
         is over. If what it is to save is not needed, delete EtcdBackup {name}",
        name = first.name_any()
    );
    Some(Explanation::new(Reason::OrderPending, text))
}

/// Whether it was ordered for another EtcdRestore, and this one is to do without such a backup: it may be that very order, given again by the
/// command that its message had, since that backup could not be completed.
fn is_done_without(restore: &EtcdRestore, backup: &EtcdBackup) -> bool {
    restore.spec.backup_before == BackupBefore::Never && in_place::has_name_for_any(backup)
}

/// Whether one that has not begun does so without the restore and without other clusters, by what its own condition says. Nothing: it is new.
fn begins_by_itself(reason: Option<&str>, quorum: Quorum, queue_moves: bool) -> bool {
    let Some(reason) = reason else { return true };
    if reason == Reason::BackupQueued.as_str() {
        return queue_moves;
    }
    if reason == Reason::ClusterNotServing.as_str() {
        return quorum == Quorum::Changes;
    }
    ![Reason::DataInconsistent, Reason::ClusterNotFound, Reason::BackupLimitReached]
        .iter()
        .any(|held| held.as_str() == reason)
}

fn phase(backup: &EtcdBackup) -> Option<BackupPhase> {
    backup.status.as_ref().and_then(|status| status.phase)
}

/// The reason of the condition Pending, if that holds.
fn pending(backup: &EtcdBackup) -> Option<&str> {
    let all = backup.status.iter().flat_map(|status| &status.conditions);
    let pending = conditions::find_true(all, BackupCondition::Pending.as_str());
    pending.map(|condition| condition.reason.as_str())
}

/// What is known of the quorum. A restore in place is what brings back one that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quorum {
    /// It answers, or nothing is reported.
    There,
    /// It was lost or came back just now: what waits for it may begin.
    Changes,
    /// It does not answer, or nobody knows, for so long that nothing that needs it is waited for.
    Lost,
}

impl Quorum {
    pub(super) fn of(cluster: &EtcdClusterStatus, now: Instant) -> Self {
        let type_ = ConditionType::QuorumAvailable.as_str();
        let Some(condition) = conditions::find(&cluster.conditions, type_) else {
            return Self::There;
        };
        let since = Instant(condition.last_transition_time.0.as_millisecond());
        if now - since < LOST_FOR {
            Self::Changes
        } else if conditions::holds(condition) == Some(true) {
            Self::There
        } else {
            Self::Lost
        }
    }
}
