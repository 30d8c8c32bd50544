//! Everything that a plan can wait on, in one table: the reason and the text for users, how the wait ends, and what it stops.
//! Conditions, events, the phase and the pace of passes derive from it.

mod text;

use std::collections::BTreeSet;

use crate::certificate::CLIENT_USER;
use crate::trouble::order_to_replace;
use quorate_api::{Explanation, Reason, keys};
use quorate_model::Waiting;
use quorate_model::effect::Unsafe;
use quorate_model::restore::{RestoreCause, RestoreFailure};

pub(super) use text::{auth_not_ours, clients_have_time, held_up};

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
                objects.join(", ")
            ),
        )
        .stopping(Stops::Bootstrap),
        Waiting::ExistingData { found, volumes, quarantined, unmatched } => {
            let text = text::existing_data(found, volumes, quarantined, *unmatched);
            needs_person(Reason::ExistingData, text).stopping(Stops::Everything)
        }
        Waiting::AdoptionRefused(cluster, why) => needs_person(
            Reason::ExistingData,
            format!("the volumes of cluster {cluster} are not adopted, and nothing is started: {why}"),
        )
        .stopping(Stops::Everything),
        Waiting::EarlierDataGone { cluster, voters } => needs_person(
            Reason::ExistingData,
            format!(
                "status records cluster {cluster} with the members {}, but none of its volumes exists. \
                 No empty cluster is started in its place. Bring the volumes back, or add spec.bootstrap.restore to begin with a backup. To \
                 begin with nothing, delete this EtcdCluster and create it again without its status",
                text::names(voters)
            ),
        )
        .stopping(Stops::Everything),
        Waiting::RestoredWithoutData(by) => needs_person(
            Reason::ExistingData,
            format!(
                "{by} created this EtcdCluster, and there is neither a volume of it nor spec.bootstrap.restore. No empty cluster is \
                 started in its place. Bring the volumes back, or add spec.bootstrap.restore to begin with a backup. To begin with \
                 nothing, take off its label velero.io/restore-name"
            ),
        )
        .stopping(Stops::Everything),
        Waiting::AdoptionDiffers { field, needed, found } => needs_person(
            Reason::ExistingData,
            format!(
                "the data of the earlier cluster need {field}: {needed}, and it is {found}, which cannot be changed once they \
                 are adopted. Nothing is adopted until {field} is {needed}"
            ),
        )
        .stopping(Stops::Everything),
        Waiting::EditedTooLate { field, committed, found } => {
            needs_person(Reason::SpecInvalid, text::edited_too_late(field, committed, found))
        }
        Waiting::UnknownPods(pods) => needs_person(
            Reason::ExistingData,
            format!(
                "status was lost while Pods with data in memory run: {}. The operator does not bootstrap a second cluster \
                 beside them. Save the data, then delete these Pods to bootstrap a new cluster",
                text::names(pods)
            ),
        )
        .stopping(Stops::Everything),
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
        Waiting::AuthorityLost { secret, loss } => needs_person(
            Reason::AuthorityLost,
            format!(
                "the certificate authority is lost. {secret}: {loss}. No other authority is created, because running members \
                 would not trust it. The members serve on, and certificates are not renewed. Without a backup: annotate the \
                 EtcdCluster with {}=clients or =peers, one after another where both are lost. While a certificate is missing, that is followed \
                 at spec.size 0: set that first, and the earlier size afterwards. The data stay. Restore {secret} from a backup, if there is one, with its labels \
                 and annotations",
                keys::ROTATE_CA
            ),
        ),
        Waiting::AuthorityEnded(secret) => needs_person(
            Reason::CertificateExpired,
            format!(
                "the certificate authority in {secret} has ended, and it signs no certificates any more. Members and clients \
                 do not accept each other. Set spec.size to 0, annotate the EtcdCluster with {}=clients or =peers, one after another \
                 where both have ended, and set the earlier size. The data stay",
                keys::ROTATE_CA
            ),
        ),
        Waiting::AuthorityRefused { secret, why } => needs_person(
            Reason::AuthorityRefused,
            format!(
                "spec.tls names {secret}, whose authority cannot be taken: {why}. Nothing waits for it but what needs its certificates: \
                 put it right, or let spec.tls name another one"
            ),
        ),
        Waiting::Rotating(rotation, why) => {
            moves(Reason::RotatingAuthority, text::rotating(rotation, &why.to_string())).stopping(Stops::Nothing)
        }
        Waiting::ClientsHaveTime(rotation, until) => {
            queues(Reason::ClientsMustFollow, text::clients_have_time(rotation, *until)).stopping(Stops::Nothing)
        }
        Waiting::RotationRefused(why) => waits(
            Reason::RotationRefused,
            format!("the authority of clients is not replaced: {why}"),
        )
        .stopping(Stops::Nothing),
        Waiting::AuthChanging(what) => moves(Reason::ChangingAuth, format!("etcd's auth is being switched: {what}")),
        Waiting::ClientsAreRoot => needs_person(
            Reason::ClientsAreRoot,
            format!(
                "in etcd the user {CLIENT_USER} has the role root, and whoever reads the Secrets NAME-client-tls or NAME-connection is that user. \
                 The operator needs that no more: `etcdctl user delete {CLIENT_USER}`, in the Pod of a member. Auth that is off is not \
                 enabled before"
            ),
        )
        .stopping(Stops::Nothing),
        Waiting::OthersAreRoot(users) => needs_person(Reason::OthersAreRoot, others_are_root(users)).stopping(Stops::Nothing),
        Waiting::UsersToRevoke => queues(Reason::UsersWithoutEtcdUser, "users of etcd that nobody may be any more are being deleted there")
            .stopping(Stops::Nothing),
        Waiting::AuthStaysOn(cluster) => needs_person(
            Reason::AuthStaysOn,
            format!(
                "spec.auth.enabled is not true, and etcd's auth stays on: without it everybody with a certificate of the cluster may read and \
                 write everything. If that is meant, annotate the EtcdCluster with {}={cluster}, taken off before if it is there already; else set \
                 spec.auth.enabled to true",
                keys::DISABLE_AUTH
            ),
        )
        .stopping(Stops::Nothing),
        Waiting::AuthOffRefused(why) => needs_person(
            Reason::AuthStaysOn,
            format!("spec.auth.enabled is not true, and {} orders etcd's auth off. It stays on: {why}", keys::DISABLE_AUTH),
        )
        .stopping(Stops::Nothing),
        Waiting::AuthNotOurs => needs_person(Reason::NotOurs, text::auth_not_ours(false)).stopping(Stops::Nothing),
        Waiting::Clearing(why) => moves(
            Reason::BootstrapAbandoned,
            format!(
                "the bootstrap attempt was abandoned because {why}. Its Pods and volumes are being deleted; a new attempt \
                 follows"
            ),
        ),
        Waiting::PodStarting(member) => moves(Reason::Restarting, format!("Pod {member} is starting")),
        Waiting::PodStopping(member) => moves(Reason::Restarting, format!("Pod {member} is stopping")),
        Waiting::PodStopsLate { member, node } => {
            waits(Reason::PodNotTerminated, text::pod_not_terminated(member, node.as_deref())).stopping(Stops::Nothing)
        }
        Waiting::PodStuck(member, why) => waits(Reason::PodStuck, format!("Pod {member} cannot run: {why}")),
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
        Waiting::Quorum { healthy, voters, why } => {
            waits(Reason::QuorumLost, text::quorum_lost(*healthy, *voters, why))
        }
        Waiting::AuthEnabled(kept_out) => needs_person(Reason::AuthEnabled, text::auth_enabled(kept_out)),
        Waiting::FirstLeader => moves(Reason::Bootstrapping, "the members elect their first leader"),
        // A backup is not watched, so this may last.
        Waiting::NoSnapshot(why) => {
            waits(restore_reason(why), format!("no member is started: {why}")).stopping(Stops::Everything)
        }
        Waiting::Restoring(member, None) => {
            moves(Reason::Bootstrapping, format!("{member} restores the snapshot"))
        }
        Waiting::Restoring(member, Some(why)) => moves(
            Reason::Bootstrapping,
            format!("{member} restores the snapshot; the last try failed: {why}"),
        ),
        Waiting::RestoreFailed(member, why) => {
            waits(restore_reason(why), format!("{member} could not restore the snapshot: {why}"))
                .stopping(Stops::Nothing)
        }
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
        Waiting::LearnersFailed { count, reason } => {
            waits(Reason::LearnersFailed, text::learners_failed(*count, reason))
        }
        Waiting::Sick(member, why) => {
            waits(Reason::MemberUnhealthy, format!("{member} is not healthy: {why}"))
        }
        Waiting::LeaderTransferFailed { leader, tried } => {
            waits(Reason::LeaderTransferFailed, text::leader_transfer_failed(leader, tried))
        }
        Waiting::VersionRefused(why) => needs_person(Reason::VersionRefused, why),
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
        Waiting::SafePoint(why) => moves(Reason::SpecPending, why).stopping(Stops::NextChange),
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
        Waiting::Unsafe(why @ Unsafe::NotAdmitted(..)) => waits(Reason::WriteRefused, why.to_string()),
        Waiting::Unsafe(why) => waits(Reason::UnsafeChange, why.to_string()),
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
        Waiting::Downgrading(why) => moves(Reason::Downgrading, why),
        Waiting::Wave(why) => queues(Reason::WaitingForWave, why),
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
        Waiting::Recovering { from, logs } => moves(Reason::RecoveringQuorum, text::recovering(from, logs)),
        Waiting::RecoveryRefused(why) => waits(
            Reason::RecoveryRefused,
            format!("operator.etcd.io/recover-quorum-from is not followed: {why}"),
        ),
        Waiting::RecoveryEnded { withdrawn } => {
            let how = if *withdrawn { "is withdrawn" } else { "has ended, since a quorum answers, or has its data" };
            moves(
                Reason::RecoveringQuorum,
                format!(
                    "operator.etcd.io/recover-quorum-from {how}. Nothing was given up: the members are started again on their own volumes"
                ),
            )
        }
        Waiting::NotRead { member, why } => waits(
            Reason::RecoveringQuorum,
            format!("it is not known yet what {member} has stored: {why}"),
        )
        .stopping(Stops::Nothing),
        Waiting::MayRun { member, why } => waits(
            Reason::MemberMayRun,
            format!("the quorum is recovered only once no member can run any more, and {member} may: {why}"),
        )
        .stopping(Stops::Nothing),
        Waiting::OrderWaits(order, why) => waits(
            restore_reason(why),
            format!("{order} is not begun, and the members go on as they are: {why}"),
        ),
        Waiting::BackupFirst(order) => waits(
            Reason::RestoreBackupFirst,
            format!(
                "{order} is not begun, and the members go on as they are: the data that it gives up are backed up first. Its status names the \
                 EtcdBackup, and says how to go on if that fails"
            ),
        ),
        Waiting::ReadAgain(order) => waits(
            Reason::RestoreReadAgain,
            format!(
                "{order} is not begun, and the members go on as they are: its snapshot was read too long ago, and may be gone from the store \
                 meanwhile. It is read again"
            ),
        ),
        Waiting::RestoringInPlace(order) => moves(
            Reason::RestoringInPlace,
            format!(
                "{order} replaces the data: every member is stopped, its volume is quarantined, and new members begin with the snapshot"
            ),
        ),
    }
}

/// How many users one message names.
const NAMED: usize = 8;

/// The commands are for the Pod of a member, where etcdctl needs no more arguments.
fn others_are_root(users: &BTreeSet<String>) -> String {
    let named: Vec<&str> = users.iter().take(NAMED).map(String::as_str).collect();
    let more = if users.len() > NAMED { format!(" and {} more", users.len() - NAMED) } else { String::new() };
    let first = named.first().copied().unwrap_or_default();
    format!(
        "etcd's auth is not enabled, because these users have the role root, and could do everything: {}{more}. The operator made none of them so. \
         For each of them, in the Pod of a member: `etcdctl user revoke-role {first} root`, or `etcdctl user delete {first}`. Whoever is to \
         have the role may get it again once auth is on",
        named.join(", ")
    )
}

fn restore_reason(why: &RestoreFailure) -> Reason {
    match why.cause {
        RestoreCause::NotReady => Reason::RestoreWaiting,
        RestoreCause::Refused => Reason::RestoreRefused,
        RestoreCause::NothingFound => Reason::NoBackupFound,
        RestoreCause::Ambiguous => Reason::BackupAmbiguous,
        RestoreCause::Gone => Reason::RestoreSourceGone,
        RestoreCause::Forbidden => Reason::RestoreForbidden,
        RestoreCause::Stale => Reason::RestoreStale,
        RestoreCause::Failed => Reason::RestoreFailed,
    }
}
