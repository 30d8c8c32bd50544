//! The operator dies at every numbered step that a bootstrap without etcd and a deletion pass through, and is started
//! again. Whatever the step: the same end, and no object created or deleted more often than without a crash.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use quorate_api::EtcdCluster;
use quorate_model::Step;
use quorate_operator::crash::{CrashPoint, Hook, NoCrash};
use tokio_util::sync::CancellationToken;
use world::{DieAt, World, three_members, until, until_pods};

const PODS: [&str; 3] = ["demo-0", "demo-1", "demo-2"];

/// The steps of the story below.
const STEPS: [Step; 8] = [Step::B1, Step::B2, Step::B3, Step::B4, Step::BR, Step::D1, Step::D2, Step::D3];

/// Create, and delete once the Pods are there.
async fn story(world: &World) -> Result<()> {
    world.create_cluster(three_members()).await?;
    until_pods(world, &PODS).await?;
    assert_eq!(world.names::<PersistentVolumeClaim>().await?, PODS);
    world.delete::<EtcdCluster>("demo").await?;
    until("nothing is left", async || {
        let pods = world.names::<Pod>().await?;
        let volumes = world.names::<PersistentVolumeClaim>().await?;
        let gone = world.names::<EtcdCluster>().await?.is_empty() && pods.is_empty() && volumes.is_empty();
        Ok(if gone { Ok(()) } else { Err(format!("{pods:?} {volumes:?}")) })
    })
    .await
}

/// The story with an operator that dies at this point, if at any. What was created and deleted, how often.
async fn told(crash: Option<CrashPoint>) -> Result<BTreeMap<String, u64>> {
    let world = World::new().await?;
    let died = CancellationToken::new();
    let hook: Arc<dyn Hook> = match crash {
        Some(point) => Arc::new(DieAt { point, died: died.clone() }),
        None => Arc::new(NoCrash),
    };
    let first = world.operator_with(hook);
    let restarts = async {
        died.cancelled().await;
        drop(first);
        let _second = world.operator();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = story(&world) => ended?,
        () = restarts => unreachable!("it only ends with the story"),
    }
    ensure!(crash.is_none() || died.is_cancelled(), "{crash:?} was never reached");
    Ok(world.writes())
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_changes_neither_the_end_nor_what_is_created_and_deleted() -> Result<()> {
    let clean = told(None).await?;
    assert!(clean.values().any(|count| *count > 0), "nothing was counted");
    for point in CrashPoint::all().filter(|point| STEPS.contains(&point.step)) {
        let writes = told(Some(point)).await.map_err(|error| error.context(format!("crash {point}")))?;
        for (object, count) in writes.iter().filter(|(object, _)| !object.contains("vent")) {
            let allowed = clean.get(object).copied().unwrap_or(0);
            ensure!(*count <= allowed, "crash {point}: {object} {count} times, {allowed} without a crash");
        }
    }
    Ok(())
}
