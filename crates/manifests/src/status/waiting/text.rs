//! Messages that are put together from parts.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use quorate_api::{Reason, keys, quantity};
use quorate_model::effect::{ClaimOutlook, Unsafe};
use quorate_model::quorum::quorum;
use quorate_model::quorum_recovery::{Log, RecoverFrom};
use quorate_model::record::RecordDoubt;
use quorate_model::rotation::{Rotation, RotationStage};
use quorate_model::snapshot::{Database, KeptOutByAuth};
use quorate_model::{ClusterId, Instant, MemberName, Revision};

use super::super::time;
use crate::record::witness;
use crate::trouble::order_to_replace;

/// `demo-0, demo-1`.
pub(super) fn names(members: &[MemberName]) -> String {
    let names: Vec<&str> = members.iter().map(MemberName::as_str).collect();
    names.join(", ")
}

pub(super) fn rotating(rotation: &Rotation, why: &str) -> String {
    let Rotation { ca, from, to, stage, given: _, since: _, told: _ } = rotation;
    let step = match stage {
        RotationStage::Trust => "members are being restarted to trust both; then the new one signs",
        RotationStage::Sign => {
            "the new one signs, and both are trusted until nobody presents a certificate of the other"
        }
        RotationStage::Drop => {
            "it is taken out of every Secret, and members are being restarted to forget it"
        }
    };
    if *stage == RotationStage::Drop {
        return format!(
            "the certificate authority of {ca} is {to}, and {from} is no longer to be trusted beside it: {step}. Now: {why}"
        );
    }
    format!("the certificate authority of {ca} {from} is being replaced by {to}: {step}. Now: {why}")
}

/// What clients have to do, by when, and what ends the wait for them.
pub(in crate::status) fn clients_have_time(rotation: &Rotation, until: Instant) -> String {
    let Rotation { ca, from, to, stage, given: _, since: _, told: _ } = rotation;
    let until = time(until).0;
    match stage {
        RotationStage::Trust => format!(
            "clients have until {until} to trust a new authority. The certificate authority of {ca} {from} is being replaced by {to}, which signs \
             from then on. A client that does not trust both by then is cut off. Restart those that read ca.crt once, such as API servers. Once all \
             trust both, annotate the EtcdCluster with {}={to}",
            keys::CLIENTS_TRUST
        ),
        RotationStage::Sign | RotationStage::Drop => format!(
            "clients have until {until} to present a new certificate. The certificate authority of {ca} {from} is being replaced by {to}, and {from} is \
             forgotten from then on. A client that presents what {from} signed is cut off then. Renew every copy of a client certificate. Once all \
             present what {to} signed, annotate the EtcdCluster with {}={to}",
            keys::CLIENTS_PRESENT
        ),
    }
}

/// What holds a rotation up, and what is trusted meanwhile.
pub(in crate::status) fn held_up(rotation: &Rotation, why: &Unsafe) -> String {
    let Rotation { ca, from, to, stage, given: _, since, told: _ } = rotation;
    let cure = if let Unsafe::NotTrusted(member) | Unsafe::EarlierPresented(member) = why {
        let key = keys::REPLACE_MEMBER;
        format!(". If {member} does not come back, replace it: annotate the EtcdCluster with {key}={member}")
    } else {
        String::new()
    };
    format!(
        "the change of an authority is held up: {why}. The certificate authority of {ca} {from} has been in the stage {stage} of its replacement by \
         {to} since {}, and {from} stays trusted until that ends{cure}",
        time(*since).0
    )
}

pub(super) fn existing_data(
    found: &[ClusterId],
    volumes: &[MemberName],
    quarantined: &[MemberName],
    unmatched: Option<ClusterId>,
) -> String {
    let is_quarantined = !quarantined.is_empty();
    let unmatched = unmatched.map(|unmatched| {
        let that_can = if is_quarantined { " that is not quarantined" } else { "" };
        format!("None of them{that_can} belongs to cluster {unmatched}, which operator.etcd.io/adopt names. ")
    });
    let choice = match found {
        [] => {
            "They have no cluster ID and cannot be adopted. Delete them to bootstrap a new cluster".to_owned()
        }
        [id] => format!(
            "To serve their data, annotate this EtcdCluster with operator.etcd.io/adopt={id}. To bootstrap a new cluster, \
             delete them"
        ),
        several => {
            let ids: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!(
                "They belong to several clusters ({}). To serve the data of one, annotate this EtcdCluster with \
                 operator.etcd.io/adopt=<its ID>. To bootstrap a new cluster, delete them",
                ids.join(", ")
            )
        }
    };
    let first = is_quarantined.then(|| {
        format!(
            ". Quarantined volumes ({}) are never served: to serve their data, first remove the annotation \
             operator.etcd.io/quarantined-since and the label operator.etcd.io/quarantined from them. An EtcdRestore that replaced them may \
             be carried out again then: delete it if that is not wanted",
            names(quarantined)
        )
    });
    format!(
        "volumes of an earlier cluster of this name exist: {}. {}{choice}{}",
        names(volumes),
        unmatched.unwrap_or_default(),
        first.unwrap_or_default()
    )
}

/// R22.
pub(super) fn record_doubt(doubt: &RecordDoubt) -> (Reason, String) {
    match doubt {
        RecordDoubt::Newer(why) => (
            Reason::StatusFromNewerVersion,
            format!(
                "a newer operator wrote the status of this cluster: {why}. {KEPT_RUNNING}. Upgrade the operator"
            ),
        ),
        RecordDoubt::Incomplete { hash } => (
            Reason::RecordIncomplete,
            format!(
                "status does not have the record that the operator wrote: status.recordHash is not the hash of what is there. A \
                 CustomResourceDefinition of another program or release dropped fields, somebody edited status, or a backup restored a \
                 part of it. {KEPT_RUNNING}. Apply the CustomResourceDefinitions of this release, and restore status. If what status says is right, \
                 confirm it with the annotation {}",
                witness::confirmation(hash)
            ),
        ),
    }
}

/// What is done where the record is in doubt.
const KEPT_RUNNING: &str = "Lost Pods are restarted on their own volumes, certificates are renewed, the PodDisruptionBudget is kept up, and \
                            nothing else is done";

pub(super) fn split_brain(ids: &[(MemberName, ClusterId)]) -> String {
    let ids: Vec<String> = ids.iter().map(|(name, id)| format!("{name} is in cluster {id}")).collect();
    format!(
        "members belong to different etcd clusters: {}. The operator changes nothing. Find the cluster that has the data, and \
         stop the members of the other one",
        ids.join(", ")
    )
}

/// How auth that a person enabled is handed over to the operator, or ended.
const WITH_TLS: &str = "Hand it over: kubectl patch etcdcluster NAME --type=merge -p '{\"spec\":{\"auth\":{\"enabled\":true}}}'. Then the operator is \
     the user root by a certificate of its own, and users, roles and passwords stay. Or switch it off: `etcdctl --user root auth disable`";

/// Somebody enabled auth; `is_root`: so that the operator may do everything.
pub(in crate::status) fn auth_not_ours(is_root: bool) -> String {
    let so = if is_root {
        "The user of the operator has the role root there, so it goes on. But that is also the user of everybody who reads the Secrets \
         NAME-client-tls or NAME-connection"
    } else {
        "The operator is no user that may do everything: lost Pods are restarted, but each change of membership is refused, each move of \
         leadership, each backup, each defragmentation and each comparison of members"
    };
    format!(
        "etcd's auth is on, and spec.auth does not have it: somebody enabled it, or it came with a snapshot. {so}. {WITH_TLS}"
    )
}

/// Nothing is known of a quorum, so nothing is said of one.
pub(super) fn auth_enabled(kept_out: &KeptOutByAuth) -> String {
    let KeptOutByAuth { refuse, ready, voters, tls, why } = kept_out;
    let way_out = if *tls {
        WITH_TLS
    } else {
        "Without TLS the operator cannot be a user, and spec.tls.provider is fixed. Switch auth off: `etcdctl --user root auth disable`. \
         For auth, restore a backup into a new EtcdCluster with TLS"
    };
    format!(
        "etcd's auth is enabled, and it refuses the operator, which is no user: {refuse} of {voters} voters run and answer {why:?}. As far as \
         their Pods say, {ready} of {voters} are ready, and clients that are users are served. Meanwhile lost Pods are restarted, and nothing \
         else is done: no change of membership, no rollout, no replacement. {way_out}"
    )
}

pub(super) fn edited_too_late(field: &str, committed: &str, found: &str) -> String {
    let path = field.split('.');
    let patch = path.rev().fold(format!("{committed:?}"), |inner, name| format!("{{\"{name}\":{inner}}}"));
    format!(
        "{field} is {found:?}, and the members run with {committed:?}, which cannot change any more: the edit came while the cluster began, and \
         members may have stored data by then. All else of the spec is followed. Take the edit back: kubectl patch etcdcluster NAME \
         --type=merge -p '{patch}'. For {found:?}, take a backup and create another EtcdCluster with it"
    )
}

pub(super) fn quorum_lost(healthy: usize, voters: usize, why: &str) -> String {
    let needed = quorum(voters);
    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
    format!(
        "quorum lost: {healthy} of {voters} voters answer, {needed} are needed{why}. Lost Pods are restarted on their own \
         volumes, and nothing else is done until a quorum answers"
    )
}

pub(super) fn learners_failed(count: u32, reason: &str) -> String {
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times in a row") };
    format!(
        "adding a member has failed {times}: {reason}. The next attempt follows at status.failedLearners.nextTry, and at once \
         after an edit of the spec"
    )
}

pub(super) fn leader_transfer_failed(leader: &MemberName, tried: &[(MemberName, usize)]) -> String {
    let times = |count: usize| if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let tried: Vec<String> = tried.iter().map(|(to, count)| format!("to {to} {}", times(*count))).collect();
    format!(
        "{leader} leads, and must not while it is removed or restarted. MoveLeader was sent {}, and it still leads. Each \
         attempt stops writes for up to an election timeout, so the next ones follow with growing delay. Check the disks of \
         the other members and the network between them",
        tried.join(", ")
    )
}

/// How a member gets past etcd's check at the start (`InitialCorruptCheck`).
const CHECK_OFF: &str = "add --experimental-initial-corrupt-check=false to spec.etcdOptions for etcd 3.5, and from 3.6 on remove \
                         InitialCorruptCheck=true or that flag from it";

pub(super) fn undecided(
    groups: &[BTreeSet<MemberName>],
    unknown: &BTreeSet<MemberName>,
    kept_out: &[MemberName],
    voters: usize,
) -> String {
    let of = |group: &BTreeSet<MemberName>| names(&group.iter().cloned().collect::<Vec<_>>());
    let mut text = format!(
        "the data of members may differ, and fewer than {} of {voters} voters are known to hold identical data, so no member is \
         replaced",
        quorum(voters)
    );
    if groups.len() > 1 {
        let groups: Vec<String> = groups.iter().map(of).collect();
        let _ = write!(text, ". The data of these differ: {}", groups.join(" | "));
    }
    if !unknown.is_empty() {
        let unknown = of(unknown);
        let _ = write!(
            text,
            ". Not compared, because they do not answer, refuse it, or run another version: {unknown}"
        );
    }
    if !kept_out.is_empty() {
        let _ = write!(
            text,
            ". etcd's check at the start keeps out {}, which may have the right data. To have it compared, {CHECK_OFF}",
            names(kept_out)
        );
    }
    text.push_str(
        ". Make the voters that do not answer run again, or find the right data yourself (etcdctl endpoint hashkv --cluster), and \
         follow the runbook (DataInconsistent)",
    );
    text
}

pub(super) fn not_compared(unknown: &BTreeSet<MemberName>, kept_out: &[MemberName]) -> String {
    let unknown = names(&unknown.iter().cloned().collect::<Vec<_>>());
    let mut text = format!(
        "the data of members may differ. A majority of the voters has the same, and these could not be compared with it, because they \
         do not answer, refuse it, or run another version: {unknown}. Until they are, an alarm CORRUPT is not disarmed, and \
         etcd refuses writes under one"
    );
    if !kept_out.is_empty() {
        let _ = write!(
            text,
            ". etcd's check at the start keeps out {}, and it is not certain whom it differs from. To have it compared, {CHECK_OFF}",
            names(kept_out)
        );
    }
    let _ = write!(
        text,
        ". Make them run again. One that cannot is replaced on order: {}. The runbook has more (DataInconsistent)",
        order_to_replace("MEMBER")
    );
    text
}

/// Without the exact sizes: status would change with every write.
pub(super) fn still_full(member: &MemberName, database: &Database, compacts: bool) -> String {
    let quota = database
        .quota
        .map_or_else(|| "its quota".to_owned(), |quota| format!("its quota of {}", quantity::text(quota)));
    let why = if database.would_be_below_quota() {
        "it was defragmented a short while ago, or cannot be now"
    } else if compacts {
        "the keys themselves take the space. Delete keys that are not needed"
    } else {
        "auto-compaction is off in the spec, so the operator does not compact: clients own the history, as a kube-apiserver, \
         which compacts every 5 minutes"
    };
    format!(
        "the database of {member} has reached {quota}, and {why}. Raise spec.etcd.quotaBackendBytes or \
         spec.storageSpec.volumeSizeRequest; the alarm is disarmed once every member has room"
    )
}

/// What each member has, and what the others lack.
pub(super) fn recovering(from: &RecoverFrom, logs: &[(MemberName, Result<Log, String>)]) -> String {
    let mut text = format!(
        "operator.etcd.io/recover-quorum-from={from}: etcd is stopped in every Pod, and the members report what they have stored"
    );
    for (member, log) in logs {
        let _ = match log {
            Ok(log) => write!(text, ". {member}: {log}"),
            Err(why) => write!(text, ". {member} has nothing: {why}"),
        };
    }
    text.push_str(". To end it and start the members again as they were, remove the annotation");
    text
}

pub(super) fn data_went_back(had: Revision, has: Revision) -> String {
    format!(
        "the cluster was stopped at revision {had}, and woke with revision {has}: its volumes were restored from an earlier time meanwhile, so writes that were \
         acknowledged are missing. No client is led to it. Set spec.size to 0 and restore the later volumes, or restore a backup with an \
         EtcdRestore. If these are the data that you want, annotate the EtcdCluster with {}=CLUSTER-ID/{has} (status.clusterID)",
        keys::ACCEPT_DATA_LOSS
    )
}

pub(super) fn claim_terminating(member: &MemberName, outlook: ClaimOutlook) -> String {
    let then = match outlook {
        ClaimOutlook::Moves => {
            "The member moves to a new claim, under a new name, as soon as every other member is healthy".to_owned()
        }
        ClaimOutlook::MovesInPlace => {
            "There was no place for the next member beside this one, so this one is removed first, and the next one joins in its place. Until \
             then the cluster has one member less. To have room for one more instead, see spec.placement, the nodes and the quotas of the namespace; to keep the data, set persistentVolumeReclaimPolicy of its PersistentVolume to Retain"
                .to_owned()
        }
        ClaimOutlook::MovesAlone => {
            "The member moves to a new claim, under a new name: a second member joins, and once it votes and has all data, this one is \
             removed"
                .to_owned()
        }
        ClaimOutlook::MovesOnOrder => {
            format!(
                "It does not move to a new claim by itself, because spec.recovery.enabled is false: {}",
                order_to_replace(member.as_str())
            )
        }
        ClaimOutlook::Stays => {
            "Let its volume outlive the claim: set persistentVolumeReclaimPolicy of its PersistentVolume to Retain. Once a quorum serves, \
             every member is healthy and nothing halts the operator, the member moves to a new claim, under a new name"
                .to_owned()
        }
        ClaimOutlook::AtSizeZero => {
            "Set spec.size back: once the cluster runs, the member moves to a new claim, and then size zero keeps the data".to_owned()
        }
        ClaimOutlook::Ordered => format!(
            "The order to stop every member waits for that. Withdraw it, and the member moves to a new claim; or copy the data if they \
             matter, and delete Pod {member}"
        ),
        ClaimOutlook::Deleted => format!(
            "The EtcdCluster is being deleted and its data are to be kept (spec.storageSpec.retention.whenDeleted, or \
             spec.deletion.finalBackup), so that waits. Copy the data and delete Pod {member}; or give them up: set whenDeleted to Delete and \
             remove finalBackup"
        ),
    };
    format!(
        "somebody deleted PersistentVolumeClaim {member}. It goes, with the data, as soon as Pod {member} does: do not delete or drain that \
         Pod. {then}"
    )
}

pub(super) fn pod_not_terminated(member: &MemberName, node: Option<&str>) -> String {
    let node = node.unwrap_or("unknown");
    format!(
        "the kubelet of Node {node} has not confirmed that Pod {member} stopped, so it may still serve. Bring the node back. If the machine is \
         off for certain, delete the Node or give it the taint node.kubernetes.io/out-of-service"
    )
}
