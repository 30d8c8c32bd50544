//! What the pure simulation does not contain: real requests, the classification of real replies, deadlines, and leases that
//! expire in the middle of a pass.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::world::members::CallOutcome;
use crate::world::{RequestOutcome, Sent, World, plain, scale, settled, until};
use anyhow::{Context as _, Result, bail, ensure};
use http::Method;
use quorate_api::EtcdCluster;
use quorate_sim::world::faults::Fault;
use tokio::time::Instant;
use tonic::Code;

/// The deadline of a write, and the time after which a leader that cannot renew its lease stops.
const WRITE_DEADLINE: Duration = Duration::from_secs(4);
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The deadline of a call to etcd.
const CALL_DEADLINE: Duration = Duration::from_secs(2);
/// The tolerance for an act that follows at once.
const SOON: Duration = Duration::from_millis(500);

#[tokio::test(start_paused = true)]
async fn every_patch_and_delete_carries_the_uid_and_resource_version_that_were_observed() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world
        .operator_over(world.client_through(|_| RequestOutcome::Open), |options| options.leader_elect = true);
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    for size in [1, 0, 1] {
        scale(&world, size).await?;
        settled(&world, u32::try_from(size)?).await?;
    }
    world.delete::<EtcdCluster>("demo").await?;
    until("it is gone", async || {
        let left = world.names::<EtcdCluster>().await?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    })
    .await?;
    let (mut patched, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    for sent in world.sent.all().iter().filter(|sent| !sent.path.contains("/events")) {
        let within = match sent.method {
            Method::PATCH => &sent.body["metadata"],
            Method::DELETE => &sent.body["preconditions"],
            Method::GET | Method::POST => continue,
            _ => anyhow::bail!("unexpected method: {sent:?}"),
        };
        let has = |field: &str| within[field].as_str().is_some_and(|text| !text.is_empty());
        ensure!(has("uid") && has("resourceVersion"), "without precondition: {sent:?}");
        let kinds = if sent.method == Method::PATCH { &mut patched } else { &mut deleted };
        kinds.insert(sent.kind());
    }
    let all =
        ["etcdclusters", "etcdclusters/status", "leases", "persistentvolumeclaims", "poddisruptionbudgets"];
    ensure!(all.iter().all(|kind| patched.contains(*kind)), "{patched:?}");
    ensure!(
        deleted == BTreeSet::from(["persistentvolumeclaims".to_owned(), "pods".to_owned()]),
        "{deleted:?}"
    );
    Ok(())
}

/// Scales a cluster from one member to two and back.
async fn up_and_down(world: &World) -> Result<()> {
    world.create_cluster(plain(1)).await?;
    settled(world, 1).await?;
    for size in [2, 1] {
        scale(world, size).await?;
        settled(world, u32::try_from(size)?).await?;
    }
    world.is_at_rest().await
}

/// The method, kind and name of a request.
fn summary(sent: &Sent) -> String {
    let name = sent.body["metadata"]["name"].as_str().unwrap_or_default();
    format!("{} {} {name}", sent.method, sent.kind())
}

#[tokio::test(start_paused = true)]
async fn h46_one_failure_of_each_write_changes_neither_the_end_nor_how_often_objects_are_created()
-> Result<()> {
    let late = Duration::from_secs(6);
    let outcomes = [
        RequestOutcome::Open,
        RequestOutcome::Refused(409, "AlreadyExists"),
        RequestOutcome::Refused(409, "Conflict"),
        RequestOutcome::Refused(404, "NotFound"),
        RequestOutcome::Refused(403, "Forbidden"),
        RequestOutcome::Refused(422, "Invalid"),
        RequestOutcome::Refused(429, "TooManyRequests"),
        RequestOutcome::Refused(500, "InternalError"),
        RequestOutcome::Refused(503, "ServiceUnavailable"),
        RequestOutcome::RefusedAfter(504, "Timeout"),
        RequestOutcome::NotSent,
        RequestOutcome::ReplyLost,
        RequestOutcome::Never,
        RequestOutcome::Slow(Duration::from_secs(3)),
        RequestOutcome::Late(late),
        RequestOutcome::Twice,
    ];
    let mut clean = None;
    for outcome in outcomes {
        let world = World::new().await?;
        let _kubelet = world.kubelet();
        let met = Arc::new(Mutex::new(BTreeSet::new()));
        let client = world.client_through(move |sent| {
            let first = sent.writes() && met.lock().expect("not poisoned").insert(summary(sent));
            if first { outcome } else { RequestOutcome::Open }
        });
        let _operator = world.operator_over(client, |_| {});
        up_and_down(&world).await.with_context(|| format!("{outcome:?}"))?;
        let writes = world.writes();
        let clean = clean.get_or_insert_with(|| writes.clone());
        ensure!(writes == *clean, "{outcome:?}: {writes:?} instead of {clean:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_failure_of_each_call_to_etcd_does_not_change_the_membership_changes() -> Result<()> {
    let outcomes = [
        CallOutcome::Done,
        CallOutcome::Refused(Code::Unavailable, "etcdserver: unhealthy cluster"),
        CallOutcome::Refused(
            Code::FailedPrecondition,
            "etcdserver: re-configuration failed due to not enough started members",
        ),
        CallOutcome::Refused(Code::FailedPrecondition, "etcdserver: too many learner members in cluster"),
        CallOutcome::Refused(Code::Unavailable, "etcdserver: no leader"),
        CallOutcome::Refused(Code::PermissionDenied, "etcdserver: permission denied"),
        CallOutcome::Refused(Code::ResourceExhausted, "etcdserver: too many requests"),
        CallOutcome::Refused(Code::NotFound, "etcdserver: member not found"),
        CallOutcome::Refused(Code::Unavailable, "etcdserver: request timed out"),
        CallOutcome::RefusedAfter(Code::Unavailable, "etcdserver: leader changed"),
        CallOutcome::NotSent,
        CallOutcome::ReplyLost,
        CallOutcome::Never,
        CallOutcome::Slow(Duration::from_secs(1)),
        CallOutcome::Twice,
    ];
    let mut clean = None;
    for outcome in outcomes {
        let world = World::new().await?;
        let _kubelet = world.kubelet();
        let mut met = BTreeSet::new();
        world
            .members
            .decide_calls(move |call| if met.insert(call.method) { outcome } else { CallOutcome::Done });
        let _operator = world.operator();
        up_and_down(&world).await.with_context(|| format!("{outcome:?}"))?;
        let changes = world.members.changes();
        let clean = clean.get_or_insert_with(|| changes.clone());
        ensure!(changes == *clean, "{outcome:?}: {changes:?} instead of {clean:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_reply_delays_the_pass_by_its_deadline_only() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (times, mut hangs) = (calls.clone(), true);
    world.members.decide_calls(move |call| {
        times.lock().expect("not poisoned").push((call.method, Instant::now()));
        let never = call.method == "MemberAdd" && std::mem::take(&mut hangs);
        if never { CallOutcome::Never } else { CallOutcome::Done }
    });
    let first = Arc::new(Mutex::new(None));
    let at = first.clone();
    let client = world.client_through(move |sent| {
        let creates = sent.method == Method::POST && sent.kind() == "pods";
        if creates && at.lock().expect("not poisoned").replace(sent.at).is_none() {
            RequestOutcome::Never
        } else {
            RequestOutcome::Open
        }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    let sent = world.sent.writes();
    let hung = sent.iter().position(|sent| sent.kind() == "pods").context("no Pod was created")?;
    let waited = sent[hung + 1].at - sent[hung].at;
    ensure!(waited >= WRITE_DEADLINE && waited < WRITE_DEADLINE + SOON, "{waited:?}");
    ensure!(sent[hung + 1].kind() == "etcdclusters/status", "status reports it: {:?}", sent[hung + 1]);

    scale(&world, 2).await?;
    settled(&world, 2).await?;
    let calls = calls.lock().expect("not poisoned").clone();
    let hung = calls.iter().position(|(method, _)| *method == "MemberAdd").context("no member was added")?;
    let waited = calls[hung + 1].1 - calls[hung].1;
    ensure!(waited >= CALL_DEADLINE && waited < CALL_DEADLINE + SOON, "{waited:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn h17_a_lease_that_expires_in_the_middle_of_a_pass_ends_all_writes_before_another_operator_can_lead()
-> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let cut = Arc::new(Mutex::new(None::<Instant>));
    let when = cut.clone();
    // Every write is slow, so that the lease expires in the middle of a pass.
    let client = world.client_through(move |sent| {
        let cut = when.lock().expect("not poisoned").is_some();
        match sent.kind().as_str() {
            "leases" if cut => RequestOutcome::Never,
            _ if sent.writes() => RequestOutcome::Slow(Duration::from_secs(3)),
            _ => RequestOutcome::Open,
        }
    });
    let operator = world.operator_over(client, |options| options.leader_elect = true);
    world.create_cluster(plain(3)).await?;
    until("it writes", async || {
        Ok(if world.sent.writes().len() >= 2 { Ok(()) } else { Err("nothing is written".to_owned()) })
    })
    .await?;
    let now = Instant::now();
    *cut.lock().expect("not poisoned") = Some(now);
    tokio::time::sleep(Duration::from_mins(2)).await;
    ensure!(operator.has_ended(), "it runs without a lease");
    // A renewal is a read and then a write. The deadline counts from the read.
    let leases = world.sent.all().into_iter().filter(|sent| sent.kind() == "leases" && sent.at <= now);
    let renewed = leases.map(|sent| sent.at).max().context("it never held the lease")?;
    let written = world.sent.writes();
    ensure!(written.iter().any(|sent| sent.at > now), "it was not in the middle of a pass");
    let late: Vec<&Sent> = written.iter().filter(|sent| sent.at >= renewed + RENEW_DEADLINE).collect();
    ensure!(late.is_empty(), "{late:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn h17_requests_of_a_hung_operator_that_arrive_after_the_next_leader_is_done_do_no_harm() -> Result<()>
{
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _first_sends_late = {
        let client = world.client_through(|sent| {
            let writes_late = sent.writes() || (sent.kind() == "leases" && sent.method == Method::PATCH);
            if writes_late { RequestOutcome::Late(Duration::from_mins(1)) } else { RequestOutcome::Open }
        });
        world.operator_over(client, |options| options.leader_elect = true)
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.create_cluster(plain(3)).await?;
    let _second = world
        .operator_over(world.client_through(|_| RequestOutcome::Open), |options| options.leader_elect = true);
    settled(&world, 3).await?;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let twice: Vec<_> = world.writes().into_iter().filter(|(_, count)| *count > 1).collect();
    ensure!(twice.is_empty(), "{twice:?}");
    world.is_at_rest().await
}

#[tokio::test(start_paused = true)]
async fn h01_bootstrap_pods_that_a_late_request_creates_while_the_cluster_hibernates_never_run() -> Result<()>
{
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let late = Duration::from_mins(10);
    let _first_bootstraps_late = {
        let client = world.client_through(move |sent| match (sent.method.as_str(), sent.kind().as_str()) {
            ("POST", "pods") | ("PATCH", "leases") => RequestOutcome::Late(late),
            _ => RequestOutcome::Open,
        });
        world.operator_over(client, |options| options.leader_elect = true)
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.create_cluster(plain(3)).await?;
    let _second = {
        // Slower than the kubelet starts a Pod.
        let client = world.client_through(|sent| match (sent.method.as_str(), sent.kind().as_str()) {
            ("DELETE", "pods") => RequestOutcome::Late(SOON),
            _ => RequestOutcome::Open,
        });
        world.operator_over(client, |options| options.leader_elect = true)
    };
    settled(&world, 3).await?;
    scale(&world, 0).await?;
    settled(&world, 0).await?;
    let members = ["demo-0", "demo-1", "demo-2"];
    for member in members {
        // No data is left that would stop a member from starting as new.
        ensure!(world.members.strike(&Fault::Wipe(member.to_owned())), "{member} had no data");
    }
    tokio::time::sleep(late).await;
    world.is_at_rest().await?;
    let writes = world.writes();
    for member in members {
        let made = writes.iter().filter(|(what, _)| what.contains("pods") && what.ends_with(member));
        let counts: Vec<u64> = made.map(|(_, count)| *count).collect();
        let [created, deleted] = counts[..] else { bail!("{writes:?}") };
        ensure!(created > 1 && created == deleted, "created and deleted once more: {writes:?}");
    }
    ensure!(world.members.nodes().etcd.dirs().next().is_none(), "etcd ran");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn r14_a_member_that_never_replies_delays_neither_its_peers_nor_other_clusters() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    world.members.hang("demo-2");
    tokio::time::sleep(Duration::from_secs(40)).await;
    world.create_cluster_named("other", plain(1)).await?;
    let began = Instant::now();
    until("the other serves", async || {
        let other = world.api::<EtcdCluster>().get("other").await?.status.unwrap_or_default();
        Ok(if other.ready_replicas == 1 { Ok(()) } else { Err(format!("{other:?}")) })
    })
    .await?;
    ensure!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let unhealthy: Vec<String> = {
        let members = world.status().await?.members;
        members.into_iter().filter(|member| !member.healthy).map(|member| member.name).collect()
    };
    ensure!(unhealthy == ["demo-2"], "{unhealthy:?}");
    ensure!(world.condition("Available", "True").await?.is_some(), "two of three answer");
    Ok(())
}
