//! What happens between a SIGTERM and the end of etcd, so that clients do not notice it.
//!
//! etcd itself closes its client port first, waits for open watches for up to 5 s plus two election timeouts, and hands its leadership
//! over only then. What followers forward to it in between is dropped without a reply. So:
//!
//! 1. (A9) If this member leads, leadership moves to the voter furthest ahead, and the member waits until it follows.
//! 2. (A10) It serves on as a follower while clients learn from Kubernetes that it leaves: until no new connection came for a
//!    second, for 2 s to 5 s in all.
//!
//! Nothing here can hold up the stop: every call has a deadline, and so has the whole.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use quorate_etcd::{CallError, ListedMember, MemberClient, MemberStatus};
use quorate_model::MemberId;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::crash::{AgentStep, CrashAt};
use super::{listens, sockets};
use crate::log;
use crate::probe::Credentials;

/// The time for all of it.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// The time in which kube-proxy on every node learns that the Pod is going.
const SHORTEST: Duration = Duration::from_secs(2);
/// No new connection for so long: clients have stopped coming.
const QUIET: Duration = Duration::from_secs(1);
/// etcd gives up a transfer after an election timeout, 1 s by default.
const TRANSFER: Duration = Duration::from_millis(1500);
/// A voter that takes longer to resolve, connect and answer is no target.
const ASK: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_millis(100);

/// Where the member is left by its attempt to hand over.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// Another member leads.
    Follows,
    /// There is nobody to serve its clients: it is alone, or does not serve.
    Alone,
    /// It leads, or nobody does.
    Unsettled,
}

/// Moves leadership away and serves on until clients have gone.
pub(super) async fn prepare(credentials: &mut Credentials, crash: CrashAt) {
    let begun = Instant::now();
    let servers = listens::everywhere(credentials.address());
    let role = match timeout_at(begun + LONGEST, hand_over(credentials)).await {
        Ok(Ok(role)) => role,
        Ok(Err(error)) => {
            log::info(&format!("stopping without a transfer of leadership: {error}"));
            Role::Unsettled
        }
        Err(_) => {
            log::warn("stopping as the leader: no voter took over in time");
            return;
        }
    };
    crash.after(AgentStep::A9);
    if role != Role::Alone {
        serve_on(&servers, begun).await;
    }
}

/// Serves until no new connection came for a while.
async fn serve_on(servers: &[SocketAddr], begun: Instant) {
    let mut known = BTreeSet::new();
    let mut last_new = Instant::now();
    let mut first = true;
    loop {
        match sockets::clients_of(servers) {
            Ok(now) => {
                if !now.is_subset(&known) && !first {
                    last_new = Instant::now();
                }
                known.extend(now);
                first = false;
            }
            // Then the time alone decides.
            Err(error) => log::warn(&format!("cannot read the socket table: {error}")),
        }
        let served = begun.elapsed();
        if served >= LONGEST || (served >= SHORTEST && last_new.elapsed() >= QUIET) {
            return;
        }
        sleep(PACE).await;
    }
}

/// Moves leadership to another voter, if this member leads.
async fn hand_over(credentials: &mut Credentials) -> Result<Role, CallError> {
    let client = credentials.client().map_err(CallError::Unreachable)?;
    let status = match client.status().await {
        Ok(status) => status,
        // It serves; without a user's rights the agent cannot learn whether it leads.
        Err(CallError::Refused(_, why)) => {
            log::warn(&format!("cannot move leadership away: {why}"));
            return Ok(Role::Unsettled);
        }
        // It does not serve yet, or not any more.
        Err(CallError::Unreachable(_) | CallError::Unknown(_)) => return Ok(Role::Alone),
    };
    let list = client.member_list(false).await?;
    let votes = |member: &&ListedMember| !member.is_learner && member.id != status.member_id;
    let voters: Vec<ListedMember> = list.members.iter().filter(votes).cloned().collect();
    if voters.is_empty() {
        return Ok(Role::Alone);
    }
    if !status.is_leader() {
        return Ok(if status.leader.is_some() { Role::Follows } else { Role::Unsettled });
    }
    let mut targets = by_progress(credentials, &voters, &status).await;
    while let Some(target) = targets.pop() {
        let begun = Instant::now();
        if let Err(error) = client.move_leader(target).await {
            // After a lost reply, as after a refusal, the status shows who leads.
            log::info(&format!("MoveLeader to {target}: {error}"));
        }
        if let Some(leader) = another_leads(&client, begun + TRANSFER).await {
            log::info(&format!(
                "{leader} leads since {} ms after the transfer began",
                begun.elapsed().as_millis()
            ));
            return Ok(Role::Follows);
        }
    }
    log::warn("stopping as the leader: no voter took over");
    Ok(Role::Unsettled)
}

/// The voters that follow this leader, the one furthest ahead last.
async fn by_progress(
    credentials: &Credentials,
    voters: &[ListedMember],
    leader: &MemberStatus,
) -> Vec<MemberId> {
    let asked = voters.iter().map(|voter| async move {
        let status = timeout(ASK, status_of(credentials, voter)).await.ok()??;
        let follows = status.leader == Some(leader.member_id) && status.member_id == voter.id;
        follows.then_some((status.raft_index, status.raft_applied_index, voter.id))
    });
    let mut answers: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
    answers.sort_unstable();
    answers.into_iter().map(|(_, _, id)| id).collect()
}

async fn status_of(credentials: &Credentials, voter: &ListedMember) -> Option<MemberStatus> {
    for url in &voter.client_urls {
        let authority = url.split_once("://").map_or(&**url, |(_, rest)| rest).trim_end_matches('/');
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        let Some(address) = tokio::net::lookup_host(authority).await.ok().and_then(|mut all| all.next())
        else {
            continue;
        };
        let client: MemberClient = credentials.client_of(address, host.trim_matches(['[', ']'])).ok()?;
        if let Ok(status) = client.status().await {
            return Some(status);
        }
    }
    None
}

async fn another_leads(client: &MemberClient, until: Instant) -> Option<MemberId> {
    loop {
        if let Ok(status) = client.status().await
            && !status.is_leader()
            && status.leader.is_some()
        {
            return status.leader;
        }
        if Instant::now() >= until {
            return None;
        }
        sleep(Duration::from_millis(20)).await;
    }
}
