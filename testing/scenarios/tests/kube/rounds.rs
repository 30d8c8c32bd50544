//! Backed up, wrecked, restored: twenty times, three at a time, with the kinds of wrecks, stores and ways mixed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use quorate_scenarios::rounds::{Ground, Round, Tally, record};
use quorate_scenarios::{S3Server, version};

/// How many, unless `QUORATE_TEST_ROUNDS` has another number.
const ROUNDS: u32 = 20;

/// As many as the behaviours that run beside each other.
const AT_ONCE: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn twenty_rounds_of_back_up_wreck_and_restore_lose_nothing_up_to_the_backup() -> Result<()> {
    let kubeconfig = std::env::var_os("QUORATE_TEST_KUBECONFIG").map(PathBuf::from);
    let kubeconfig = kubeconfig.context("run this through `cargo xtask test kube --full`")?;
    let rounds: u32 = match std::env::var("QUORATE_TEST_ROUNDS") {
        Ok(rounds) => rounds.parse().context("QUORATE_TEST_ROUNDS is no number")?,
        Err(_) => ROUNDS,
    };
    let s3 = S3Server::start_beside(&kubeconfig)?;
    let ground = Ground::kubernetes(kubeconfig);
    let (ground, s3) = (&ground, &s3);
    let runs = futures::stream::iter(0..rounds).map(|number| async move {
        let round = Round::mixed(number, version())?;
        let result = round.run(ground, s3).await;
        let Round { size, wreck, store, way, encrypted, .. } = &round;
        let kind =
            format!("round {number}: {size} members, {wreck:?}, {store:?}, {way:?}, encrypted: {encrypted}");
        match &result {
            Ok(took) => {
                println!("{kind}: backed up in {:.1} s, restored in {:.1} s", took.backup, took.restore);
            }
            Err(error) => println!("{kind}: FAILED: {error:#}"),
        }
        Ok::<bool, anyhow::Error>(result.is_ok())
    });
    let results: Vec<Result<bool>> = runs.buffer_unordered(AT_ONCE).collect().await;
    let passed = results.iter().filter(|result| matches!(result, Ok(true))).count();
    println!("{passed} of {rounds} rounds passed");
    if let Some(file) = std::env::var_os("QUORATE_RESTORE_ROUNDS") {
        let passed = u32::try_from(passed)?;
        record(Path::new(&file), &[Tally { world: "kubernetes", etcd: &version(), rounds, passed }])?;
    }
    ensure!(passed == results.len(), "{passed} of {rounds} rounds passed");
    Ok(())
}
