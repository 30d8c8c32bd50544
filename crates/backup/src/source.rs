//! The member that sends the snapshot: a healthy follower where there is one, and never a learner or a member of another cluster. It first
//! serves a linearizable read, so its snapshot has all that was acknowledged before, and another member confirms what it has. Without a quorum
//! it is the member that has applied most.

mod reach;

use std::cmp::Reverse;
use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use quorate_api::job::{BackupOrder, Failure, FailureKind, NoContents, SourceEndpoint};
use quorate_etcd::{AlarmKind, Deadlines, Endpoint, MemberClient, MemberStatus, Read, Tls};
use quorate_model::{ClusterId, Revision};

use self::reach::{Problem, Reached};
use crate::agree::Told;
use crate::{Context, Result, agree};

const DEADLINES: Deadlines = Deadlines { connect: Duration::from_secs(3), call: Duration::from_secs(5) };

/// The member that was chosen, and what is known of its data.
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
    /// What it had at that revision, as another member confirms.
    pub(crate) contents: Told,
}

/// A member that may send its snapshot.
#[derive(Debug)]
pub(crate) struct Candidate<'a> {
    /// Its name.
    pub(crate) member: &'a str,
    /// Its client.
    pub(crate) client: MemberClient,
    /// What it answered.
    pub(crate) status: MemberStatus,
}

/// The members that may send their snapshots, the best first; that one has this revision.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    candidates: Vec<Candidate<'a>>,
    revision: Revision,
}

/// Finds the members that may send their snapshots. Waits a while for the network where it reaches none of them.
pub(crate) async fn choose<'a>(order: &'a BackupOrder, context: &Context) -> Result<Choice<'a>> {
    let mut problems = Vec::new();
    let ask_all = || join_all(order.endpoints.iter().map(|endpoint| ask(endpoint, order.tls, context)));
    let asked = reach::patiently(ask_all, context.log).await;
    let mut candidates = Vec::new();
    for (endpoint, answer) in order.endpoints.iter().zip(asked) {
        match answer.map_err(Problem::into_text).and_then(|candidate| fits(candidate, order)) {
            Ok(candidate) => candidates.push(candidate),
            Err(why) => problems.push(format!("{}: {why}", endpoint.member)),
        }
    }
    one_cluster(&candidates)?;
    // The sort is stable: the order's own order within a rank.
    candidates.sort_by_key(|candidate| rank(&candidate.status, order.without_quorum));
    if order.without_quorum {
        let of = |candidate: &Candidate<'_>| {
            format!("{} has applied {}", candidate.member, candidate.status.raft_applied_index)
        };
        (context.log)(&candidates.iter().map(of).collect::<Vec<_>>().join(", "));
    }
    let mut revision = None;
    while let Some(candidate) = candidates.first() {
        let member = candidate.member;
        let read = if order.without_quorum { Read::Serializable } else { Read::Linearizable };
        match candidate.client.revision(read).await {
            Ok(found) if order.min_revision.is_some_and(|least| found.0 < least) => {
                let least = order.min_revision.unwrap_or_default();
                problems.push(format!("{member}: it has revision {}, {least} is needed", found.0));
            }
            Ok(found) => {
                revision = Some(found);
                break;
            }
            Err(error) => problems.push(format!("{member}: {error}")),
        }
        candidates.remove(0);
    }
    let Some(revision) = revision else {
        let why = if problems.is_empty() { "the order names none".to_owned() } else { problems.join("; ") };
        return Err(Failure::new(FailureKind::NoSource, format!("no member can give a snapshot now: {why}")));
    };
    Ok(Choice { candidates, revision })
}

impl Choice<'_> {
    /// What the first of them answered.
    pub(crate) fn first(&self) -> &MemberStatus {
        &self.candidates[0].status
    }

    /// The first of them whose data another one confirms. Asked once the store is known to take the backup: members do nothing else meanwhile.
    pub(crate) async fn confirm(mut self, order: &BackupOrder, context: &Context) -> Result<Chosen> {
        let (first, contents) = if order.without_quorum {
            (0, Err(NoContents::NoQuorum))
        } else {
            agree::on_contents(&self.candidates, self.revision, context).await?
        };
        let Candidate { member, client, status } = self.candidates.swap_remove(first);
        Ok(Chosen { member: member.to_owned(), client, status, revision: self.revision, contents })
    }
}

/// Who comes first. With a quorum all have what was acknowledged, once they served a linearizable read, and the leader has most to do. Without one
/// they do not, and what counts is how far each has come: entries that one has applied were committed.
fn rank(status: &MemberStatus, without_quorum: bool) -> (Reverse<u64>, bool) {
    let applied = if without_quorum { status.raft_applied_index } else { 0 };
    (Reverse(applied), status.is_leader())
}

async fn ask<'a>(
    endpoint: &'a SourceEndpoint,
    tls: bool,
    context: &Context,
) -> std::result::Result<Candidate<'a>, Problem> {
    let (address, tls) = place_of(&endpoint.url, tls, context).await?;
    let reached = Reached::default();
    let client = MemberClient::over(reached.transport(), &Endpoint { address, tls }, DEADLINES)
        .map_err(|error| Problem::Other(error.to_string()))?;
    let status = client.status().await.map_err(|error| reached.problem(error.to_string()))?;
    Ok(Candidate { member: &endpoint.member, client, status })
}

/// The address behind the URL of a member, and how its TLS is done.
async fn place_of(
    url: &str,
    tls: bool,
    context: &Context,
) -> std::result::Result<(SocketAddr, Option<Tls>), Problem> {
    let (host, authority) = parts_of(url, tls).map_err(Problem::Other)?;
    let server_name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let tls = if tls { Some(credentials(server_name, context).map_err(Problem::Other)?) } else { None };
    // A name server is asked over the network, too.
    let address = address_of(authority).await.map_err(Problem::Unreached)?;
    Ok((address, tls))
}

/// The host of a URL, and its host with the port.
fn parts_of(url: &str, tls: bool) -> std::result::Result<(&str, &str), String> {
    let (scheme, authority) = url.split_once("://").ok_or_else(|| format!("{url:?} is not a URL"))?;
    if (scheme == "https") != tls {
        return Err(format!("{url} does not go with tls: {tls}"));
    }
    let authority = authority.trim_end_matches('/');
    let (host, _) = authority.rsplit_once(':').ok_or_else(|| format!("{url} has no port"))?;
    Ok((host, authority))
}

async fn address_of(authority: &str) -> std::result::Result<SocketAddr, String> {
    let found = tokio::time::timeout(DEADLINES.call, tokio::net::lookup_host(authority)).await;
    let mut found = found
        .map_err(|_| "its name does not resolve in time".to_owned())?
        .map_err(|error| error.to_string())?;
    found.next().ok_or_else(|| "its name has no address".to_owned())
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
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::Places;

    #[test]
    fn o14_without_a_quorum_the_member_that_has_applied_most_comes_first() {
        let status = |id: u64, leader: u64, applied: u64| {
            let header = Some(ResponseHeader { member_id: id, ..ResponseHeader::default() });
            let version = "3.6.16".to_owned();
            let reply = StatusResponse {
                header,
                version,
                leader,
                raft_applied_index: applied,
                ..StatusResponse::default()
            };
            MemberStatus::try_from(reply).unwrap()
        };
        let first = |mut members: Vec<MemberStatus>, without_quorum| {
            members.sort_by_key(|status| rank(status, without_quorum));
            members[0].member_id.0
        };
        let members = || vec![status(1, 0, 100), status(2, 0, 1100), status(3, 0, 900)];
        assert_eq!(first(members(), true), 2);
        assert_eq!(
            first(vec![status(1, 1, 7), status(2, 1, 6), status(3, 1, 7)], false),
            2,
            "followers first"
        );
    }

    fn an_order(without_quorum: bool, urls: &[String]) -> BackupOrder {
        let endpoint = |url: &String| SourceEndpoint { member: "demo-0".to_owned(), url: url.clone() };
        BackupOrder {
            destination: Destination::default(),
            key: String::new(),
            endpoints: urls.iter().map(endpoint).collect(),
            tls: false,
            origin: Origin::default(),
            ordered: None,
            min_revision: None,
            without_quorum,
            compress: false,
            recipients: Vec::new(),
            spool: false,
            quota_bytes: None,
            rate_limit: None,
            seconds: None,
        }
    }

    #[tokio::test]
    async fn a_member_that_breaks_off_was_reached_and_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let breaks_off = tokio::spawn(async move {
            loop {
                drop(listener.accept().await);
            }
        });
        let context = Context {
            places: Places::default(),
            stop: CancellationToken::new(),
            log: |line| panic!("{line}"),
        };
        let failure = choose(&an_order(false, &[url]), &context).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::NoSource, "{failure:?}");
        breaks_off.abort();
    }

    #[test]
    fn corrupt_data_are_not_backed_up_also_where_etcd_does_not_know_whose_they_are() {
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
            may_send(&MemberStatus::try_from(reply).unwrap(), &an_order(without_quorum, &[])).is_ok()
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
