//! The client against real etcd processes, on every supported minor version.

use std::time::{Duration, Instant};

use quorate_etcd::testkit::{Cluster, Setup, eventually};
use quorate_etcd::{Alarm, AlarmKind, CallError, Deadlines, Endpoint, MemberClient, Read, Refusal};
use quorate_model::{MemberId, Minor, PeerUrl};

macro_rules! behaviours {
    ($version:ident, $minor:expr) => {
        mod $version {
            use quorate_model::Minor;

            const MINOR: Minor = $minor;

            #[tokio::test]
            async fn a_member_reports_its_status_and_its_list() {
                super::status_and_list(MINOR).await;
            }

            #[tokio::test]
            async fn a_learner_is_added_promoted_and_removed_and_every_refusal_is_recognised() {
                super::learner_life(MINOR).await;
            }

            #[tokio::test]
            async fn h45_a_hung_member_costs_no_more_than_the_deadline_and_the_outcome_is_unknown() {
                super::hung_member(MINOR).await;
            }

            #[tokio::test]
            async fn only_the_leader_hands_over_and_only_to_a_voter() {
                super::leadership(MINOR).await;
            }

            #[tokio::test]
            async fn without_a_quorum_the_serializable_reads_still_answer() {
                super::no_quorum(MINOR).await;
            }

            #[tokio::test]
            async fn a_full_database_is_an_alarm_and_a_refusal() {
                super::full_database(MINOR).await;
            }
        }
    };
}

behaviours!(etcd_3_5, Minor(3, 5));
behaviours!(etcd_3_6, Minor(3, 6));
behaviours!(etcd_3_7, Minor(3, 7));

async fn status_and_list(minor: Minor) {
    let cluster = Cluster::start(Setup::new(minor, 3)).await;
    let leader = cluster.led().await;
    let client = cluster.members[leader].client();

    let before = client.status().await.unwrap();
    assert_eq!(before.version.line(), minor);
    assert!(before.is_leader() && !before.is_learner, "{before:?}");
    assert!(before.raft_applied_index > 0 && before.raft_term > 1 && before.db_size >= before.db_size_in_use);
    assert_eq!((before.alarms, before.errors), (vec![], vec![]));

    let written = client.put("key", "value").await.unwrap();
    assert!(written > before.revision);
    let read = client.get("key", Read::Linearizable).await.unwrap().unwrap();
    assert_eq!((read.value.as_slice(), read.mod_revision), (b"value".as_slice(), written));
    assert_eq!(client.get("no such key", Read::Serializable).await.unwrap(), None);
    assert!(client.status().await.unwrap().revision >= written);

    let list = client.member_list(true).await.unwrap();
    assert_eq!((list.cluster_id, list.responder), (before.cluster_id, before.member_id));
    assert_eq!(list.members.len(), 3);
    for member in &cluster.members {
        let listed = list.by_peer_url(&member.peer_url()).unwrap();
        assert!(listed.started() && !listed.is_learner);
        assert_eq!(listed.name.as_ref().unwrap().as_str(), member.name);
        assert_eq!(listed.client_urls, [member.client_url()]);
        assert_eq!(member.client().status().await.unwrap().member_id, listed.id);
    }
    shows_what_is_scraped(&cluster.members[leader].client_url()).await;
}

/// Every metric that rules and dashboard may use, by the list of what is kept of a member's.
async fn shows_what_is_scraped(client_url: &str) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    eventually("every metric of monitoring/members.txt is shown", async || -> Result<(), String> {
        let host = client_url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = tokio::net::TcpStream::connect(host).await.map_err(|error| error.to_string())?;
        let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
        let mut page = String::new();
        stream.read_to_string(&mut page).await.map_err(|error| error.to_string())?;
        let shown: Vec<&str> = page.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
        let kept = include_str!("../../../monitoring/members.txt").lines();
        let missing: Vec<_> = kept.filter(|name| !shown.contains(name)).collect();
        // Messages between members are timed after some seconds at first.
        if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
    })
    .await;
}

async fn learner_life(minor: Minor) {
    let mut cluster = Cluster::start(Setup::new(minor, 1)).await;
    let client = cluster.members[0].client();
    let voter = cluster.id(0).await;
    let spare = cluster.spare(1);

    let id = cluster.add_learner(&spare).await;
    let listed = client.member_list(true).await.unwrap();
    let unstarted = listed.member(id).unwrap();
    assert!(unstarted.is_learner && !unstarted.started());

    let taken = client.member_add_learner(&spare.peer_url()).await;
    let second = client.member_add_learner(&PeerUrl::new("http://127.0.0.1:1")).await;
    // etcd makes the id of URL and second: added twice within one, it is the id that exists already.
    assert_refused(&taken, &[Refusal::PeerUrlExists, Refusal::MemberExists, Refusal::TooManyLearners]);
    assert_refused(&second, &[Refusal::TooManyLearners]);
    assert_refused(&client.member_add_learner(&PeerUrl::new("no url")).await, &[Refusal::Other]);
    assert_refused(&client.member_promote(id).await, &[Refusal::LearnerNotReady]);
    assert_refused(&client.member_promote(voter).await, &[Refusal::MemberNotLearner]);
    assert_refused(&client.member_promote(MemberId(1)).await, &[Refusal::MemberNotFound]);
    assert_refused(&client.member_remove(MemberId(1)).await, &[Refusal::MemberNotFound]);
    assert_refused(&client.move_leader(id).await, &[Refusal::BadLeaderTransferee]);

    cluster.join(spare);
    let learner = cluster.members[1].client();
    eventually("the learner answers", async || learner.status().await).await;
    assert!(learner.status().await.unwrap().is_learner);
    assert_refused(&learner.member_list(true).await, &[Refusal::NotSupportedForLearner]);
    assert_refused(&learner.put("key", "value").await, &[Refusal::NotSupportedForLearner]);
    assert_eq!(learner.get("key", Read::Serializable).await, Ok(None));

    let promoted = eventually("the learner is promoted", async || match client.member_promote(id).await {
        Err(
            CallError::Refused(Refusal::LearnerNotReady | Refusal::UnhealthyCluster, why)
            | CallError::Unknown(why),
        ) => Err(why),
        other => Ok(other),
    })
    .await;
    assert!(
        promoted.is_ok()
            || promoted.as_ref().err().and_then(CallError::refusal) == Some(Refusal::MemberNotLearner),
        "{promoted:?}"
    );
    assert_refused(&client.member_promote(id).await, &[Refusal::MemberNotLearner]);
    eventually("the member itself knows", async || match learner.status().await {
        Ok(status) if !status.is_learner => Ok(()),
        other => Err(other),
    })
    .await;

    // A peer URL in use is refused also while there is no other learner.
    let taken = eventually("etcd has checked the URL", async || {
        let taken = client.member_add_learner(&cluster.members[1].peer_url()).await;
        if taken.as_ref().err().and_then(CallError::refusal) == Some(Refusal::UnhealthyCluster) {
            return Err(taken);
        }
        Ok(taken)
    })
    .await;
    assert_refused(&taken, &[Refusal::PeerUrlExists]);

    // A call without a reply may have been applied: then the next one finds no such member.
    let removed = eventually("the member is removed", async || match client.member_remove(id).await {
        Err(CallError::Refused(Refusal::UnhealthyCluster, why) | CallError::Unknown(why)) => Err(why),
        other => Ok(other),
    })
    .await;
    assert!(
        removed.is_ok()
            || removed.as_ref().err().and_then(CallError::refusal) == Some(Refusal::MemberNotFound),
        "{removed:?}"
    );
    assert_refused(&client.member_remove(id).await, &[Refusal::MemberNotFound]);
    assert_eq!(client.member_list(true).await.unwrap().members.len(), 1);
}

async fn hung_member(minor: Minor) {
    let cluster = Cluster::start(Setup::new(minor, 1)).await;
    let deadlines = Deadlines { connect: Duration::from_millis(200), call: Duration::from_millis(400) };
    let client = MemberClient::new(&cluster.members[0].endpoint(), deadlines).unwrap();
    let fresh = MemberClient::new(&cluster.members[0].endpoint(), deadlines).unwrap();
    client.put("key", "before").await.unwrap();

    cluster.members[0].pause();
    for client in [&client, &fresh, &client] {
        let begun = Instant::now();
        let error = client.put("key", "during").await.unwrap_err();
        assert!(error.may_have_applied() && error.to_string().contains("no reply within 400ms"), "{error}");
        assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    }
    cluster.members[0].resume();
    eventually("the same client works again", async || client.put("key", "after").await).await;
}

async fn leadership(minor: Minor) {
    let cluster = Cluster::start(Setup::new(minor, 3)).await;
    let leader = cluster.led().await;
    let follower = (leader + 1) % 3;
    let client = cluster.members[leader].client();

    let not_leader = cluster.members[follower].client().move_leader(cluster.id(follower).await).await;
    assert_refused(&not_leader, &[Refusal::NotLeader]);
    assert_refused(&client.move_leader(MemberId(1)).await, &[Refusal::BadLeaderTransferee]);

    client.move_leader(cluster.id(follower).await).await.unwrap();
    assert_eq!(cluster.led().await, follower);
}

async fn no_quorum(minor: Minor) {
    let mut cluster = Cluster::start(Setup::new(minor, 3)).await;
    let client = cluster.members[0].client();
    client.put("key", "value").await.unwrap();
    cluster.members[1].kill();
    cluster.members[2].kill();
    eventually("the loss of the leader is noticed", async || match client.status().await {
        Ok(status) if status.leader.is_none() => Ok(()),
        other => Err(other),
    })
    .await;

    let members = client.member_list(false).await.unwrap().members;
    assert_eq!(members.len(), 3);
    assert!(client.get("key", Read::Serializable).await.unwrap().is_some());
    // A linearizable read must not answer; a write may yet be applied when the others come back.
    assert!(client.member_list(true).await.is_err());
    assert!(client.put("key", "other").await.unwrap_err().may_have_applied());
    assert_refused(
        &client.member_add_learner(&PeerUrl::new("http://127.0.0.1:1")).await,
        &[Refusal::UnhealthyCluster],
    );
    let gone = cluster.members[1].client().status().await;
    assert_eq!(gone, Err(CallError::Unreachable("connection refused".to_owned())));
}

async fn full_database(minor: Minor) {
    let quota = Setup { args: vec!["--quota-backend-bytes=65536".to_owned()], ..Setup::new(minor, 1) };
    let cluster = Cluster::start(quota).await;
    let client = cluster.members[0].client();
    let refused =
        eventually("the quota is reached", async || match client.put("key", vec![b'x'; 30_000]).await {
            Err(error) if error.refusal().is_some() => Ok(error),
            other => Err(other),
        })
        .await;
    assert_eq!(refused.refusal(), Some(Refusal::NoSpace), "{refused}");

    let alarm = Alarm { member: cluster.id(0).await, kind: AlarmKind::NoSpace };
    eventually("the alarm is raised", async || match client.status().await {
        Ok(status) if status.alarms == [alarm] && status.errors.is_empty() => Ok(()),
        other => Err(other),
    })
    .await;
    assert_eq!(client.alarms().await, Ok(vec![alarm]));
}

#[tokio::test]
async fn a_member_that_is_down_is_unreachable_and_the_client_works_when_it_is_back() {
    let mut cluster = Cluster::start(Setup::new(Minor(3, 6), 1)).await;
    let client = cluster.members[0].client();
    client.put("key", "value").await.unwrap();
    cluster.members[0].kill();
    eventually("the lost connection is noticed", async || match client.put("key", "other").await {
        Err(CallError::Unreachable(why)) => Ok(why),
        other => Err(other),
    })
    .await;
    cluster.members[0].start();
    eventually("it answers again", async || client.get("key", Read::Linearizable).await).await;
}

#[tokio::test]
async fn an_address_that_drops_packets_is_unreachable_within_the_connect_timeout() {
    // A listener whose queue is full: the handshake never completes, as with a node that is gone.
    let full = tokio::net::TcpSocket::new_v4().unwrap();
    full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = full.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _first = tokio::net::TcpStream::connect(address).await.unwrap();
    let _second =
        tokio::time::timeout(Duration::from_millis(100), tokio::net::TcpStream::connect(address)).await;

    let deadlines = Deadlines { connect: Duration::from_millis(200), call: Duration::from_secs(5) };
    let client = MemberClient::new(&Endpoint::plain(address), deadlines).unwrap();
    let begun = Instant::now();
    let error = client.put("key", "value").await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable(_)), "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

fn assert_refused<T: std::fmt::Debug>(reply: &Result<T, CallError>, allowed: &[Refusal]) {
    let refusal = reply.as_ref().err().and_then(CallError::refusal);
    assert!(refusal.is_some_and(|refusal| allowed.contains(&refusal)), "{reply:?}, want one of {allowed:?}");
}
