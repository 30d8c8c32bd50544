//! Leader election: one of several operators acts, and another takes over when it ends.

use std::time::Duration;

use crate::world::{Operator, RequestOutcome, World, three_members, until, until_pods};
use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use quorate_api::{EtcdCluster, EtcdClusterStatus};
use quorate_operator::Options;
use quorate_planner::safety::mutants::Broken;
use serde_json::json;
use tokio::time::Instant;

const PODS: [&str; 3] = ["demo-0", "demo-1", "demo-2"];

fn elected(options: &mut Options) {
    options.leader_elect = true;
}

async fn holder(world: &World) -> Result<String> {
    let lease = world.api::<Lease>().get_opt("quorate.operator.etcd.io").await?;
    Ok(lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity).unwrap_or_default())
}

async fn until_held(world: &World, by_another_than: &str) -> Result<String> {
    let mut current = String::new();
    until("the lease is held", async || {
        current = holder(world).await?;
        let waits = current.is_empty() || current == by_another_than;
        Ok(if waits { Err(current.clone()) } else { Ok(()) })
    })
    .await?;
    Ok(current)
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_crashed_leader_is_taken_over_once_it_has_expired_and_not_before() -> Result<()> {
    let world = World::new().await?;
    let first = world.operator_over(world.client.clone(), elected);
    let leader = until_held(&world, "").await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let _second = world.operator_over(world.client.clone(), elected);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(holder(&world).await?, leader, "a lease that is renewed is left alone");

    let died = Instant::now();
    drop(first);
    until_held(&world, &leader).await?;
    let took = died.elapsed();
    assert!(took >= Duration::from_secs(12) && took <= Duration::from_secs(20), "{took:?}");
    world.create_cluster(three_members()).await?;
    until_pods(&world, &PODS).await
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_stopped_releases_its_lease_at_once() -> Result<()> {
    let world = World::new().await?;
    let first = world.operator_over(world.client.clone(), elected);
    let leader = until_held(&world, "").await?;
    let _second = world.operator_over(world.client.clone(), elected);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let stopped = Instant::now();
    first.stop().await?;
    until_held(&world, &leader).await?;
    assert!(stopped.elapsed() <= Duration::from_secs(5), "{:?}", stopped.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn m26_a_candidate_that_has_seen_the_lease_held_does_not_lead_at_once_when_it_is_deleted() -> Result<()>
{
    let world = World::new().await?;
    let cut = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_cut = cut.clone();
    let client = world.client_through(move |request| {
        let renews = request.path.contains("/leases") && is_cut.load(std::sync::atomic::Ordering::SeqCst);
        if renews { RequestOutcome::Never } else { RequestOutcome::Open }
    });
    let _first = world.operator_over(client, elected);
    let leader = until_held(&world, "").await?;
    let _second = world.operator_over(world.client.clone(), elected);
    tokio::time::sleep(Duration::from_secs(5)).await;
    cut.store(true, std::sync::atomic::Ordering::SeqCst);
    let deleted = Instant::now();
    world.delete::<Lease>("quorate.operator.etcd.io").await?;
    until_held(&world, &leader).await?;
    let took = deleted.elapsed();
    assert!(took >= Duration::from_secs(10), "the leader of before acts until then: {took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn l14_a_leader_that_reads_that_another_one_holds_the_lease_ends_at_once() -> Result<()> {
    let world = World::new().await?;
    let operator = world.operator_over(world.client.clone(), elected);
    until_held(&world, "").await?;
    let taken = Patch::Merge(json!({ "spec": { "holderIdentity": "another" } }));
    world.api::<Lease>().patch("quorate.operator.etcd.io", &PatchParams::default(), &taken).await?;
    let read = Instant::now();
    until("it has ended", async || Ok(if operator.has_ended() { Ok(()) } else { Err("it runs".to_owned()) }))
        .await?;
    assert!(read.elapsed() < Duration::from_secs(4), "{:?}: not by the end of its term", read.elapsed());
    assert_eq!(holder(&world).await?, "another");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn l14_a_new_candidate_leads_at_once_without_clusters_and_else_waits_for_who_may_have_held_the_lease()
-> Result<()> {
    for (has_cluster, waits) in [(false, 0..4), (true, 15..20)] {
        let world = World::new().await?;
        if has_cluster {
            world.create_cluster(three_members()).await?;
        }
        let began = Instant::now();
        let _operator = world.operator_over(world.client.clone(), elected);
        until_held(&world, "").await?;
        let took = began.elapsed();
        assert!(waits.contains(&took.as_secs()), "{has_cluster}: {took:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn l09_an_operator_ends_once_the_data_of_kubernetes_went_back_and_the_next_one_works() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let operators = [0, 1].map(|_| world.operator_over(world.client.clone(), elected));
    world.create_cluster(three_members()).await?;
    until_pods(&world, &PODS).await?;
    let yesterday = world.kube.store().snapshot();
    tokio::time::sleep(Duration::from_mins(30)).await;

    // A watch of the future is accepted, and is silent.
    world.kube.store().go_back(&yesterday)?;
    let restored = Instant::now();
    until("both end", async || {
        let ended = operators.iter().filter(|operator| operator.has_ended()).count();
        Ok(if ended == 2 { Ok(()) } else { Err(format!("{ended} have ended")) })
    })
    .await?;
    assert!(restored.elapsed() < Duration::from_secs(5), "{:?}", restored.elapsed());

    let _next = world.operator_over(world.client.clone(), elected);
    let uid =
        async || anyhow::Ok(world.api::<Pod>().get_opt("demo-2").await?.and_then(|pod| pod.metadata.uid));
    let lost = uid().await?;
    world.delete::<Pod>("demo-2").await?;
    until("demo-2 has another Pod", async || {
        let now = uid().await?;
        Ok(if now.is_some() && now != lost { Ok(()) } else { Err(format!("{now:?}")) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn h17_a_leader_that_cannot_renew_stops_writing_before_its_lease_expires_and_ends() -> Result<()> {
    let world = World::new().await?;
    let (operator, written) = leader_that_cannot_renew(&world).await?;
    assert_eq!(written, 0, "nothing but the cluster itself was written");
    // Nor has anybody told tools that it is current: the API server says that nobody has seen it.
    let unseen = world.api::<EtcdCluster>().get("demo").await?.status.unwrap_or_default();
    let conditions: Vec<_> =
        unseen.conditions.iter().map(|one| [&*one.type_, &*one.status, &*one.reason]).collect();
    assert_eq!(conditions, [["Ready", "Unknown", "Pending"]]);
    assert_eq!(
        unseen,
        EtcdClusterStatus { conditions: unseen.conditions.clone(), ..EtcdClusterStatus::default() }
    );
    until("it has ended", async || Ok(if operator.has_ended() { Ok(()) } else { Err("it runs".to_owned()) }))
        .await
}

#[tokio::test(start_paused = true)]
async fn without_r13_a_leader_that_cannot_renew_writes_when_another_may_lead() -> Result<()> {
    let _broken = Broken::rule("R13");
    let world = World::new().await?;
    let (_operator, written) = leader_that_cannot_renew(&world).await?;
    assert!(written > 0, "this test does not detect that R13 is broken");
    Ok(())
}

/// A leader that reaches everything but its lease. Returns the operator and the number of writes after its deadline.
async fn leader_that_cannot_renew(world: &World) -> Result<(Operator, u64)> {
    let cut = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_cut = cut.clone();
    let client = world.client_through(move |request| {
        let renews = request.path.contains("/leases");
        if renews && is_cut.load(std::sync::atomic::Ordering::SeqCst) {
            RequestOutcome::Never
        } else {
            RequestOutcome::Open
        }
    });
    let operator = world.operator_over(client, elected);
    until_held(world, "").await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    cut.store(true, std::sync::atomic::Ordering::SeqCst);
    // Longer than the renew deadline, shorter than the lease.
    tokio::time::sleep(Duration::from_secs(13)).await;
    let version = world.kube.store().version();
    world.create_cluster(three_members()).await?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    Ok((operator, world.kube.store().version() - version - 1))
}
