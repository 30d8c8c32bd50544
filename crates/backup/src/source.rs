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
    may_send(&candidate.status, order).map(|()| candidate)
}

fn may_send(status: &MemberStatus, order: &BackupOrder) -> std::result::Result<(), String> {
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
    // One that names no member: whoever is asked may be the one whose data are wrong. Without a quorum it cannot be disarmed.
    if !order.without_quorum && status.errors.iter().any(|error| error.contains("alarm:CORRUPT")) {
        return Err("etcd reports corrupt data, and does not know of which member".to_owned());
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use quorate_api::destination::Destination;
    use quorate_api::job::Origin;
    use quorate_etcd::wire::{ResponseHeader, StatusResponse};

    use super::*;

    #[test]
    fn corrupt_data_are_not_backed_up_also_where_etcd_does_not_know_whose_they_are() {
        let order = |without_quorum| BackupOrder {
            destination: Destination::default(),
            key: String::new(),
            endpoints: Vec::new(),
            tls: false,
            origin: Origin::default(),
            min_revision: None,
            without_quorum,
            compress: false,
            recipients: Vec::new(),
            spool: false,
        };
        let sends = |error: &str, without_quorum| {
            let header = Some(ResponseHeader { member_id: 7, ..ResponseHeader::default() });
            let errors = if error.is_empty() { Vec::new() } else { vec![error.to_owned()] };
            let reply = StatusResponse {
                header,
                version: "3.6.16".to_owned(),
                leader: 7,
                errors,
                ..StatusResponse::default()
            };
            may_send(&MemberStatus::try_from(reply).unwrap(), &order(without_quorum)).is_ok()
        };
        for (error, of_a_quorum, without_quorum) in [
            ("", true, true),
            ("memberID:7 alarm:NOSPACE ", true, true),
            ("memberID:8 alarm:CORRUPT ", true, true),
            ("memberID:7 alarm:CORRUPT ", false, false),
            ("alarm:CORRUPT ", false, true),
        ] {
            assert_eq!((sends(error, false), sends(error, true)), (of_a_quorum, without_quorum), "{error:?}");
        }
    }
}
