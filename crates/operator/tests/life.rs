//! The life of a cluster from bootstrap through every change of size, and the effect of an unhealthy cluster on others. The
//! clock is paused, connections are in memory, and the members are modelled.

use std::time::Duration;

use crate::world::{RequestOutcome, World, plain, scale, settled, until};
use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use quorate_planner::safety::mutants::Broken;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn a_cluster_grows_shrinks_hibernates_and_restarts_and_is_at_rest_after_each() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let operator = world.operator();

    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    assert_eq!(world.status().await?.cluster_id, world.members.cluster_ids().first().cloned());
    assert!(world.members.changes().is_empty(), "a bootstrap adds no member");

    scale(&world, 5).await?;
    settled(&world, 5).await?;
    assert_eq!(world.members.changes(), ["add demo-3", "promote demo-3", "add demo-4", "promote demo-4"]);

    scale(&world, 1).await?;
    settled(&world, 1).await?;
    assert_eq!(world.members.names().len(), 1);
    assert_eq!(world.names::<PersistentVolumeClaim>().await?, world.members.names(), "whenScaled is Delete");

    scale(&world, 0).await?;
    settled(&world, 0).await?;
    assert!(world.names::<Pod>().await?.is_empty());
    assert_eq!(world.names::<PersistentVolumeClaim>().await?, world.members.names(), "volumes are kept");

    scale(&world, 3).await?;
    settled(&world, 3).await?;
    assert_eq!(world.status().await?.cluster_id, world.members.cluster_ids().first().cloned());

    let version = world.kube.store().version();
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(world.kube.store().version(), version, "nothing is written once nothing is left to do");
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn refused_upkeep_is_reported_and_does_not_stop_growth() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    // The API server refuses to expand and to annotate volumes.
    let client = world.client_through(|request| {
        let patches = request.method == http::Method::PATCH;
        let refused = patches && request.path.contains("/persistentvolumeclaims/");
        if refused { RequestOutcome::Refused(403, "Forbidden") } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(plain(3)).await?;
    until("it serves", async || {
        Ok(world.condition("QuorumAvailable", "True").await?.map(drop).ok_or_else(|| "not yet".to_owned()))
    })
    .await?;
    scale(&world, 4).await?;
    until("it has grown", async || {
        let (names, conditions) = (world.members.names(), world.status().await?.conditions);
        Ok(if names.len() == 4 { Ok(()) } else { Err(format!("{names:?}, {conditions:#?}")) })
    })
    .await?;
    until("status reports it", async || {
        let conditions = world.status().await?.conditions;
        let reported =
            conditions.iter().any(|one| one.message.contains("cannot change PersistentVolumeClaim default/"));
        Ok(if reported { Ok(()) } else { Err(format!("{conditions:#?}")) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_hung_member_is_reported_within_half_a_minute_although_no_pod_changed() -> Result<()> {
    let world = World::new().await?;
    let kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;

    drop(kubelet);
    world.members.hang("demo-1");
    let began = Instant::now();
    until("status reports it", async || {
        let status = world.status().await?;
        let reported = status.members.iter().any(|member| member.name == "demo-1" && !member.healthy);
        Ok(if reported { Ok(()) } else { Err(format!("{status:#?}")) })
    })
    .await?;
    assert!(began.elapsed() < Duration::from_secs(33), "{:?}", began.elapsed());
    assert!(world.condition("Available", "True").await?.is_some(), "two of three answer");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn r14_a_cluster_whose_members_hang_does_not_delay_another() -> Result<()> {
    let (undisturbed, beside) = Box::pin(ten_beside_a_hung_cluster()).await?;
    assert!(beside < undisturbed * 2 + Duration::from_secs(1), "{beside:?} instead of {undisturbed:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn without_r14_a_cluster_whose_members_hang_delays_the_others() -> Result<()> {
    let _broken = Broken::rule("R14");
    let (undisturbed, beside) = Box::pin(ten_beside_a_hung_cluster()).await?;
    assert!(
        beside > undisturbed * 2 + Duration::from_secs(1),
        "this test does not detect that R14 is broken: {beside:?}"
    );
    Ok(())
}

/// How long ten new clusters take to get their Pods, before and while the members of another cluster hang.
async fn ten_beside_a_hung_cluster() -> Result<(Duration, Duration)> {
    let world = World::new().await?;
    let kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    drop(kubelet);
    let undisturbed = ten_more(&world, "before").await?;
    for member in world.members.names() {
        world.members.hang(&member);
    }
    until("status reports it", async || {
        let unavailable = world.condition("Available", "False").await?;
        Ok(unavailable.map(drop).ok_or_else(|| "it is reported as available".to_owned()))
    })
    .await?;
    // Each pass of the hung cluster now waits two seconds for a reply. A cluster that waits for it is late by that.
    Ok((undisturbed, ten_more(&world, "after").await?))
}

/// How long ten new clusters take to get their Pods.
async fn ten_more(world: &World, name: &str) -> Result<Duration> {
    let began = Instant::now();
    for n in 0..10 {
        world.create_cluster_named(&format!("{name}{n}"), plain(1)).await?;
    }
    until("their Pods exist", async || {
        let pods = world.names::<Pod>().await?;
        let there = pods.iter().filter(|pod| pod.starts_with(name)).count();
        Ok(if there == 10 { Ok(()) } else { Err(format!("{there} of 10")) })
    })
    .await?;
    Ok(began.elapsed())
}
