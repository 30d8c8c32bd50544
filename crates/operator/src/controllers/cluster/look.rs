//! The look at etcd: every member is asked for itself, all at the same time; then one of them, the leader if possible,
//! for the member list by quorum.

mod lines;

use std::collections::BTreeMap;

use futures::future::join_all;
use quorate_etcd::{Alarm, CallError, MemberClient, MemberList, MemberStatus};
use quorate_model::snapshot::{Answer, Etcd, List, Listed, Pod, StatusReply};
use quorate_model::{ClusterRef, MemberName, PeerUrl, Snapshot};

use crate::controllers::cluster::metrics::ClusterMetrics;
use crate::runtime::clock::Clock;

pub use lines::{ClientTls, ConnectError, Credentials, MemberClients};

/// Looks at the members behind the Pods that were seen.
pub async fn look(
    seen: &Snapshot,
    lines: &mut MemberClients,
    clock: &Clock,
    metrics: &ClusterMetrics,
) -> Etcd {
    let Snapshot { cluster, pods, .. } = seen;
    lines.keep(pods);
    let asked: Vec<_> =
        seen.can_answer().map(|(member, pod)| (member, lines.to(cluster, member, pod))).collect();
    let answers = join_all(asked.into_iter().map(async |(member, client)| {
        let said = match client {
            Ok(client) => count(metrics, "status", client.status().await)
                .map(|status| said(&status))
                .map_err(|error| error.to_string()),
            Err(no_line) => Err(no_line.to_string()),
        };
        (member.clone(), Answer { at: clock.now(), reply: said })
    }))
    .await;
    let answers: BTreeMap<_, _> = answers.into_iter().collect();
    let list = list(cluster, pods, &answers, lines, clock, metrics).await;
    let (list, list_failure) = match list {
        Ok(list) => (Some(list), None),
        Err(why) => (None, Some(why)),
    };
    Etcd { list, list_failure, answers }
}

/// The outcome of a call is counted; the call itself is unchanged.
pub(crate) fn count<T>(
    metrics: &ClusterMetrics,
    method: &str,
    reply: Result<T, CallError>,
) -> Result<T, CallError> {
    let outcome = match &reply {
        Ok(_) => "ok",
        Err(CallError::Refused(..)) => "refused",
        Err(CallError::Unknown(_)) => "unknown",
        Err(CallError::Unreachable(_)) => "unreachable",
    };
    metrics.etcd_call(method, outcome);
    reply
}

async fn list(
    cluster: &ClusterRef,
    pods: &BTreeMap<MemberName, Pod>,
    answers: &BTreeMap<MemberName, Answer>,
    lines: &mut MemberClients,
    clock: &Clock,
    metrics: &ClusterMetrics,
) -> Result<List, String> {
    let via = whom_to_ask(answers)?;
    let pod = pods.get(via).ok_or_else(|| ConnectError::NoAddress.to_string())?;
    let client: MemberClient = lines.to(cluster, via, pod).map_err(|error| error.to_string())?;
    // From before the call: the list is at least as new.
    let at = clock.now();
    let reply = count(metrics, "member_list", client.member_list(true).await);
    let MemberList { cluster_id, members, .. } = reply.map_err(|error| format!("{via}: {error}"))?;
    let members = members
        .into_iter()
        .map(|member| Listed {
            id: member.id,
            name: member.name.map(|name| name.to_string()).unwrap_or_default(),
            peer_url: member.peer_urls.into_iter().next().unwrap_or_else(|| PeerUrl::new("")),
            is_learner: member.is_learner,
            started: !member.client_urls.is_empty(),
        })
        .collect();
    Ok(List { at, cluster_id, via: via.clone(), members })
}

/// The leader, else a voter that follows one. Without a leader a list by quorum would only wait for its deadline.
fn whom_to_ask(answers: &BTreeMap<MemberName, Answer>) -> Result<&MemberName, String> {
    let said = || answers.iter().filter_map(|(member, answer)| Some((member, answer.reply.as_ref().ok()?)));
    let leads = |said: &StatusReply| said.leader == Some(said.member_id);
    let follows = |said: &StatusReply| said.leader.is_some() && !said.is_learner;
    let found = said().find(|(_, said)| leads(said)).or_else(|| said().find(|(_, said)| follows(said)));
    match (found, answers.len(), said().count()) {
        (Some((member, _)), ..) => Ok(member),
        (None, 0, _) => Err("no member has an address yet".to_owned()),
        (None, _, 0) => Err("no member answers".to_owned()),
        (None, ..) => Err("no voter that answers has a leader".to_owned()),
    }
}

fn said(status: &MemberStatus) -> StatusReply {
    let own = |alarm: &&Alarm| alarm.member == status.member_id;
    let alarms = status.alarms.iter().filter(own).map(|alarm| format!("alarm {:?}", alarm.kind));
    StatusReply {
        cluster_id: status.cluster_id,
        member_id: status.member_id,
        leader: status.leader,
        is_learner: status.is_learner,
        applied: status.raft_applied_index,
        revision: status.revision,
        version: status.version,
        errors: alarms.chain(status.errors.iter().cloned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use quorate_model::{ClusterId, Instant, MemberId, Revision, Version};

    use super::*;

    fn answer(id: u64, leader: Option<u64>, is_learner: bool) -> Answer {
        let said = StatusReply {
            cluster_id: ClusterId(1),
            member_id: MemberId(id),
            leader: leader.map(MemberId),
            is_learner,
            applied: 1,
            revision: Revision(1),
            version: Version::new(3, 6, 1),
            errors: Vec::new(),
        };
        Answer { at: Instant(0), reply: Ok(said) }
    }

    fn asked(answers: &[Answer]) -> Result<String, String> {
        let named = answers
            .iter()
            .enumerate()
            .map(|(n, answer)| (MemberName::new(format!("demo-{n}")), answer.clone()));
        whom_to_ask(&named.collect()).map(ToString::to_string)
    }

    #[test]
    fn h15_the_list_is_asked_of_the_leader_else_of_a_voter_that_follows_one() {
        let silent = Answer { at: Instant(0), reply: Err("unreachable".to_owned()) };
        let (learner, follower, leader) =
            (answer(1, Some(3), true), answer(2, Some(3), false), answer(3, Some(3), false));
        assert_eq!(asked(&[learner.clone(), follower.clone(), leader]).as_deref(), Ok("demo-2"));
        assert_eq!(asked(&[silent.clone(), learner.clone(), follower]).as_deref(), Ok("demo-2"));
        assert!(asked(&[learner, answer(2, None, false)]).unwrap_err().contains("has a leader"));
        assert!(asked(&[silent]).unwrap_err().contains("no member answers"));
    }
}
