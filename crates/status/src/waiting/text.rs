//! Messages that are put together from parts.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use quorate_api::{Reason, keys, quantity};
use quorate_model::effect::{ClaimOutlook, Foreign, NoList};
use quorate_model::quorum::quorum;
use quorate_model::record::RecordDoubt;
use quorate_model::snapshot::Database;
use quorate_model::{ClusterId, MemberName, Revision};

use crate::trouble::order_to_replace;
use quorate_manifests::record::witness;

/// `demo-0, demo-1`.
pub(super) fn names(members: &[MemberName]) -> String {
    let names: Vec<&str> = members.iter().map(MemberName::as_str).collect();
    names.join(", ")
}

pub(super) fn foreign(object: &Foreign) -> String {
    match object {
        Foreign::Object(name) => name.clone(),
        Foreign::Authority { secret, uid } => format!(
            "{secret} (a certificate authority of no volume of this cluster: delete it, or, if it is to sign, annotate it with {}={uid})",
            keys::CLUSTER_UID
        ),
    }
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

pub(super) fn quorum_lost(healthy: usize, voters: usize, why: Option<&NoList>) -> String {
    let needed = quorum(voters);
    let why = why.map(|why| match why {
        NoList::Says(why) => why.as_str(),
        NoList::AuthWithoutTls => {
            "the snapshot has auth enabled and this cluster has no client certificates: delete it and restore with TLS"
        }
    });
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    format!(
        "quorum lost: {healthy} of {voters} voters answer, {needed} are needed{why}. Lost Pods are restarted on their own \
         volumes, and nothing else is done until a quorum answers"
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
