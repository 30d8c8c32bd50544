//! EtcdBackups that are made again for what a store has, over an API in memory with its Job controller. The test is the kubelet of Jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use quorate_api::backup::BackupPhase;
use quorate_api::job::{Answer, Failure, FailureKind};
use quorate_api::{EtcdBackup, EtcdBackupSchedule};
use quorate_model::{CrashPoint, Step};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::world::jobs::{Agent, STORED, able, kubelet};
use crate::world::{DieAt, World, until};

/// `kubectl apply` of the schedule, with an order in Git.
async fn create_schedule(world: &World) -> Result<()> {
    let object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule",
        "metadata": { "name": "yearly", "annotations": { "operator.etcd.io/catalog": "after-loss" } },
        "spec": { "schedule": "@yearly", "backupTemplate": { "spec": {
            "source": { "cluster": "demo" }, "destination": { "s3": { "bucket": "bkt" } }, "deletionPolicy": "Delete",
        } } },
    });
    world
        .api::<EtcdBackupSchedule>()
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

async fn stored(world: &World) -> Result<Vec<EtcdBackup>> {
    Ok(world.api::<EtcdBackup>().list(&ListParams::default()).await?.items)
}

/// All that is in the store is an EtcdBackup again, and nothing is left to do.
async fn made_again(world: &World) -> Result<()> {
    create_schedule(world).await?;
    until("an EtcdBackup is complete for each object", async || {
        let status = world.api::<EtcdBackupSchedule>().get("yearly").await?.status.unwrap_or_default();
        let is_complete = |one: &EtcdBackup| {
            let is = one.status.as_ref().is_some_and(|status| status.phase == Some(BackupPhase::Complete));
            is && one.spec.existing.is_some() && one.finalizers().is_empty()
        };
        let backups = stored(world).await?;
        let ended = status.catalog.as_ref().is_some_and(|catalog| catalog.finished.is_some());
        let is_done = ended
            && backups.len() == STORED
            && backups.iter().all(is_complete)
            && world.names::<Job>().await?.is_empty();
        let states: Vec<_> = backups.iter().map(|one| &one.status).collect();
        Ok(if is_done { Ok(()) } else { Err(format!("{status:#?} {states:#?} {:?}", world.writes())) })
    })
    .await?;
    let taken = world.writes().into_iter().find(|(what, _)| what.starts_with("create jobs default/backup-"));
    ensure!(taken.is_none(), "a backup was taken: {taken:?}");
    let twice = world.writes().into_iter().find(|(what, times)| what.starts_with("create ") && *times > 1);
    ensure!(twice.is_none(), "{twice:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o02_what_a_store_has_becomes_etcdbackups_again_through_a_crash_while_any_step_is_carried_out()
-> Result<()> {
    use Step::{E2, E3, E4, Y3, Y6, Y8, Y9};
    for point in CrashPoint::all().filter(|point| [E2, E3, E4, Y3, Y6, Y8, Y9].contains(&point.step)) {
        let world = World::new().await?;
        let _kubelet = kubelet(&world, able());
        let died = CancellationToken::new();
        let first = world.operator_with(Arc::new(DieAt { point, died: died.clone() }));
        let restarts = async {
            died.cancelled().await;
            drop(first);
            let _second = world.operator();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = made_again(&world) => ended.map_err(|error| error.context(format!("crash {point}")))?,
            () = restarts => unreachable!("this future never ends"),
        }
        ensure!(died.is_cancelled(), "{point} was not reached");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o02_a_store_that_does_not_answer_is_listed_again_and_git_that_gives_the_order_again_changes_nothing()
-> Result<()> {
    let world = World::new().await?;
    let (calls, able) = (AtomicUsize::new(0), able());
    let sleeps: Agent = Arc::new(move |command, order| {
        if command == "list-backups" && calls.fetch_add(1, Ordering::SeqCst) == 0 {
            return Answer::Failed(Failure::new(FailureKind::StoreUnavailable, "the store sleeps"));
        }
        able(command, order)
    });
    let _kubelet = kubelet(&world, sleeps);
    let _operator = world.operator();
    made_again(&world).await?;
    // A person deletes one, with its record only, and Git applies the schedule as it is.
    let gone = stored(&world).await?.remove(0).name_any();
    world.delete::<EtcdBackup>(&gone).await?;
    let order = json!({ "metadata": { "annotations": { "operator.etcd.io/catalog": "after-loss", "touched": "1" } } });
    let schedules = world.api::<EtcdBackupSchedule>();
    schedules.patch("yearly", &PatchParams::default(), &Patch::Merge(order)).await?;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(stored(&world).await?.len(), STORED - 1);
    let removed = world.writes().into_iter().find(|(what, _)| what.contains("jobs default/remove-"));
    assert_eq!(removed, None, "deleting one deletes the record");
    // Another word makes that one again, and no other.
    let order = json!({ "metadata": { "annotations": { "operator.etcd.io/catalog": "again" } } });
    schedules.patch("yearly", &PatchParams::default(), &Patch::Merge(order)).await?;
    until("it is there again", async || {
        let now = stored(&world).await?;
        Ok(if now.len() == STORED && now.iter().any(|one| one.name_any() == gone) {
            Ok(())
        } else {
            Err(String::new())
        })
    })
    .await
}
