//! The operator is killed before and after a numbered step, and started again. For every step the outcome is the same: one
//! cluster id, and no object is created or deleted more often than in a run without a crash.

use anyhow::{Result, ensure};
use quorate_scenarios::{Playground, spec};

/// The steps at which one of two systems is written and the other is not yet. (All steps, before and after, are covered
/// in process by `crates/operator/tests/crash_life.rs`; here it is real etcd and a real SIGABRT.)
const STEPS: &[&str] = &["B4", "BR", "B6", "G3", "G6", "S3", "Z1"];

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
fn counts(playground: &Playground) -> Result<std::collections::BTreeMap<String, u64>> {
    let text = playground.fault(&["count-writes"])?;
    let of = |line: &str| {
        // PersistentVolumes are named by uid, which differs between runs.
        let (object, count) =
            line.rsplit_once(' ').filter(|(object, _)| !object.contains("persistentvolumes "))?;
        Some((object.to_owned(), count.parse().ok()?))
    };
    Ok(text.lines().filter_map(of).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_step_changes_neither_the_outcome_nor_the_creates_and_deletes() -> Result<()> {
    let clean = {
        let playground = Playground::start().await?;
        run_life_cycle(&playground).await?;
        counts(&playground)?
    };
    ensure!(!clean.is_empty(), "nothing was counted");
    for step in STEPS {
        for when in ["before", "after"] {
            let point = format!("{when}:{step}");
            let playground = Playground::start_with(&[("QUORATE_CRASH_AT", &point)]).await?;
            run_life_cycle(&playground).await.map_err(|error| error.context(format!("crash {point}")))?;
            let log = std::fs::read_to_string(playground.path().join("logs/operator.log"))?;
            ensure!(log.contains(&format!("crash point {point}")), "{point} was never reached");
            for (object, count) in counts(&playground)? {
                let allowed = clean.get(&object).copied().unwrap_or(0);
                ensure!(count <= allowed, "crash {point}: {object} {count} times, {allowed} without a crash");
            }
        }
    }
    Ok(())
}
