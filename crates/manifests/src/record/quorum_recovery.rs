//! The recorded facts about the recovery of a lost quorum.

use quorate_api::status::{ChosenMember, LastContainer, QuorumRecoveryStatus};
use quorate_model::quorum_recovery::{Chosen, Container, Log, QuorumRecovery, RecoverFrom};
use quorate_model::{Instant, MemberName, Revision, Uid};

use super::time::micro;

pub(super) fn read(status: &QuorumRecoveryStatus) -> QuorumRecovery {
    let QuorumRecoveryStatus { from, since, containers, chosen } = status;
    let containers = containers.iter().map(|container| {
        let LastContainer { member, pod_uid, node_name, served_on_node_name } = container;
        let (node, served_on) = (node_name.clone(), served_on_node_name.clone());
        let container = Container { pod: pod_uid.as_deref().map(Uid::new), node, served_on };
        (MemberName::new(&**member), container)
    });
    QuorumRecovery {
        from: RecoverFrom::read(from),
        since: Instant(since.0.as_millisecond()),
        containers: containers.collect(),
        // One that cannot be read is chosen once more.
        chosen: chosen.as_ref().and_then(read_chosen),
    }
}

fn read_chosen(status: &ChosenMember) -> Option<Chosen> {
    let index = |index: i64| u64::try_from(index).ok();
    Some(Chosen {
        member: MemberName::new(&*status.member),
        log: Log {
            committed: index(status.committed_index)?,
            last_term: index(status.last_term)?,
            last_index: index(status.last_index)?,
            consistent: index(status.consistent_index)?,
            term: index(status.term)?,
            revision: Revision(status.revision),
            cluster_id: status.cluster_id.parse().ok()?,
            member_id: status.member_id.parse().ok()?,
        },
    })
}

pub(super) fn write(recovery: &QuorumRecovery) -> QuorumRecoveryStatus {
    let QuorumRecovery { from, since, containers, chosen } = recovery;
    let containers = containers.iter().map(|(member, Container { pod, node, served_on })| LastContainer {
        member: member.as_str().to_owned(),
        pod_uid: pod.as_ref().map(ToString::to_string),
        node_name: node.clone(),
        served_on_node_name: served_on.clone(),
    });
    QuorumRecoveryStatus {
        from: from.to_string(),
        since: micro(*since),
        containers: containers.collect(),
        chosen: chosen.as_ref().map(write_chosen),
    }
}

fn write_chosen(chosen: &Chosen) -> ChosenMember {
    let Chosen { member, log } = chosen;
    let Log { committed, last_term, last_index, consistent, term, revision, cluster_id, member_id } = *log;
    let index = |index: u64| i64::try_from(index).unwrap_or(i64::MAX);
    ChosenMember {
        member: member.as_str().to_owned(),
        cluster_id: cluster_id.to_string(),
        member_id: member_id.to_string(),
        committed_index: index(committed),
        consistent_index: index(consistent),
        last_index: index(last_index),
        last_term: index(last_term),
        term: index(term),
        revision: revision.0,
    }
}
