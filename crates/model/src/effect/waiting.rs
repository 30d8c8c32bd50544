//! What a plan waits on, in words for the people who run the cluster.

use std::collections::BTreeSet;
use std::fmt;

use super::Unsafe;
use crate::adoption::Unadoptable;
use crate::ids::{ClusterId, MemberId};
use crate::incarnation::Order;
use crate::names::{MemberName, PeerUrl};
use crate::quorum::quorum;
use crate::record::Loss;
use crate::recovery::{Log, RecoverFrom};
use crate::restore::RestoreFailure;
use crate::snapshot::{AuthorityLoss, Database};

/// What a plan waits on. Its text goes to status and events unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// `spec.paused`.
    Paused,
    /// Objects have names that this cluster needs, and are not owned by this EtcdCluster.
    ForeignObjects(Vec<String>),
    /// Volumes of an earlier cluster of this name exist; a person has to decide about them.
    ExistingData {
        /// The cluster IDs in their annotations.
        found: Vec<ClusterId>,
        /// The volumes.
        volumes: Vec<MemberName>,
        /// The cluster ID in the `adopt` annotation, if no volume has it.
        unfit: Option<ClusterId>,
    },
    /// The volumes of the cluster with this id are to be adopted, and are not; why.
    AdoptionRefused(ClusterId, Unadoptable),
    /// The status of this EtcdCluster is that of another object, whose cluster had data; no volume of it exists.
    EarlierDataGone {
        /// The cluster ID in that status.
        cluster: ClusterId,
        /// Its voters.
        voters: Vec<MemberName>,
    },
    /// A backup tool created this EtcdCluster, without volumes and without a snapshot to begin with; which one.
    RestoredWithoutData(String),
    /// The data that are to be adopted contradict a field of the spec that is fixed later; a person has to correct it.
    AdoptionDiffers {
        /// The field.
        field: &'static str,
        /// The value that the data need.
        needed: &'static str,
        /// The value in the spec.
        found: &'static str,
    },
    /// Two cluster IDs among the members (R12).
    SplitBrain(Vec<(MemberName, ClusterId)>),
    /// A member answers with another ID than the one recorded in status.
    WrongMember {
        /// The name of the Pod.
        member: MemberName,
        /// The ID in the answer.
        answers: MemberId,
        /// The ID in status.
        recorded: MemberId,
    },
    /// Certificates or Services are being created.
    Objects,
    /// The certificate authority is lost.
    AuthorityLost {
        /// Its Secret: `Secret default/demo-ca`.
        secret: String,
        /// How.
        loss: AuthorityLoss,
    },
    /// The certificate authority in this Secret has ended, so it signs nothing.
    AuthorityEnded(String),
    /// An abandoned bootstrap attempt is being deleted.
    Clearing(&'static str),
    /// A Pod is starting.
    PodStarting(MemberName),
    /// A Pod cannot run as it is.
    PodStuck(MemberName, String),
    /// A Pod must be gone before the next step.
    PodStopping(MemberName),
    /// A volume must be gone before the next step.
    VolumeGoing(MemberName),
    /// A volume is missing. It is not created again empty: the member's data were on it.
    VolumeLost(MemberName),
    /// Pods run that status does not record, and nothing identifies their data.
    UnknownPods(Vec<MemberName>),
    /// No quorum answers (R11).
    Quorum {
        /// Voters that answer.
        healthy: usize,
        /// Voters there are.
        voters: usize,
        /// Why the member list could not be read.
        why: String,
    },
    /// The members of a new cluster elect their first leader.
    FirstLeader,
    /// Nothing is started: the snapshot that the cluster is to begin with cannot be restored, or not yet.
    NoSnapshot(RestoreFailure),
    /// The agent of a member restores the snapshot, and why its last try failed, if it did.
    Restoring(MemberName, Option<RestoreFailure>),
    /// The agent of a member could not restore the snapshot, and tries again.
    RestoreFailed(MemberName, RestoreFailure),
    /// A learner catches up.
    InSync(MemberName),
    /// Learners did not get in sync, and the next one is added later.
    LearnersFailed {
        /// How many.
        count: u32,
        /// Why the last one did not.
        reason: String,
    },
    /// A member is not healthy.
    Sick(MemberName, String),
    /// Leadership has to move away from a member, and every other healthy voter was tried: no one took over.
    LeadershipStays {
        /// The member that leads.
        leader: MemberName,
        /// Whom leadership was moved to, and how often.
        tried: Vec<(MemberName, usize)>,
    },
    /// etcd's member list has a member that this EtcdCluster does not manage.
    UnmanagedMember(MemberId, PeerUrl),
    /// The desired version cannot follow the present one.
    VersionRefused(String),
    /// A backup comes before an upgrade, and is not complete; what it does.
    UpgradeBackup(String),
    /// The backup before an upgrade cannot be used; why, and what to do.
    UpgradeBackupFailed(String),
    /// A backup comes before the end of the cluster, and is not complete; what it does.
    FinalBackup(String),
    /// The cluster ends without the backup that was to come before; why.
    NoFinalBackup(String),
    /// A change of the spec is not committed yet.
    SafePoint(String),
    /// A newer operator wrote the status, so that the record is not complete; why this is known.
    StatusFromNewerVersion(String),
    /// A safety rule forbids the next step for now.
    Unsafe(Unsafe),
    /// The data of a member are lost, and the grace period is not over.
    MayBeLost {
        /// The member.
        member: MemberName,
        /// What is lost.
        loss: Loss,
        /// It will be over in some seconds.
        is_due: bool,
    },
    /// Data of members may differ, and no majority of the voters is known to have the same.
    Undecided {
        /// The members that have the same data, group by group.
        groups: Vec<BTreeSet<MemberName>>,
        /// Voters that could not be compared.
        unknown: BTreeSet<MemberName>,
        /// Voters that end at their start because their data differ from a peer's.
        kept_out: Vec<MemberName>,
        /// How many voters there are.
        voters: usize,
    },
    /// The volume of the member that takes the place of another is not usable yet; why, if that is known.
    ClaimPending {
        /// The volume.
        claim: MemberName,
        /// The member that is replaced.
        replaced: MemberName,
        /// What Kubernetes reports.
        why: Option<String>,
    },
    /// The data of a member are lost, and `spec.recovery.enabled` is false.
    ReplacementOff {
        /// The member.
        member: MemberName,
        /// What is lost.
        loss: Loss,
    },
    /// Replacements have failed too often.
    ReplacementFailed {
        /// The member that is still lost.
        member: MemberName,
        /// How often in a row.
        failures: u32,
    },
    /// A finished minor upgrade is being taken back, or that is being cancelled; what for.
    Downgrading(String),
    /// New defaults of the operator wait until other clusters have taken them; which.
    Wave(String),
    /// A member is being defragmented (N3).
    Defragmenting(MemberName),
    /// The database of a member stays full: compaction and defragmentation give it too little room.
    StillFull {
        /// The member.
        member: MemberName,
        /// Its database.
        database: Database,
        /// Whether the history is compacted by etcd itself, so that the operator may compact it too.
        compacts: bool,
    },
    /// A volume must have grown before the quota that it is to carry is committed.
    VolumeGrowing(MemberName),
    /// The quorum is being recovered, as ordered.
    Recovering {
        /// Whose data are kept.
        from: RecoverFrom,
        /// What the members have that reported it, or why they have nothing.
        logs: Vec<(MemberName, Result<Log, String>)>,
    },
    /// The order to recover the quorum cannot be followed; why, and what to do.
    RecoveryRefused(String),
    /// It is not known what a member has stored, whose volume may have more than the others; why, and what to do.
    NotRead {
        /// The member.
        member: MemberName,
        /// Why.
        why: String,
    },
    /// The last container of a member may still run; why, and what to do.
    MayRun {
        /// The member.
        member: MemberName,
        /// Why.
        why: String,
    },
    /// The order for another incarnation is not begun; why. The cluster goes on as it is.
    OrderWaits(Order, RestoreFailure),
    /// The members make way for another incarnation.
    Replacing(Order),
    /// A Pod of the incarnation that is replaced was to be gone by now.
    OldMemberStays {
        /// The member.
        member: MemberName,
        /// Its node.
        node: Option<String>,
        /// The order that waits for it.
        order: Order,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused => f.write_str(
                "spec.paused is true: lost Pods are restarted on their own volumes, and nothing else is done. Set it to false to \
                 continue",
            ),
            Self::ForeignObjects(objects) => write!(
                f,
                "this cluster needs names that are taken by objects it does not own: {}. Delete or rename them, or give \
                 the EtcdCluster another name",
                objects.join(", ")
            ),
            Self::ExistingData { found, volumes, unfit } => existing_data(f, found, volumes, *unfit),
            Self::AdoptionRefused(cluster, why) => {
                write!(f, "the volumes of cluster {cluster} are not adopted, and nothing is started: {why}")
            }
            Self::EarlierDataGone { cluster, voters } => write!(
                f,
                "by the status that came with this EtcdCluster it is cluster {cluster} with the members {}, and no volume of it exists. \
                 No empty cluster is started in its place. Bring the volumes back, or delete this EtcdCluster and create it again: with \
                 spec.bootstrap.restore to begin with a backup, or without its status to begin with nothing",
                names(voters)
            ),
            Self::RestoredWithoutData(by) => write!(
                f,
                "{by} created this EtcdCluster, and there is neither a volume of it nor spec.bootstrap.restore. No empty cluster is \
                 started in its place. Bring the volumes back, or delete this EtcdCluster and create it again with \
                 spec.bootstrap.restore to begin with a backup. To begin with nothing, take off its label velero.io/restore-name"
            ),
            Self::AdoptionDiffers { field, needed, found } => write!(
                f,
                "the data of the earlier cluster need {field}: {needed}, and it is {found}, which cannot be changed once they \
                 are adopted. Nothing is adopted until {field} is {needed}"
            ),
            Self::SplitBrain(ids) => {
                let ids: Vec<String> =
                    ids.iter().map(|(name, id)| format!("{name} is in cluster {id}")).collect();
                write!(
                    f,
                    "members belong to different etcd clusters: {}. The operator changes nothing. Find the cluster that \
                     has the data, and stop the members of the other one",
                    ids.join(", ")
                )
            }
            Self::WrongMember { member, answers, recorded } => write!(
                f,
                "Pod {member} answers as etcd member {answers}, but status records {recorded}. The operator changes \
                 nothing. Check which volume the Pod mounts"
            ),
            Self::Objects => f.write_str("Services and certificates are being created"),
            Self::AuthorityLost { secret, loss } => write!(
                f,
                "the certificate authority is lost. {secret}: {loss}. No other authority is created, because running members \
                 would not trust it. The members serve on, and certificates are not renewed. Restore {secret} from a backup, \
                 with its labels and annotations"
            ),
            Self::AuthorityEnded(secret) => write!(
                f,
                "the certificate authority in {secret} has ended, and it signs no certificates any more. Members and clients \
                 do not accept each other. Take a backup of the data, and create a new EtcdCluster with it"
            ),
            Self::Clearing(why) => write!(
                f,
                "the bootstrap attempt was abandoned because {why}. Its Pods and volumes are being deleted; a new attempt \
                 follows"
            ),
            Self::PodStarting(member) => write!(f, "Pod {member} is starting"),
            Self::PodStuck(member, why) => write!(f, "Pod {member} cannot run: {why}"),
            Self::PodStopping(member) => write!(f, "Pod {member} is stopping"),
            Self::VolumeGoing(member) => write!(f, "PersistentVolumeClaim {member} is being deleted"),
            Self::VolumeLost(member) => write!(
                f,
                "the volume of {member} is gone, and its data with it. The member is not restarted on an empty volume. It is \
                 replaced when spec.recovery.gracePeriod is over, if the other members are healthy"
            ),
            Self::Quorum { healthy, voters, why } => {
                let needed = quorum(*voters);
                write!(f, "quorum lost: {healthy} of {voters} voters answer, {needed} are needed")?;
                if !why.is_empty() {
                    write!(f, " ({why})")?;
                }
                f.write_str(
                    ". Lost Pods are restarted on their own volumes, and nothing else is done until a quorum answers",
                )
            }
            Self::UnknownPods(pods) => write!(
                f,
                "status was lost while Pods with data in memory run: {}. The operator does not bootstrap a second cluster \
                 beside them. Save the data, then delete these Pods to bootstrap a new cluster",
                names(pods)
            ),
            Self::FirstLeader => f.write_str("the members elect their first leader"),
            Self::NoSnapshot(why) => write!(f, "no member is started: {why}"),
            Self::Restoring(member, None) => write!(f, "{member} restores the snapshot"),
            Self::Restoring(member, Some(why)) => {
                write!(f, "{member} restores the snapshot; the last try failed: {why}")
            }
            Self::RestoreFailed(member, why) => write!(f, "{member} could not restore the snapshot: {why}"),
            Self::InSync(member) => write!(f, "learner {member} catches up with the leader"),
            Self::LearnersFailed { count, reason } => {
                let times = if *count == 1 { "once".to_owned() } else { format!("{count} times in a row") };
                write!(
                    f,
                    "adding a member has failed {times}: {reason}. The next attempt follows at \
                     status.failedLearners.nextTry, and at once after an edit of the spec"
                )
            }
            Self::Sick(member, why) => write!(f, "{member} is not healthy: {why}"),
            Self::LeadershipStays { leader, tried } => leadership_stays(f, leader, tried),
            Self::UnmanagedMember(id, url) => write!(
                f,
                "etcd's member list has member {id} at {url}, which this EtcdCluster does not manage. Nothing is scaled or \
                 rolled until it is removed (etcdctl member remove {id})"
            ),
            Self::UpgradeBackup(what) => {
                write!(f, "no member is upgraded before the backup of spec.upgrade.backupBefore is complete: {what}")
            }
            Self::UpgradeBackupFailed(why) => {
                write!(f, "no member is upgraded, because the backup before that is missing: {why}")
            }
            Self::FinalBackup(what) => write!(
                f,
                "the members are stopped once the backup of spec.deletion.finalBackup is complete: {what}. To delete without it, remove \
                 spec.deletion.finalBackup"
            ),
            Self::NoFinalBackup(why) => {
                write!(
                    f,
                    "deletion goes on without the backup of spec.deletion.finalBackup, so the volumes are kept: {why}"
                )
            }
            Self::VersionRefused(why) | Self::SafePoint(why) | Self::Downgrading(why) | Self::Wave(why) => {
                f.write_str(why)
            }
            Self::StatusFromNewerVersion(why) => write!(
                f,
                "a newer operator wrote the status of this cluster: {why}. Lost Pods are restarted on their own volumes, \
                 and nothing else is done. Upgrade the operator"
            ),
            Self::Unsafe(why) => write!(f, "{why}"),
            Self::MayBeLost { member, loss, is_due: _ } => write!(
                f,
                "the data of {member} are lost: {loss}. If they still are when spec.recovery.gracePeriod is over, the member is \
                 replaced"
            ),
            Self::Undecided { groups, unknown, kept_out, voters } => {
                undecided(f, groups, unknown, kept_out, *voters)
            }
            Self::ClaimPending { claim, replaced, why } => {
                write!(
                    f,
                    "PersistentVolumeClaim {claim} must be usable before {replaced} is given up for it"
                )?;
                why.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
            Self::ReplacementOff { member, loss } => write!(
                f,
                "the data of {member} are lost: {loss}. It is not replaced, because spec.recovery.enabled is false. Set it to \
                 true, or annotate its Pod with operator.etcd.io/replace=true"
            ),
            Self::ReplacementFailed { member, failures } => write!(
                f,
                "replacing {member} has failed {failures} times in a row, so it is not tried again. status.recovery.message has \
                 the cause. Remove it, then edit the spec"
            ),
            Self::Defragmenting(member) => {
                write!(f, "{member} is being defragmented: it answers again when that is done")
            }
            Self::StillFull { member, database, compacts } => still_full(f, member, database, *compacts),
            Self::VolumeGrowing(member) => write!(
                f,
                "the volume of {member} has not grown to spec.storageSpec.volumeSizeRequest yet, and the larger quota of the edit \
                 would not fit on it. Until then Pods are as they were. If its storage class does not allow expansion, move the members to \
                 new volumes, one after another: annotate Pod {member} with operator.etcd.io/replace=true. Or set \
                 spec.etcd.quotaBackendBytes to the present quota"
            ),
            Self::Recovering { from, logs } => recovering(f, from, logs),
            Self::RecoveryRefused(why) => {
                write!(f, "operator.etcd.io/recover-quorum-from is not followed: {why}")
            }
            Self::NotRead { member, why } => {
                write!(f, "it is not known yet what {member} has stored: {why}")
            }
            Self::MayRun { member, why } => write!(
                f,
                "the quorum is recovered only once no member can run any more, and {member} may: {why}"
            ),
            Self::OrderWaits(order, why) => {
                write!(f, "{order} is not begun, and the members go on as they are: {why}")
            }
            Self::Replacing(order) => write!(
                f,
                "{order} replaces the data: every member is stopped, its volume is quarantined, and new members begin with the snapshot"
            ),
            Self::OldMemberStays { member, node, order } => {
                let node = node.as_deref().unwrap_or("unknown");
                write!(
                    f,
                    "{order} waits: Pod {member} was to be gone by now, and its kubelet on Node {node} does not report that it stopped. It                      may run and acknowledge writes, so no new member is started beside it. Bring the node back. If the machine is off for                      certain, delete the Node or give it the taint node.kubernetes.io/out-of-service. Or delete {order}: then the old                      members start again"
                )
            }
        }
    }
}

/// Without the exact sizes: status would change with every write.
fn still_full(
    f: &mut fmt::Formatter<'_>,
    member: &MemberName,
    database: &Database,
    compacts: bool,
) -> fmt::Result {
    let quota =
        database.quota.map_or_else(|| "its quota".to_owned(), |quota| format!("its quota of {quota} bytes"));
    let why = if database.would_be_below_quota() {
        "it was defragmented a short while ago, or cannot be now"
    } else if compacts {
        "the keys themselves take the space. Delete keys that are not needed"
    } else {
        "nothing compacts the history of its keys by the spec, so that is left to the clients, as a kube-apiserver does \
         every 5 minutes"
    };
    write!(
        f,
        "the database of {member} has reached {quota}, and {why}. Raise spec.etcd.quotaBackendBytes or \
         spec.storageSpec.volumeSizeRequest; the alarm is disarmed once every member has room"
    )
}

/// What each member has, and what the others lack.
fn recovering(
    f: &mut fmt::Formatter<'_>,
    from: &RecoverFrom,
    logs: &[(MemberName, Result<Log, String>)],
) -> fmt::Result {
    write!(
        f,
        "operator.etcd.io/recover-quorum-from={from}: etcd is stopped in every Pod, and the members report what they have stored"
    )?;
    for (member, log) in logs {
        match log {
            Ok(log) => write!(f, ". {member}: {log}")?,
            Err(why) => write!(f, ". {member} has nothing: {why}")?,
        }
    }
    f.write_str(". To end it and start the members again as they were, remove the annotation")
}

fn undecided(
    f: &mut fmt::Formatter<'_>,
    groups: &[BTreeSet<MemberName>],
    unknown: &BTreeSet<MemberName>,
    kept_out: &[MemberName],
    voters: usize,
) -> fmt::Result {
    let of = |group: &BTreeSet<MemberName>| names(&group.iter().cloned().collect::<Vec<_>>());
    write!(
        f,
        "the data of members may differ, and no {} of the {voters} voters are known to have the same, so nobody is replaced",
        quorum(voters)
    )?;
    if groups.len() > 1 {
        let groups: Vec<String> = groups.iter().map(of).collect();
        write!(f, ". The data of these differ: {}", groups.join(" | "))?;
    }
    if !unknown.is_empty() {
        write!(
            f,
            ". Not compared, because they do not answer, refuse it, or run another version: {}",
            of(unknown)
        )?;
    }
    if !kept_out.is_empty() {
        write!(
            f,
            ". etcd's check at the start keeps out {}, which may have the right data. To have it compared, add \
             --experimental-initial-corrupt-check=false to spec.etcdOptions",
            names(kept_out)
        )?;
    }
    f.write_str(
        ". Make the voters that do not answer run again, or find the right data yourself (etcdctl endpoint hashkv --cluster), and \
         follow the runbook (DataInconsistent)",
    )
}

fn existing_data(
    f: &mut fmt::Formatter<'_>,
    found: &[ClusterId],
    volumes: &[MemberName],
    unfit: Option<ClusterId>,
) -> fmt::Result {
    write!(f, "volumes of an earlier cluster of this name exist: {}. ", names(volumes))?;
    if let Some(unfit) = unfit {
        write!(f, "None of them belongs to cluster {unfit}, which operator.etcd.io/adopt names. ")?;
    }
    match found {
        [] => f.write_str(
            "They have no cluster ID and cannot be adopted. Delete them to bootstrap a new cluster",
        ),
        [id] => write!(
            f,
            "To serve their data, annotate this EtcdCluster with operator.etcd.io/adopt={id}. To bootstrap a new cluster, \
             delete them"
        ),
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            write!(
                f,
                "They belong to several clusters ({}). To serve the data of one, annotate this EtcdCluster with \
                 operator.etcd.io/adopt=<its ID>. To bootstrap a new cluster, delete them",
                ids.join(", ")
            )
        }
    }
}

fn leadership_stays(
    f: &mut fmt::Formatter<'_>,
    leader: &MemberName,
    tried: &[(MemberName, usize)],
) -> fmt::Result {
    let times = |count: usize| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let tried: Vec<String> = tried.iter().map(|(to, count)| format!("to {to} {}", times(*count))).collect();
    write!(
        f,
        "{leader} leads, and must not while it is removed or restarted. MoveLeader was sent {}, and it still leads. Each \
         attempt stops writes for up to an election timeout, so the next ones follow with growing delay. Check the disks of \
         the other members and the network between them",
        tried.join(", ")
    )
}

fn names(members: &[MemberName]) -> String {
    let names: Vec<&str> = members.iter().map(MemberName::as_str).collect();
    names.join(", ")
}
