//! What members report: their own Status, and the member list.

mod clients;

use quorate_etcd::{Alarm, CallError, MemberClient, MemberList, MemberStatus};
use quorate_manifests::certificate::{self, Certificate};
use quorate_model::snapshot::{Answer, List, Listed, Pod, StatusReply};
use quorate_model::{MemberName, PeerUrl, Snapshot};
use quorate_reconcile::ClusterView;

use crate::controllers::cluster::Shared;
use crate::controllers::cluster::metrics::ClusterMetrics;

pub(super) use clients::{ClientTls, ConnectError, Credentials, MemberClients};

/// How members are connected to, as the objects of the cluster have it.
pub(super) fn client_tls(view: &ClusterView, observed: &Snapshot) -> ClientTls {
    if !observed.target().tls {
        return ClientTls::Plain;
    }
    let secrets: Vec<_> = view.secrets.values().map(AsRef::as_ref).collect();
    let kept = certificate::kept(Certificate::Client, &secrets, &observed.cluster, &observed.uid);
    kept.map_or(ClientTls::NotYet, |kept| {
        ClientTls::Tls(Credentials { ca: kept.ca.to_vec(), cert: kept.cert.to_vec(), key: kept.key.to_vec() })
    })
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
