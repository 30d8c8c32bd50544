//! The backups before an upgrade and before the end of a cluster, over an API in memory.

use std::sync::Arc;
use std::time::Duration;

use crate::world::jobs::{Agent, able_at, kubelet, kubelet_of};
use crate::world::story::order_restore_with;
use crate::world::{DieAt, RequestOutcome, World, plain, scale, settled, until};
use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::api::core::v1::{Event, Namespace, PersistentVolumeClaim};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use quorate_api::job::{Answer, Failure, FailureKind};
use quorate_api::restore::EtcdRestoreStatus;
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore};
use quorate_model::Step;
use quorate_operator::crash::CrashPoint;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn able(world: &World) -> Agent {
    let clock = world.clock.clone();
    able_at(move || {
        let now = jiff::Timestamp::from_millisecond(clock.now().0).unwrap();
        format!("{now:.0}")
    })
}

/// The store refuses every backup.
fn closed() -> Agent {
    Arc::new(|_, _| Answer::Failed(Failure::new(FailureKind::StoreForbidden, "the bucket is not yours")))
}

async fn edit(world: &World, spec: Value) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": spec }));
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &patch).await?;
    Ok(())
}

fn bucket() -> Value {
    json!({ "destination": { "s3": { "bucket": "bkt" } } })
}

/// A cluster of one that asks for both backups; the names of them.
async fn running(world: &World) -> Result<[String; 2]> {
    let mut spec = plain(1);
    spec["upgrade"] = json!({ "backupBefore": bucket() });
    spec["deletion"] = json!({ "finalBackup": bucket() });
    spec["storageSpec"]["retention"] = json!({ "whenDeleted": "Delete" });
    let created = world.create_cluster(spec).await?;
    settled(world, 1).await?;
    let uid = created.metadata.uid.context("it has a uid")?;
    Ok([format!("before-3.7-{uid}"), format!("final-{uid}")])
}

/// A cluster of one whose minor version is raised; the name of the backup before that.
async fn upgrading(world: &World) -> Result<String> {
    let [backup, _] = running(world).await?;
    edit(world, json!({ "version": "3.7.3" })).await?;
    Ok(backup)
}

/// A cluster of one that is being deleted; the name of the backup before that.
async fn deleting(world: &World) -> Result<String> {
    let [_, backup] = running(world).await?;
    world.delete::<EtcdCluster>("demo").await?;
    Ok(backup)
}

async fn runs(world: &World, version: &str) -> Result<()> {
    until(&format!("the members run {version}"), async || {
        let status = world.status().await?;
        let runs = status.current_version.as_deref() == Some(version);
        Ok(if runs { Ok(()) } else { Err(format!("{status:#?}")) })
    })
    .await
}

async fn gone(world: &World) -> Result<()> {
    until("the cluster is gone", async || {
        let left = world.api::<EtcdCluster>().get_opt("demo").await?;
        Ok(left.map_or(Ok(()), |left| Err(format!("{:#?}", left.status))))
    })
    .await
}

async fn ordered(world: &World, backup: &str) -> Result<()> {
    until("the backup is ordered", async || {
        let found = world.api::<EtcdBackup>().get_opt(backup).await?;
        Ok(found.map(drop).ok_or_else(|| "it is not".to_owned()))
    })
    .await
}

async fn says(world: &World, type_: &str, reason: &str) -> Result<String> {
    let mut message = String::new();
    until(&format!("{type_} has the reason {reason}"), async || {
        let said = world.condition(type_, "True").await?;
        Ok(match said.filter(|(why, _)| why == reason) {
            Some((_, text)) => {
                message = text;
                Ok(())
            }
            None => Err(format!("{:#?}", world.status().await?.conditions)),
        })
    })
    .await?;
    Ok(message)
}

#[expect(clippy::disallowed_methods, reason = "the test is the user who deletes")]
async fn delete_namespace(world: &World) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces.delete("default", &DeleteParams::default()).await?;
    Ok(())
}

/// The messages of the events about the cluster with this reason.
async fn told(world: &World, reason: &str) -> Result<Vec<String>> {
    let events = world.api::<Event>().list(&ListParams::default()).await?;
    let about = |event: &Event| {
        event.involved_object.kind.as_deref() == Some("EtcdCluster")
            && event.reason.as_deref() == Some(reason)
    };
    Ok(events.into_iter().filter(about).filter_map(|event| event.message).collect())
}

/// How many EtcdBackups were created. For each EtcdRestore one of them stands for its object.
fn times_created(world: &World) -> u64 {
    let created = world.writes().into_iter().filter(|(what, _)| what.starts_with("create etcdbackups"));
    created.map(|(_, times)| times).sum()
}

#[tokio::test(start_paused = true)]
async fn the_minor_version_is_raised_when_the_backup_is_complete_and_not_before() -> Result<()> {
    let world = World::new().await?;
    let _members = world.kubelet();
    let operator = world.operator();
    let backup = upgrading(&world).await?;
    let text = says(&world, "Progressing", "UpgradeBackupRunning").await?;
    ensure!(text.contains(&backup), "{text}");
    ordered(&world, &backup).await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    drop(operator);
    let _operator = world.operator();
    tokio::time::sleep(Duration::from_mins(5)).await;
    let status = world.status().await?;
    ensure!(status.current_version.as_deref() == Some("3.6.16"), "{status:#?}");

    let _jobs = kubelet(&world, able(&world));
    runs(&world, "3.7.3").await?;
    settled(&world, 1).await?;
    let taken = world.api::<EtcdBackup>().get(&backup).await?;
    ensure!(taken.metadata.owner_references.is_none(), "it stays when the cluster is deleted");
    ensure!(times_created(&world) == 1, "{:?}", world.writes());
    Ok(())
}

/// The EtcdRestore of a cluster of one is in this phase, for this reason; its message and its status.
async fn restore_says(world: &World, phase: &str, reason: &str) -> Result<(String, EtcdRestoreStatus)> {
    let mut found = None;
    until(&format!("the order is {phase} for {reason}"), async || {
        let status = world.api::<EtcdRestore>().get("back").await?.status.unwrap_or_default();
        let mut conditions = status.conditions.iter();
        let holds = conditions.find(|one| one.type_ == phase && one.status == "True" && one.reason == reason);
        Ok(match holds.map(|holds| holds.message.clone()) {
            Some(text) => {
                found = Some((text, status));
                Ok(())
            }
            None => Err(format!("{status:#?}")),
        })
    })
    .await?;
    found.context("it was found")
}

/// A cluster of one, and an order to replace its data.
async fn restoring(world: &World, mode: &str) -> Result<String> {
    world.create_cluster(plain(1)).await?;
    settled(world, 1).await?;
    // Half of the deadline is how long a backup may take that need not come about.
    let deadline = if mode == "IfPossible" { "8m" } else { "1h" };
    order_restore_with(world, json!({ "backupBefore": mode, "startingDeadline": deadline })).await?;
    let uid = world.api::<EtcdRestore>().get("back").await?.metadata.uid.context("it has a uid")?;
    Ok(format!("before-restore-{uid}"))
}

async fn is_replaced(world: &World) -> Result<bool> {
    let status = world.status().await?;
    Ok(status.replacing.is_some() || status.incarnation.is_some())
}

#[tokio::test(start_paused = true)]
async fn o05_the_data_are_replaced_when_they_are_backed_up_and_not_before() -> Result<()> {
    let world = World::new().await?;
    let _members = world.kubelet();
    let operator = world.operator();
    let mut jobs = kubelet_of(&world, &["inspect-backup", "read-backup"], able(&world));
    let backup = restoring(&world, "Required").await?;
    ordered(&world, &backup).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    drop(operator);
    let _operator = world.operator();
    tokio::time::sleep(Duration::from_mins(4)).await;
    ensure!(!is_replaced(&world).await?, "{:?}", world.writes());
    let (text, status) = restore_says(&world, "Pending", "RestoreBackupFirst").await?;
    ensure!(
        text.contains(&backup) && status.backup_before.is_some_and(|taken| taken.name == backup),
        "{text}"
    );
    drop(std::mem::replace(&mut jobs, kubelet(&world, able(&world))));
    let (_, status) = restore_says(&world, "Complete", "RestoredInPlace").await?;
    ensure!(status.backup_before.is_some_and(|taken| taken.complete.is_some()), "it is known afterwards");
    ensure!(times_created(&world) == 2, "{:?}", world.writes());
    let taken = world.api::<EtcdBackup>().get(&backup).await?;
    ensure!(taken.metadata.owner_references.is_none(), "it stays when the order is deleted");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o05_a_definition_that_does_not_store_the_backup_is_reported_and_nothing_is_ordered() -> Result<()> {
    let world = World::new().await?;
    let (_members, _operator) = (world.kubelet(), world.operator());
    let _jobs = kubelet(&world, able(&world));
    world.definition_of_lacks("EtcdRestore", &["backupBefore", "observedGeneration"])?;
    restoring(&world, "Required").await?;
    let (text, _) = restore_says(&world, "Pending", "CrdTooOld").await?;
    ensure!(text.contains("kubectl apply --server-side"), "{text}");
    let before = world.writes();
    tokio::time::sleep(Duration::from_mins(4)).await;
    let written = world.writes();
    ensure!(before == written && times_created(&world) == 1, "{before:?} {written:?}");
    ensure!(!is_replaced(&world).await?, "{written:?}");
    world.definition_of_lacks("EtcdRestore", &[])?;
    restore_says(&world, "Complete", "RestoredInPlace").await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o05_an_order_whose_backup_the_store_refuses_waits_and_goes_on_as_its_message_says() -> Result<()> {
    let world = World::new().await?;
    let (_members, _operator) = (world.kubelet(), world.operator());
    let able = able(&world);
    let refusing: Agent = Arc::new(move |command, order| match command {
        "backup" => Answer::Failed(Failure::new(FailureKind::StoreForbidden, "the bucket is not yours")),
        _ => able(command, order),
    });
    let _jobs = kubelet(&world, refusing);
    let backup = restoring(&world, "Required").await?;
    let (text, _) = restore_says(&world, "Pending", "RestoreBackupFailed").await?;
    ensure!(text.contains("the bucket is not yours") && text.contains(&backup), "{text}");
    ensure!(text.contains("kubectl replace --force"), "{text}");
    tokio::time::sleep(Duration::from_mins(5)).await;
    ensure!(!is_replaced(&world).await? && times_created(&world) == 2, "{:?}", world.writes());
    // What the command does.
    world.delete::<EtcdRestore>("back").await?;
    order_restore_with(&world, json!({ "backupBefore": "Never" })).await?;
    let (_, status) = restore_says(&world, "Complete", "RestoredInPlace").await?;
    ensure!(status.backup_before.is_none() && times_created(&world) == 3, "{status:#?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o05_an_order_that_can_do_without_its_backup_begins_when_that_takes_too_long_and_says_so()
-> Result<()> {
    let world = World::new().await?;
    let (_members, _operator) = (world.kubelet(), world.operator());
    let _jobs = kubelet_of(&world, &["inspect-backup", "read-backup"], able(&world));
    let backup = restoring(&world, "IfPossible").await?;
    ordered(&world, &backup).await?;
    tokio::time::sleep(Duration::from_mins(3)).await;
    ensure!(!is_replaced(&world).await?, "{:?}", world.writes());
    tokio::time::sleep(Duration::from_mins(2)).await;
    let (_, status) = restore_says(&world, "Complete", "RestoredInPlace").await?;
    let missing = status.backup_before.and_then(|taken| taken.missing).unwrap_or_default();
    ensure!(missing.contains("it was not complete within"), "{missing}");
    // It is not taken of the new data.
    let late = world.api::<EtcdBackup>().get(&backup).await?.status.unwrap_or_default();
    ensure!(late.result.is_none(), "{late:#?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_backup_is_ordered_whatever_becomes_of_the_request() -> Result<()> {
    let outcomes = [
        (RequestOutcome::Open, true),
        (RequestOutcome::NotSent, false),
        (RequestOutcome::NotSent, true),
        (RequestOutcome::ReplyLost, false),
        (RequestOutcome::Twice, false),
        (RequestOutcome::Refused(403, "Forbidden"), false),
        (RequestOutcome::Refused(503, "ServiceUnavailable"), false),
        (RequestOutcome::Late(Duration::from_secs(10)), false),
    ];
    for (outcome, dies) in outcomes {
        let world = World::new().await?;
        let (_members, _jobs) = (world.kubelet(), kubelet(&world, able(&world)));
        let hit = CancellationToken::new();
        let is_hit = hit.clone();
        let client = world.client_through(move |sent| {
            let orders = sent.method == Method::POST && sent.path.ends_with("/etcdbackups");
            match (orders, is_hit.is_cancelled()) {
                (true, false) => {
                    is_hit.cancel();
                    outcome
                }
                // A process that ended sends nothing.
                (_, true) if dies => RequestOutcome::Never,
                (_, _) => RequestOutcome::Open,
            }
        });
        let first = world.operator_over(client, |_| {});
        let backup = upgrading(&world).await?;
        until("the backup is ordered", async || {
            Ok(if hit.is_cancelled() { Ok(()) } else { Err(String::new()) })
        })
        .await?;
        let _operator = if dies {
            drop(first);
            world.operator()
        } else {
            first
        };
        runs(&world, "3.7.3").await.with_context(|| format!("{outcome:?}, dies: {dies}"))?;
        ensure!(world.names::<EtcdBackup>().await? == [backup], "{outcome:?}, dies: {dies}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_backup_is_ordered_wherever_the_operator_crashes() -> Result<()> {
    for point in CrashPoint::all().filter(|point| matches!(point.step, Step::T0 | Step::D0)) {
        let world = World::new().await?;
        let (_members, _jobs) = (world.kubelet(), kubelet(&world, able(&world)));
        let died = CancellationToken::new();
        let first = world.operator_with(Arc::new(DieAt { point, died: died.clone() }));
        let backup = if point.step == Step::T0 { upgrading(&world).await? } else { deleting(&world).await? };
        died.cancelled().await;
        drop(first);
        let _second = world.operator();
        match point.step {
            Step::T0 => runs(&world, "3.7.3").await,
            _ => gone(&world).await,
        }
        .with_context(|| format!("crash {point}"))?;
        ensure!(world.names::<EtcdBackup>().await? == [backup], "crash {point}");
        ensure!(times_created(&world) == 1, "crash {point}: {:?}", world.writes());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_fails_blocks_the_version_until_another_one_or_none_is_asked_for() -> Result<()> {
    let world = World::new().await?;
    let _members = world.kubelet();
    let _operator = world.operator();
    let jobs = kubelet(&world, closed());
    let backup = upgrading(&world).await?;
    let text = says(&world, "VersionUpgradeBlocked", "UpgradeBackupFailed").await?;
    ensure!(text.contains("the bucket is not yours") && text.contains("Delete EtcdBackup"), "{text}");
    drop(jobs);
    let first = world.api::<EtcdBackup>().get(&backup).await?.metadata.uid;

    world.delete::<EtcdBackup>(&backup).await?;
    until("another one is ordered", async || {
        let now = world.api::<EtcdBackup>().get_opt(&backup).await?;
        let is_other = now.is_some_and(|now| now.metadata.uid != first);
        Ok(if is_other { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    ensure!(world.status().await?.current_version.as_deref() == Some("3.6.16"));
    edit(&world, json!({ "upgrade": null })).await?;
    runs(&world, "3.7.3").await?;
    let blocked =
        world.status().await?.conditions.into_iter().find(|one| one.type_ == "VersionUpgradeBlocked");
    ensure!(blocked.context("it has the condition")?.status == "False");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_cluster_serves_until_its_backup_is_complete_and_the_backup_stays() -> Result<()> {
    let world = World::new().await?;
    let _members = world.kubelet();
    let _operator = world.operator();
    let backup = deleting(&world).await?;
    let text = says(&world, "Progressing", "FinalBackupRunning").await?;
    ensure!(text.contains(&backup), "{text}");
    ordered(&world, &backup).await?;
    tokio::time::sleep(Duration::from_mins(5)).await;
    ensure!(world.condition("Available", "True").await?.is_some(), "{:#?}", world.status().await?.conditions);

    let _jobs = kubelet(&world, able(&world));
    gone(&world).await?;
    let taken = world.api::<EtcdBackup>().get(&backup).await?;
    let status = taken.status.context("it has a status")?;
    ensure!(status.result.is_some_and(|result| result.revision > 0), "it is complete");
    ensure!(told(&world, "FinalBackupMissing").await?.is_empty());
    ensure!(world.names::<PersistentVolumeClaim>().await?.is_empty(), "the policy deletes its volume");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_ten_minutes_for_a_backup_and_goes_on_without_it() -> Result<()> {
    let world = World::new().await?;
    let _members = world.kubelet();
    let _operator = world.operator();
    let begun = tokio::time::Instant::now();
    let backup = deleting(&world).await?;
    ordered(&world, &backup).await?;
    tokio::time::sleep(Duration::from_mins(9)).await;
    ensure!(world.api::<EtcdCluster>().get_opt("demo").await?.is_some(), "it waits");
    gone(&world).await?;
    ensure!(begun.elapsed() < Duration::from_mins(12), "{:?}", begun.elapsed());
    let told = told(&world, "FinalBackupMissing").await?;
    ensure!(told.len() == 1 && told[0].contains("was not complete within"), "{told:?}");
    ensure!(world.names::<PersistentVolumeClaim>().await?.len() == 1, "its volume is kept");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn deletion_goes_on_at_once_where_no_backup_can_come_about() -> Result<()> {
    for case in ["the store refuses it", "the cluster is at size zero", "the namespace is being deleted"] {
        let world = World::new().await?;
        let (_members, _jobs) = (world.kubelet(), kubelet(&world, closed()));
        let _operator = world.operator();
        running(&world).await?;
        let ends = case == "the namespace is being deleted";
        if case == "the cluster is at size zero" {
            scale(&world, 0).await?;
            settled(&world, 0).await?;
        }
        if ends {
            delete_namespace(&world).await?;
        }
        let begun = tokio::time::Instant::now();
        world.delete::<EtcdCluster>("demo").await?;
        gone(&world).await.context(case)?;
        ensure!(begun.elapsed() < Duration::from_mins(1), "{case}: {:?}", begun.elapsed());
        // No event can be created in a namespace that is being deleted.
        ensure!(ends || !told(&world, "FinalBackupMissing").await?.is_empty(), "{case}");
        // The namespace takes its volumes along.
        let left = world.names::<PersistentVolumeClaim>().await?.len();
        ensure!(ends || left == 1, "{case}: its volume is kept");
    }
    Ok(())
}
