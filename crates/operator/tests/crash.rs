//! The operator crashes at every numbered step of a bootstrap without etcd and of a deletion, and is started again. After
//! every crash the end is the same, and no object is created or deleted more often than without a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::world::{DieAt, World, three_members, until, until_pods};
use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use quorate_api::EtcdCluster;
use quorate_model::Step;
use quorate_operator::crash::{CrashPoint, Hook, NoCrash};
use tokio_util::sync::CancellationToken;

const PODS: [&str; 3] = ["demo-0", "demo-1", "demo-2"];

/// The steps of the story below.
const STEPS: [Step; 10] =
    [Step::B1, Step::B2, Step::I1, Step::I2, Step::B3, Step::B4, Step::BR, Step::D1, Step::D2, Step::D3];

/// Creates a cluster, and deletes it once its Pods exist.
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

/// Runs the story with an operator that crashes at this point, if one is given. Returns how often each object was created
/// and deleted.
async fn run_story(crash: Option<CrashPoint>) -> Result<BTreeMap<String, u64>> {
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
        () = restarts => unreachable!("this future never ends"),
    }
    ensure!(crash.is_none() || died.is_cancelled(), "{crash:?} was not reached");
    Ok(world.writes())
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_does_not_change_which_objects_are_created_and_deleted() -> Result<()> {
    let clean = Box::pin(run_story(None)).await?;
    assert!(clean.values().any(|count| *count > 0), "nothing was counted");
    for point in CrashPoint::all().filter(|point| STEPS.contains(&point.step)) {
        let writes = Box::pin(run_story(Some(point)))
            .await
            .map_err(|error| error.context(format!("crash {point}")))?;
        for (object, count) in writes.iter().filter(|(object, _)| !object.contains("vent")) {
            let allowed = clean.get(object).copied().unwrap_or(0);
            ensure!(*count <= allowed, "crash {point}: {object} {count} times, {allowed} without a crash");
        }
    }
    Ok(())
}
