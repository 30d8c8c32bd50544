//! The operator dies at every numbered step that the life of a cluster passes through, and is started again. Whatever
//! the step: the same end, one cluster id, no change of membership and no create or delete more often than without.

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use quorate_model::Step;
use quorate_operator::crash::{CrashPoint, Hook, NoCrash, crash_points};
use tokio_util::sync::CancellationToken;
use world::{DieAt, World, plain, scale, settled};

/// The steps of the story below.
const STEPS: [Step; 20] = [
    Step::B1,
    Step::B2,
    Step::B3,
    Step::B4,
    Step::B6,
    Step::B7,
    Step::T1,
    Step::G1,
    Step::G2,
    Step::G3,
    Step::G4,
    Step::G6,
    Step::S1,
    Step::S3,
    Step::S4,
    Step::S5,
    Step::Z1,
    Step::Z2,
    Step::W1,
    Step::K1,
];

/// Two members, then three, one, none, one.
async fn story(world: &World) -> Result<()> {
    world.create_cluster(plain(2)).await?;
    settled(world, 2).await?;
    for size in [3, 1, 0, 1] {
        scale(world, size).await?;
        settled(world, u32::try_from(size)?).await?;
    }
    ensure!(
        world.status().await?.cluster_id == world.members.cluster_ids().first().cloned(),
        "the cluster id changed"
    );
    Ok(())
}

struct Told {
    writes: BTreeMap<String, u64>,
    changes: Vec<String>,
    reached: bool,
}

/// The story with an operator that dies at this point, if at any.
async fn told(crash: Option<CrashPoint>) -> Result<Told> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
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
    Ok(Told { writes: world.writes(), changes: world.members.changes(), reached: died.is_cancelled() })
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_of_a_life_changes_neither_the_end_nor_the_way_there() -> Result<()> {
    let clean = told(None).await?;
    let points = crash_points().filter(|point| STEPS.contains(&point.step));
    let mut runs =
        futures::stream::iter(points).map(async |point| (point, told(Some(point)).await)).buffer_unordered(6);
    let mut unreached = Vec::new();
    while let Some((point, run)) = runs.next().await {
        let run = run.map_err(|error| error.context(format!("crash {point}")))?;
        if !run.reached {
            unreached.push(point.to_string());
        }
        ensure!(
            run.changes == clean.changes,
            "crash {point}: {:?} instead of {:?}",
            run.changes,
            clean.changes
        );
        for (object, count) in run.writes.iter().filter(|(object, _)| !object.contains("vent")) {
            let allowed = clean.writes.get(object).copied().unwrap_or(0);
            ensure!(*count <= allowed, "crash {point}: {object} {count} times, {allowed} without a crash");
        }
    }
    ensure!(unreached.is_empty(), "never reached: {unreached:?}");
    Ok(())
}
