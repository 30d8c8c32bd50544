//! The member that sends the snapshot: a healthy follower where there is one, and never a learner or a member of another cluster. It first
//! serves a linearizable read, so its snapshot has all that was acknowledged before.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use quorate_api::job::{BackupOrder, Failure, FailureKind, SourceEndpoint};
use quorate_etcd::{AlarmKind, Deadlines, Endpoint, MemberClient, MemberStatus, Read, Tls};
use quorate_model::{ClusterId, Revision};

use crate::{Context, Result};

const DEADLINES: Deadlines = Deadlines { connect: Duration::from_secs(3), call: Duration::from_secs(5) };

/// The member that was chosen.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Its name.
    pub(crate) member: String,
    /// Its client.
    pub(crate) client: MemberClient,
    /// Its status before the snapshot.
    pub(crate) status: MemberStatus,
    /// The revision that it had at least.
    pub(crate) revision: Revision,
}

struct Candidate<'a> {
    member: &'a str,
    client: MemberClient,
    status: MemberStatus,
}

/// Chooses the member.
pub(crate) async fn choose(order: &BackupOrder, context: &Context) -> Result<Chosen> {
    let mut problems = Vec::new();
    let asked = join_all(order.endpoints.iter().map(|endpoint| ask(endpoint, order.tls, context))).await;
    let mut candidates = Vec::new();
    for (endpoint, answer) in order.endpoints.iter().zip(asked) {
        match answer.and_then(|candidate| fits(candidate, order)) {
            Ok(candidate) => candidates.push(candidate),
            Err(why) => problems.push(format!("{}: {why}", endpoint.member)),
        }
    }
    one_cluster(&candidates)?;
    // The sort is stable: the order's own order, but a leader last.
    candidates.sort_by_key(|candidate| candidate.status.is_leader());
    for Candidate { member, client, status } in candidates {
        let read = if order.without_quorum { Read::Serializable } else { Read::Linearizable };
        match client.revision(read).await {
            Ok(revision) if order.min_revision.is_some_and(|least| revision.0 < least) => {
                let least = order.min_revision.unwrap_or_default();
                problems.push(format!("{member}: it has revision {}, {least} is needed", revision.0));
            }
            Ok(revision) => return Ok(Chosen { member: member.to_owned(), client, status, revision }),
            Err(error) => problems.push(format!("{member}: {error}")),
        }
    }
    let why = if problems.is_empty() { "the order names none".to_owned() } else { problems.join("; ") };
    Err(Failure::new(FailureKind::NoSource, format!("no member can give a snapshot now: {why}")))
}

async fn ask<'a>(
    endpoint: &'a SourceEndpoint,
    tls: bool,
    context: &Context,
) -> std::result::Result<Candidate<'a>, String> {
    let client = dial(&endpoint.url, tls, context).await?;
    let status = client.status().await.map_err(|error| error.to_string())?;
    Ok(Candidate { member: &endpoint.member, client, status })
}

async fn dial(url: &str, tls: bool, context: &Context) -> std::result::Result<MemberClient, String> {
    let (scheme, authority) = url.split_once("://").ok_or_else(|| format!("{url:?} is not a URL"))?;
    if (scheme == "https") != tls {
        return Err(format!("{url} does not go with tls: {tls}"));
    }
    let authority = authority.trim_end_matches('/');
    let host =
        authority.rsplit_once(':').map(|(host, _)| host).ok_or_else(|| format!("{url} has no port"))?;
    let found = tokio::time::timeout(DEADLINES.call, tokio::net::lookup_host(authority)).await;
    let mut found = found
        .map_err(|_| "its name does not resolve in time".to_owned())?
        .map_err(|error| error.to_string())?;
    let address: SocketAddr = found.next().ok_or("its name has no address")?;
    let server_name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let tls = if tls { Some(credentials(server_name, context)?) } else { None };
    MemberClient::new(&Endpoint { address, tls }, DEADLINES).map_err(|error| error.to_string())
}

fn credentials(server_name: String, context: &Context) -> std::result::Result<Tls, String> {
    let read = |name: &str| {
        let path = context.places.etcd_tls.join(name);
        fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    Ok(Tls { server_name, ca: read("ca.crt")?, cert: read("tls.crt")?, key: read("tls.key")? })
}

fn fits<'a>(candidate: Candidate<'a>, order: &BackupOrder) -> std::result::Result<Candidate<'a>, String> {
    let Candidate { status, .. } = &candidate;
    let recorded = order.origin.cluster_id.as_deref();
    let expected = recorded.map(|id| u64::from_str_radix(id, 16).map(ClusterId));
    match expected {
        Some(Ok(expected)) if expected != status.cluster_id => {
            return Err(format!("it belongs to cluster {}, not to {expected}", status.cluster_id));
        }
        Some(Err(_)) => return Err(format!("{:?} is not a cluster id", recorded.unwrap_or_default())),
        Some(Ok(_)) | None => {}
    }
    if status.is_learner {
        return Err("it is a learner".to_owned());
    }
    if status.leader.is_none() && !order.without_quorum {
        return Err("it follows no leader".to_owned());
    }
    let corrupt = |kind| match kind {
        AlarmKind::Corrupt => true,
        AlarmKind::NoSpace => false,
    };
    if status.alarms.iter().any(|alarm| alarm.member == status.member_id && corrupt(alarm.kind)) {
        return Err("its data are corrupt".to_owned());
    }
    Ok(candidate)
}

fn one_cluster(candidates: &[Candidate<'_>]) -> Result<()> {
    let Some(first) = candidates.first() else { return Ok(()) };
    match candidates.iter().find(|candidate| candidate.status.cluster_id != first.status.cluster_id) {
        None => Ok(()),
        Some(other) => {
            let message = format!(
                "{} and {} belong to different clusters: name the members of one",
                first.member, other.member
            );
            Err(Failure::new(FailureKind::OrderRefused, message))
        }
    }
}
