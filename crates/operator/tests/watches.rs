//! Watches that break, expire, or show outdated objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::world::{RequestOutcome, Sent, World, plain, scale, settled};
use anyhow::{Result, ensure};
use http::Method;
use quorate_sim::world::faults::Fault;

/// Whether this is a watch request.
fn watches(sent: &Sent) -> bool {
    sent.query.contains("watch=true")
}

/// Checks that no object was created or deleted twice.
fn each_once(world: &World) -> Result<()> {
    let twice: Vec<_> = world.writes().into_iter().filter(|(_, count)| *count > 1).collect();
    ensure!(twice.is_empty(), "{twice:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn watches_that_break_every_second_stop_no_work_and_duplicate_none() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    let sent = world.sent.clone();
    let breaks = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sent.cut_watches();
        }
    });
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    scale(&world, 3).await?;
    settled(&world, 3).await?;
    breaks.abort();
    each_once(&world)?;
    world.is_at_rest().await
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_resource_version_expired_lists_again() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = gone.clone();
    let client = world.client_through(move |sent| {
        // After a list the watch is accepted again.
        if !watches(sent) && sent.method == Method::GET {
            is_gone.store(false, Ordering::SeqCst);
        }
        let refused = watches(sent) && is_gone.load(Ordering::SeqCst);
        if refused { RequestOutcome::Refused(410, "Expired") } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    gone.store(true, Ordering::SeqCst);
    world.sent.cut_watches();
    ensure!(world.members.strike(&Fault::KillPod("demo-1".to_owned())));
    tokio::time::sleep(Duration::from_mins(2)).await;
    ensure!(!gone.load(Ordering::SeqCst), "it never listed again");
    settled(&world, 3).await?;
    world.is_at_rest().await
}

#[tokio::test(start_paused = true)]
async fn changes_during_an_outage_of_all_reads_are_observed_afterwards() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let down = Arc::new(AtomicBool::new(false));
    let is_down = down.clone();
    let client = world.client_through(move |sent| {
        let reads = sent.method == Method::GET;
        if reads && is_down.load(Ordering::SeqCst) { RequestOutcome::NotSent } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    down.store(true, Ordering::SeqCst);
    world.sent.cut_watches();
    ensure!(world.members.strike(&Fault::KillPod("demo-1".to_owned())));
    scale(&world, 1).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    ensure!(world.members.names().len() == 3, "it cannot have observed the edit yet");
    down.store(false, Ordering::SeqCst);
    settled(&world, 1).await?;
    world.is_at_rest().await
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_lists_outdated_objects_changes_no_member_and_catches_up() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let (old, keep) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let (is_old, keeps) = (old.clone(), keep.clone());
    let client = world.client_through(move |sent| {
        let lists = sent.method == Method::GET && !watches(sent) && sent.query.contains("limit=");
        match (lists, is_old.load(Ordering::SeqCst)) {
            (true, true) => RequestOutcome::Replay,
            (true, false) if keeps.load(Ordering::SeqCst) => RequestOutcome::Keep,
            _ if watches(sent) && is_old.load(Ordering::SeqCst) => RequestOutcome::Refused(410, "Expired"),
            _ => RequestOutcome::Open,
        }
    });
    let first = world.operator_over(client.clone(), |_| {});
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    drop(first);
    // Keep the lists of the time with three members.
    world.sent.forget_replies();
    let second = world.operator_over(client.clone(), |_| {});
    tokio::time::sleep(Duration::from_secs(5)).await;
    keep.store(false, Ordering::SeqCst);
    scale(&world, 1).await?;
    settled(&world, 1).await?;
    let changes = world.members.changes();
    drop(second);
    old.store(true, Ordering::SeqCst);
    let _third = world.operator_over(client, |_| {});
    tokio::time::sleep(Duration::from_secs(20)).await;
    ensure!(world.members.changes() == changes, "{:?} instead of {changes:?}", world.members.changes());
    old.store(false, Ordering::SeqCst);
    settled(&world, 1).await?;
    each_once(&world)?;
    ensure!(world.members.changes() == changes, "{:?} instead of {changes:?}", world.members.changes());
    world.is_at_rest().await
}
