//! What members report: their own Status, the member list, the free space of their volumes, and what a TLS handshake shows.

mod free_space;
mod handshake;

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_etcd::{CallError, MemberClient, MemberList, MemberStatus};
use quorate_model::snapshot::{
    Answer, Database, IN_SYNC_WITHIN, KeysHash, List, Listed, Pod, Proof, StatusReply,
};
use quorate_model::{MemberName, PeerUrl, Revision, Snapshot};
use quorate_reconcile::{ClusterView, Proved};

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::metrics::ClusterMetrics;

pub(super) use crate::controllers::members::{ClientTls, ConnectError, MemberClients, operator_tls};
pub(super) use free_space::free_space;
pub(super) use handshake::shown;

/// How often a member is asked whether it has applied an index.
const POLL: Duration = Duration::from_millis(50);

/// How long an answer may take that is asked for at the end of a proof.
const GRACE: Duration = Duration::from_millis(500);

/// How members are connected to, as the objects of the cluster have it.
pub(super) fn client_tls(view: &ClusterView, observed: &Snapshot) -> ClientTls {
    if !observed.target().tls {
        return ClientTls::Plain;
    }
    let secrets: Vec<_> = view.secrets.values().map(AsRef::as_ref).collect();
    let has_credential = observed.record.has_credential();
    operator_tls(&secrets, (&observed.cluster, &observed.uid), has_credential)
}

/// The connection to a member.
pub(super) fn connect(
    clients: &mut MemberClients,
    observed: &Snapshot,
    member: &MemberName,
) -> Result<MemberClient, ConnectError> {
    let pod: &Pod = observed.pods.get(member).ok_or(ConnectError::NoAddress)?;
    clients.to(&observed.cluster, member, pod)
}

/// A member's own Status.
pub(super) async fn status(shared: &Shared, client: Result<MemberClient, ConnectError>) -> Answer {
    let reply = match client {
        Ok(client) => count(&shared.metrics, "status", client.status().await)
            .map(|status| status_reply(&status))
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    Answer { at: shared.runtime.clock.now(), reply }
}

/// The linearizable member list of a member.
pub(super) async fn member_list(
    shared: &Shared,
    via: MemberName,
    client: Result<MemberClient, ConnectError>,
) -> Result<List, String> {
    let client = client.map_err(|error| error.to_string())?;
    // From before the call: the list is at least as new.
    let at = shared.runtime.clock.now();
    let reply = count(&shared.metrics, "member_list", client.member_list(true).await);
    let MemberList { cluster_id, members, .. } = reply.map_err(|error| format!("{via}: {error}"))?;
    let members = members.into_iter().map(|member| Listed {
        id: member.id,
        name: member.name.map(|name| name.to_string()).unwrap_or_default(),
        peer_url: member.peer_urls.into_iter().next().unwrap_or_else(|| PeerUrl::new("")),
        is_learner: member.is_learner,
        started: !member.client_urls.is_empty(),
    });
    Ok(List { at, cluster_id, members: members.collect(), via })
}

/// The hash of a member's keys, up to a revision or to the latest one.
pub(super) async fn keys_hash(
    shared: &Shared,
    client: Result<MemberClient, ConnectError>,
    revision: Option<Revision>,
) -> Result<KeysHash, String> {
    let client = client.map_err(|error| error.to_string())?;
    count(&shared.metrics, "hash_kv", client.hash_kv(revision).await).map_err(|error| error.to_string())
}

/// Two AlarmList calls at one member, each a raft entry; after each, the members are given until they have applied it. The
/// second is sent only when they have applied the first, because raft may hand out two entries at once, before either is
/// stored.
pub(super) async fn prove(
    shared: &Shared,
    at: &MemberName,
    members: Vec<(MemberName, Result<MemberClient, ConnectError>)>,
) -> Result<Proved, String> {
    let began = shared.runtime.clock.now();
    let deadline = tokio::time::Instant::now() + Duration::from_millis(IN_SYNC_WITHIN.0);
    let clients: BTreeMap<MemberName, MemberClient> =
        members.into_iter().filter_map(|(member, client)| Some((member, client.ok()?))).collect();
    let asked = clients.get(at).ok_or_else(|| format!("there is no connection to {at}"))?;
    let mut proved = None;
    for _ in 0..2 {
        let failed = |error: CallError| format!("{at}: {error}");
        make_entry(shared, at, asked).await?;
        // What is committed, not what is applied: the reply is sent a moment before the applied index is raised.
        let status = count(&shared.metrics, "status", asked.status().await).map_err(failed)?;
        let index = status.raft_index;
        let each = clients.iter().map(|(member, client)| {
            let applied = applied(shared, client, index, deadline);
            async move { (member.clone(), applied.await) }
        });
        let answers = futures::future::join_all(each).await.into_iter().collect();
        proved = Some(Proved { proof: Proof { at: began, index }, answers });
    }
    proved.ok_or_else(|| "no call was made".to_owned())
}

/// One AlarmList call, which is one raft entry.
pub(super) async fn entry(
    shared: &Shared,
    at: &MemberName,
    client: Result<MemberClient, ConnectError>,
) -> Result<(), String> {
    make_entry(shared, at, &client.map_err(|error| error.to_string())?).await
}

async fn make_entry(shared: &Shared, at: &MemberName, client: &MemberClient) -> Result<(), String> {
    let reply = count(&shared.metrics, "alarm_list", client.alarms().await);
    reply.map(drop).map_err(|error| format!("{at}: {error}"))
}

/// A member's answer once it has applied an index, or its last answer before the deadline.
async fn applied(
    shared: &Shared,
    client: &MemberClient,
    index: u64,
    deadline: tokio::time::Instant,
) -> Answer {
    loop {
        let reply =
            match tokio::time::timeout_at(deadline.max(tokio::time::Instant::now() + GRACE), client.status())
                .await
            {
                Ok(reply) => count(&shared.metrics, "status", reply).map_err(|error| error.to_string()),
                Err(_) => Err("it did not answer in time".to_owned()),
            };
        let at = shared.runtime.clock.now();
        let is_applied = reply.as_ref().is_ok_and(|status| status.raft_applied_index >= index);
        if is_applied || reply.is_err() || tokio::time::Instant::now() >= deadline {
            return Answer { at, reply: reply.map(|status| status_reply(&status)) };
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The outcome of a call is counted; the call itself is unchanged.
pub(super) fn count<T>(
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

fn status_reply(status: &MemberStatus) -> StatusReply {
    StatusReply {
        cluster_id: status.cluster_id,
        member_id: status.member_id,
        leader: status.leader,
        is_learner: status.is_learner,
        committed: status.raft_index,
        applied: status.raft_applied_index,
        revision: status.revision,
        version: status.version,
        alarms: status.alarms.clone(),
        errors: status.errors.clone(),
        database: Database {
            size: status.db_size,
            in_use: status.db_size_in_use,
            quota: status.db_size_quota,
        },
        storage_version: status.storage_version,
        downgrade: status.downgrade,
    }
}
