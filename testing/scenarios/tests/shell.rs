//! The operator is killed before and after a numbered step, and started again. For every step the outcome is the same: one
//! cluster id, and no object is created or deleted more often than in a run without a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use quorate_scenarios::{Playground, spec};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// The steps at which one of two systems is written and the other is not yet. (All steps, before and after, are covered
/// in process by `crates/operator/tests/crash_life.rs`; here it is real etcd and a real SIGABRT.)
const STEPS: &[&str] = &["B4", "BR", "B6", "G3", "G6", "S3", "Z1"];

/// How many playgrounds run at the same time. Each waits for elections most of the time.
const LANES: usize = 3;

/// Bootstrap two, grow to three, shrink to two, hibernate, wake.
async fn run_life_cycle(playground: &Playground) -> Result<()> {
    playground.create("demo", spec(2)).await?;
    playground.settled("demo", 2).await?;
    let id = playground.one_cluster_id("demo").await?;
    for size in [3, 2, 0, 2] {
        playground.scale("demo", size).await?;
        playground.settled("demo", size).await?;
    }
    ensure!(playground.one_cluster_id("demo").await? == id, "the cluster id changed");
    Ok(())
}

/// The creates and deletes the API server has counted, by object.
fn counts(playground: &Playground) -> Result<BTreeMap<String, u64>> {
    let text = playground.fault(&["count-writes"])?;
    let of = |line: &str| {
        // PersistentVolumes are named by uid, which differs between runs.
        let (object, count) =
            line.rsplit_once(' ').filter(|(object, _)| !object.contains("persistentvolumes "))?;
        Some((object.to_owned(), count.parse().ok()?))
    };
    Ok(text.lines().filter_map(of).collect())
}

/// The counts of a life cycle in which the operator is killed at this point.
async fn counts_after_crash(point: &str) -> Result<BTreeMap<String, u64>> {
    let playground = Playground::start_with(&[("QUORATE_CRASH_AT", point)]).await?;
    run_life_cycle(&playground).await?;
    let log = std::fs::read_to_string(playground.path().join("logs/operator.log"))?;
    ensure!(log.contains(&format!("crash point {point}")), "{point} was never reached");
    counts(&playground)
}

/// Checks points until none is left.
async fn check_points(points: &Mutex<Vec<String>>, clean: &BTreeMap<String, u64>) -> Result<()> {
    loop {
        let Some(point) = points.lock().await.pop() else { return Ok(()) };
        let counts = counts_after_crash(&point).await.with_context(|| format!("crash {point}"))?;
        for (object, count) in counts {
            let allowed = clean.get(&object).copied().unwrap_or(0);
            ensure!(count <= allowed, "crash {point}: {object} {count} times, {allowed} without a crash");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_changes_neither_the_outcome_nor_the_creates_and_deletes() -> Result<()> {
    let clean = {
        let playground = Playground::start().await?;
        run_life_cycle(&playground).await?;
        counts(&playground)?
    };
    ensure!(!clean.is_empty(), "nothing was counted");
    let points: Vec<String> =
        STEPS.iter().flat_map(|step| ["before", "after"].map(|when| format!("{when}:{step}"))).collect();
    let points = Arc::new(Mutex::new(points));
    let mut lanes = JoinSet::new();
    for _ in 0..LANES {
        let (points, clean) = (points.clone(), clean.clone());
        // A thread each, since a playground starts and stops by blocking calls.
        lanes.spawn_blocking(move || Handle::current().block_on(check_points(&points, &clean)));
    }
    while let Some(lane) = lanes.join_next().await {
        lane??;
    }
    Ok(())
}
