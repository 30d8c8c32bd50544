//! Everything that a plan can wait on, in one table: the reason and the text for users, how the wait ends, and what it stops.
//! Conditions, events, the phase and the pace of passes derive from it.

mod auth;
mod authority;
mod data;
mod edit;
mod recovery;
mod refusal;
mod restore;
mod sick;
mod text;
mod wave;

pub(super) use auth::not_ours as auth_not_ours;
pub(super) use authority::{clients_have_time, held_up};
pub use refusal::refusal;
pub(super) use restore::order_name;
pub(super) use sick::replace_command;
pub use sick::why_sick;

use quorate_api::{Explanation, Reason};
use quorate_model::Waiting;
use quorate_model::effect::Unsafe;

use crate::trouble::order_to_replace;

/// How a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// It is under way, and usually over in a moment.
    Moves,
    /// Other clusters come first. Nothing is wrong with this one.
    Queues,
    /// It may last: something outside is not well, has no room, or is not complete.
    Waits,
    /// Only a person ends it.
    NeedsPerson,
}

/// What a wait stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stops {
    /// Nothing: it is a part of a change that is under way.
    Nothing,
    /// The next change.
    NextChange,
    /// Everything until the cluster is bootstrapped, and then the next change.
    Bootstrap,
    /// Everything: the operator changes nothing.
    Everything,
}

/// What is known of one wait.
struct Row {
    why: Explanation,
    weight: Weight,
    stops: Stops,
}

impl Row {
    fn stopping(self, stops: Stops) -> Self {
        Self { stops, ..self }
    }
}

fn moves(reason: Reason, text: impl Into<String>) -> Row {
    Row { why: Explanation::new(reason, text), weight: Weight::Moves, stops: Stops::Nothing }
}

fn queues(reason: Reason, text: impl Into<String>) -> Row {
    Row { why: Explanation::new(reason, text), weight: Weight::Queues, stops: Stops::NextChange }
}

fn waits(reason: Reason, text: impl Into<String>) -> Row {
    Row { why: Explanation::new(reason, text), weight: Weight::Waits, stops: Stops::NextChange }
}

fn needs_person(reason: Reason, text: impl Into<String>) -> Row {
    Row { why: Explanation::new(reason, text), weight: Weight::NeedsPerson, stops: Stops::NextChange }
}

/// The reason and message of what a plan waits on.
pub fn explain(waiting: &Waiting) -> Explanation {
    row(waiting).why
}

/// How the wait ends.
pub fn weight(waiting: &Waiting) -> Weight {
    row(waiting).weight
}

/// The message of what a plan waits on.
pub(super) fn text(waiting: &Waiting) -> String {
    row(waiting).why.message().to_owned()
}

/// What the wait stops.
pub(super) fn stops(waiting: &Waiting) -> Stops {
    row(waiting).stops
}

#[expect(clippy::too_many_lines, reason = "a table: one row for each variant")]
fn row(waiting: &Waiting) -> Row {
    match waiting {
        Waiting::Paused => needs_person(
            Reason::Paused,
            "spec.paused is true: lost Pods are restarted on their own volumes, and nothing else is done. Set it to false to \
             continue",
        )
        .stopping(Stops::Everything),
        Waiting::ForeignObjects(objects) => needs_person(
            Reason::ForeignObjects,
            format!(
                "this cluster needs names that are taken by objects it does not own, or that the operator could not read: {}. \
                 Delete or rename such objects, or give the EtcdCluster another name",
                objects.iter().map(text::foreign).collect::<Vec<_>>().join(", ")
            ),
        )
        .stopping(Stops::Bootstrap),
        Waiting::EarlierData(earlier) => data::row(earlier),
        Waiting::EditedTooLate(field) => needs_person(Reason::SpecInvalid, data::edited_too_late(field)),
        Waiting::Authority(wait) => authority::row(wait),
        Waiting::Auth(wait) => auth::row(wait),
        Waiting::NoSnapshot(why) => restore::no_snapshot(why),
        Waiting::NotRestored(member, why) => restore::not_restored(member.as_str(), why),
        Waiting::Recovery(wait) => recovery::row(wait),
        Waiting::Order(order, wait) => restore::order(order, wait),
        Waiting::VersionRefused(why) => needs_person(Reason::VersionRefused, edit::version_refused(why)),
        Waiting::SafePoint(why) => moves(Reason::SpecPending, edit::safe_point(why)).stopping(Stops::NextChange),
        Waiting::Downgrading(what) => moves(Reason::Downgrading, edit::downgrading(what)),
        Waiting::LearnersFailed { count, reason } => {
            waits(Reason::LearnersFailed, edit::learners_failed(*count, reason))
        }
        Waiting::Wave(why) => queues(Reason::WaitingForWave, wave::text(why)),
        Waiting::Clearing(why) => moves(
            Reason::BootstrapAbandoned,
            format!(
                "the bootstrap attempt was abandoned because {}. Its Pods and volumes are being deleted; a new attempt \
                 follows",
                why.as_str()
            ),
        ),
        Waiting::PodStuck(member, why) => {
            waits(Reason::PodStuck, format!("Pod {member} cannot run: {}", edit::pod_trouble(why)))
        }
        Waiting::Quorum { healthy, voters, why } => {
            waits(Reason::QuorumLost, text::quorum_lost(*healthy, *voters, why.as_ref()))
        }
        Waiting::SplitBrain(ids) => {
            needs_person(Reason::SplitBrain, text::split_brain(ids)).stopping(Stops::Everything)
        }
        Waiting::WrongMember { member, answers, recorded } => needs_person(
            Reason::MemberMismatch,
            format!(
                "Pod {member} answers as etcd member {answers}, but status records {recorded}. The operator changes \
                 nothing. Check which volume the Pod mounts"
            ),
        )
        .stopping(Stops::Everything),
        Waiting::UnmanagedMember(id, url) => needs_person(
            Reason::UnmanagedMember,
            format!(
                "etcd's member list has member {id} at {url}, which this EtcdCluster does not manage. Nothing is scaled or \
                 rolled until it is removed (etcdctl member remove {id})"
            ),
        ),
        Waiting::Objects => moves(Reason::CertificatesMissing, "Services and certificates are being created")
            .stopping(Stops::NextChange),
        Waiting::PodStarting(member) => moves(Reason::Restarting, format!("Pod {member} is starting")),
        Waiting::PodStopping(member) => moves(Reason::Restarting, format!("Pod {member} is stopping")),
        Waiting::PodStopsLate { member, node } => {
            waits(Reason::PodNotTerminated, text::pod_not_terminated(member, node.as_deref())).stopping(Stops::Nothing)
        }
        Waiting::VolumeGoing(member) => {
            moves(Reason::Scaling, format!("PersistentVolumeClaim {member} is being deleted"))
        }
        Waiting::ClaimTerminating { member, outlook } => {
            waits(Reason::ClaimTerminating, text::claim_terminating(member, *outlook)).stopping(Stops::Nothing)
        }
        Waiting::DataWentBack { had, has } => {
            needs_person(Reason::DataWentBack, text::data_went_back(*had, *has)).stopping(Stops::Everything)
        }
        Waiting::VolumeLost(member) => waits(
            Reason::VolumeLost,
            format!(
                "the volume of {member} is gone, and its data with it. The member is not restarted on an empty volume. It is \
                 replaced when spec.recovery.gracePeriod is over, if the other members are healthy"
            ),
        ),
        Waiting::FirstLeader => moves(Reason::Bootstrapping, "the members elect their first leader"),
        Waiting::Restoring(member, None) => {
            moves(Reason::Bootstrapping, format!("{member} restores the snapshot"))
        }
        Waiting::Restoring(member, Some(why)) => moves(
            Reason::Bootstrapping,
            format!("{member} restores the snapshot; the last try failed: {why}"),
        ),
        Waiting::ClientsLeaving(member) => moves(
            Reason::Scaling,
            format!("clients of {member} go to other members before it is removed from etcd"),
        ),
        Waiting::InSync { member, behind } => {
            let far = behind.map(|entries| {
                format!(
                    ". It follows the leader and lacks {entries} entries or more. If that does not get less, its disk or network stores less than \
                     the cluster writes: it is given up after an hour, and any edit of the spec is carried out after ten minutes"
                )
            });
            let far = far.unwrap_or_default();
            moves(Reason::Scaling, format!("learner {member} catches up with the leader{far}"))
        }
        Waiting::Sick(member, why) => {
            waits(Reason::MemberUnhealthy, format!("{member} is not healthy: {}", why_sick(why)))
        }
        Waiting::LeaderTransferFailed { leader, tried } => {
            waits(Reason::LeaderTransferFailed, text::leader_transfer_failed(leader, tried))
        }
        Waiting::UpgradeBackup(what) => waits(
            Reason::UpgradeBackupRunning,
            format!("no member is upgraded before the backup of spec.upgrade.backupBefore is complete: {what}"),
        )
        .stopping(Stops::Nothing),
        Waiting::UpgradeBackupFailed(why) => waits(
            Reason::UpgradeBackupFailed,
            format!("no member is upgraded, because the backup before that is missing: {why}"),
        ),
        Waiting::FinalBackup(what) => waits(
            Reason::FinalBackupRunning,
            format!(
                "the members are stopped once the backup of spec.deletion.finalBackup is complete: {what}. To delete without it, remove \
                 spec.deletion.finalBackup"
            ),
        )
        .stopping(Stops::Nothing),
        Waiting::DataStoreInUse(why) => waits(
            Reason::DataStoreInUse,
            format!(
                "this EtcdCluster is deleted once its DataStore of Kamaji is gone, and no member is stopped before that: {why}"
            ),
        )
        .stopping(Stops::Nothing),
        Waiting::NoFinalBackup(why) => waits(
            Reason::FinalBackupMissing,
            format!(
                "deletion goes on without the backup of spec.deletion.finalBackup, so the volumes are kept: {why}"
            ),
        )
        .stopping(Stops::Nothing),
        Waiting::RecordDoubt(doubt) => {
            let (reason, why) = text::record_doubt(doubt);
            needs_person(reason, why).stopping(Stops::Everything)
        }
        Waiting::ClockDiffers(differs) => needs_person(
            Reason::ClockDiffers,
            format!(
                "the operator's clock is {differs}. Until they agree to the minute, certificates are made valid by both clocks, and a grace \
                 period or another wait is over only by both, so it takes longer. Set the clock of the node on which the operator \
                 runs, or those of the API servers: check NTP on both"
            ),
        ),
        Waiting::Unsafe(why @ Unsafe::NotAdmitted(..)) => waits(Reason::WriteRefused, refusal(why)),
        Waiting::Unsafe(why) => waits(Reason::UnsafeChange, refusal(why)),
        Waiting::MayBeLost { member, loss, is_due } => {
            let row = if *is_due { moves } else { waits };
            let text = format!(
                "{member} has no usable data: {loss}. If that lasts for spec.recovery.gracePeriod, the member is replaced"
            );
            row(Reason::DataLost, text).stopping(Stops::NextChange)
        }
        Waiting::Undecided { groups, unknown, kept_out, voters } => {
            waits(Reason::DataInconsistent, text::undecided(groups, unknown, kept_out, *voters))
        }
        Waiting::Comparing(member) => waits(
            Reason::DataInconsistent,
            format!(
                "{member} makes a hash of its data, to be compared with its peers', and may answer nothing until it has read its whole \
                 database. That ends by itself; the operator asks nobody else before. If it lasts for more than ten minutes, look at its \
                 disk"
            ),
        ),
        Waiting::NotCompared { unknown, kept_out } => {
            waits(Reason::DataInconsistent, text::not_compared(unknown, kept_out))
        }
        Waiting::ReplacementDisabled { member, loss } => needs_person(
            Reason::ReplacementDisabled,
            format!(
                "{member} has no usable data: {loss}. It is not replaced, because spec.recovery.enabled is false. Set it to \
                 true, or {}",
                order_to_replace(member.as_str())
            ),
        ),
        Waiting::Defragmenting(member) => moves(
            Reason::Defragmenting,
            format!("{member} is being defragmented: it answers again when that is done"),
        ),
        Waiting::StillFull { member, database, compacts } => {
            waits(Reason::AlarmActive, text::still_full(member, database, *compacts))
        }
        Waiting::VolumeGrowing(member) => waits(
            Reason::VolumeGrowing,
            format!(
                "the volume of {member} has not grown to spec.storageSpec.volumeSizeRequest yet, and the larger quota of the edit \
                 would not fit on it. Until then Pods are as they were. If its storage class does not allow expansion, move the members to \
                 new volumes, one after another: {}. Or set spec.etcd.quotaBackendBytes to the present quota",
                order_to_replace(member.as_str())
            ),
        ),
    }
}
