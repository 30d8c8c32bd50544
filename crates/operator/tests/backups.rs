//! EtcdBackups and EtcdBackupSchedules over an API in memory, with its Job controller. The test is the kubelet: it ends the Pods of Jobs
//! with an answer. Requests are lost, repeated and refused one after another, and the operator dies between any two writes; the end is the
//! same each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::world::jobs::{Agent, able, kubelet};
use crate::world::{DieAt, RequestOutcome, Sent, World, plain, settled, story, until};
use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use quorate_api::job::{Answer, Failure, FailureKind, SIGNING_KEY, SIGNING_KEY_BYTES, SIGNING_SECRET};
use quorate_api::restore::RestorePhase;
use quorate_api::{EtcdBackup, EtcdBackupSchedule, EtcdRestore};
use quorate_model::{CrashPoint, Span, Step};
use quorate_sim::world::faults::Fault;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

async fn create_backup(world: &World, name: &str, spec: Value) -> Result<()> {
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup", "metadata": { "name": name },
        "spec": { "source": { "endpoints": { "urls": ["http://etcd:2379"] } }, "destination": { "s3": { "bucket": "bkt" } } },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    world.api::<EtcdBackup>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

async fn create_schedule(world: &World, spec: Value) -> Result<()> {
    let template = json!({ "spec": {
        "source": { "endpoints": { "urls": ["http://etcd:2379"] } }, "destination": { "s3": { "bucket": "bkt" } },
    } });
    let mut object = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": { "name": "often" },
        "spec": { "schedule": "*/10 * * * *", "backupTemplate": template },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    world
        .api::<EtcdBackupSchedule>()
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

/// Waits until a backup has a condition that is true, and no Job is left.
async fn until_backup(world: &World, name: &str, type_: &str) -> Result<EtcdBackup> {
    until(&format!("{name} is {type_}"), async || {
        let backup = world.api::<EtcdBackup>().get(name).await?;
        let holds = backup.status.iter().flat_map(|status| &status.conditions);
        let holds = holds.clone().any(|one| one.type_ == type_ && one.status == "True");
        let jobs = world.names::<Job>().await?;
        Ok(if holds && jobs.is_empty() { Ok(()) } else { Err(format!("{:#?} {jobs:?}", backup.status)) })
    })
    .await?;
    Ok(world.api::<EtcdBackup>().get(name).await?)
}

async fn until_gone(world: &World, name: &str) -> Result<()> {
    until(&format!("{name} is gone"), async || {
        let backup = world.api::<EtcdBackup>().get_opt(name).await?;
        Ok(backup.map_or(Ok(()), |backup| Err(format!("{:#?}", backup.status))))
    })
    .await
}

/// A backup is taken, and deleted with its object.
async fn story(world: &World) -> Result<()> {
    create_backup(world, "one", json!({ "deletionPolicy": "Delete" })).await?;
    let done = until_backup(world, "one", "Complete").await?;
    let result = done.status.context("it has a status")?.result.context("it has a result")?;
    let uid = done.metadata.uid.unwrap_or_default();
    ensure!(result.url == format!("s3://bkt/default/external/one-{uid}.db.zst"), "{}", result.url);
    world.delete::<EtcdBackup>("one").await?;
    until_gone(world, "one").await
}

/// Whether the operator writes an EtcdBackup or a Job.
fn is_write(sent: &Sent) -> bool {
    sent.method != Method::GET && (sent.path.contains("/etcdbackups/") || sent.path.contains("/jobs"))
}

/// The story, with this outcome of one of the writes. With `dies` the operator ends at that write, and another one begins. Returns
/// whether there was such a write.
async fn disturbed(place: usize, outcome: RequestOutcome, dies: bool) -> Result<bool> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let (count, hit) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let is_hit = hit.clone();
    let client = world.client_through(move |sent| {
        if is_write(sent) && count.fetch_add(1, Ordering::SeqCst) == place {
            is_hit.cancel();
            return outcome;
        }
        // A process that ended sends nothing.
        if dies && is_hit.is_cancelled() { RequestOutcome::Never } else { RequestOutcome::Open }
    });
    let first = world.operator_over(client, |_| {});
    let restarts = async {
        hit.cancelled().await;
        if dies {
            drop(first);
            let _second = world.operator();
            std::future::pending::<()>().await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = story(&world) => ended.with_context(|| format!("write {place} is {outcome:?}, dies: {dies}"))?,
        () = restarts => unreachable!("this future never ends"),
    }
    let most = if matches!(outcome, RequestOutcome::Late(_)) { 2 } else { 1 };
    let again =
        world.writes().into_iter().find(|(what, times)| what.starts_with("create jobs") && *times > most);
    ensure!(again.is_none(), "write {place} is {outcome:?}, dies: {dies}: {again:?}");
    Ok(hit.is_cancelled())
}

#[tokio::test(start_paused = true)]
async fn a_backup_is_taken_and_removed_whatever_becomes_of_any_write() -> Result<()> {
    let outcomes = [
        (RequestOutcome::Open, true),
        (RequestOutcome::NotSent, true),
        (RequestOutcome::NotSent, false),
        (RequestOutcome::ReplyLost, false),
        (RequestOutcome::Twice, false),
        (RequestOutcome::Refused(409, "Conflict"), false),
        (RequestOutcome::Refused(503, "ServiceUnavailable"), false),
        (RequestOutcome::Late(Duration::from_secs(10)), false),
    ];
    for (outcome, dies) in outcomes {
        let mut place = 0;
        while disturbed(place, outcome, dies).await? {
            place += 1;
        }
        assert!(place >= 8, "the story has at least so many writes: {place}");
    }
    Ok(())
}

/// Runs a story while the operator dies at one point, and another one begins.
async fn with_crash(point: CrashPoint, story: impl AsyncFnOnce(&World) -> Result<()>) -> Result<()> {
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
        ended = story(&world) => ended?,
        () = restarts => unreachable!("this future never ends"),
    }
    ensure!(died.is_cancelled(), "the step was not reached");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_backup_comes_through_a_crash_while_any_of_its_steps_is_carried_out() -> Result<()> {
    use Step::{E1, E2, E3, E4, E5, E6, E7};
    for point in CrashPoint::all().filter(|point| [E1, E2, E3, E4, E5, E6, E7].contains(&point.step)) {
        with_crash(point, story).await.with_context(|| format!("crash {point}"))?;
    }
    Ok(())
}

/// A schedule takes backups, keeps one, tests it and looks for it.
async fn scheduled(world: &World) -> Result<()> {
    let spec = json!({ "retention": { "keepLast": 1 }, "verify": { "schedule": "*/15 * * * *" }, "schedule": "*/30 * * * *" });
    create_schedule(world, spec).await?;
    tokio::time::sleep(Duration::from_mins(95)).await;
    until("backups are taken, tested, looked for and pruned", async || {
        let status = world.api::<EtcdBackupSchedule>().get("often").await?.status.unwrap_or_default();
        let is_true =
            |type_: &str| status.conditions.iter().any(|one| one.type_ == type_ && one.status == "True");
        let backups = world.api::<EtcdBackup>().list(&ListParams::default()).await?.items;
        let looked =
            backups.iter().any(|one| one.status.as_ref().is_some_and(|status| status.last_look.is_some()));
        let is_quiet = status.active.is_empty() && status.test.is_none() && status.look.is_none();
        let enough = backups.len() == 1 && looked && is_quiet && is_true("Verified") && is_true("Ready");
        Ok(if enough { Ok(()) } else { Err(format!("{status:#?} {:?}", world.writes())) })
    })
    .await?;
    let twice = world.writes().into_iter().find(|(what, times)| what.starts_with("create ") && *times > 1);
    ensure!(twice.is_none(), "{twice:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_schedule_comes_through_a_crash_while_any_of_its_steps_is_carried_out() -> Result<()> {
    use Step::{Y1, Y2, Y3, Y4, Y5, Y6, Y7};
    for point in CrashPoint::all().filter(|point| [Y1, Y2, Y3, Y4, Y5, Y6, Y7].contains(&point.step)) {
        with_crash(point, scheduled).await.with_context(|| format!("crash {point}"))?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o15_a_namespace_gets_one_key_that_signs_manifests_and_keeps_it() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let _operator = world.operator();
    create_backup(&world, "first", json!({})).await?;
    until_backup(&world, "first", "Complete").await?;
    let made = world.api::<Secret>().get(SIGNING_SECRET).await?;
    let key = made.data.iter().flatten().find(|(entry, _)| *entry == SIGNING_KEY).map(|(_, key)| key.0.len());
    assert_eq!(key, Some(SIGNING_KEY_BYTES));
    create_backup(&world, "second", json!({})).await?;
    until_backup(&world, "second", "Complete").await?;
    assert_eq!(world.api::<Secret>().get(SIGNING_SECRET).await?, made);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o15_a_secret_with_the_keys_of_another_namespace_gets_a_key_that_signs() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let _operator = world.operator();
    let of_before = json!({"metadata": {"name": SIGNING_SECRET}, "data": {"of-lost": "b2YgYmVmb3Jl"}});
    let created =
        world.api::<Secret>().create(&PostParams::default(), &serde_json::from_value(of_before)?).await?;
    create_backup(&world, "first", json!({})).await?;
    until_backup(&world, "first", "Complete").await?;
    let made = world.api::<Secret>().get(SIGNING_SECRET).await?;
    assert_eq!(made.metadata.uid, created.metadata.uid);
    let entries = made.data.unwrap_or_default();
    assert_eq!(entries.get(SIGNING_KEY).map(|key| key.0.len()), Some(SIGNING_KEY_BYTES));
    assert_eq!(entries.get("of-lost"), created.data.unwrap_or_default().get("of-lost"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o07_what_is_not_for_backups_is_told_and_used_once_it_says_so() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let _operator = world.operator();
    let claim = |mark: Value| {
        serde_json::from_value::<PersistentVolumeClaim>(json!({
            "metadata": {"name": "files", "labels": mark},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }))
    };
    let account = json!({"metadata": {"name": "shop"}});
    world.api::<PersistentVolumeClaim>().create(&PostParams::default(), &claim(json!({}))?).await?;
    world.api::<ServiceAccount>().create(&PostParams::default(), &serde_json::from_value(account)?).await?;
    create_backup(&world, "writes", json!({"destination": {"pvc": {"claimName": "files"}}})).await?;
    create_backup(&world, "is-shop", json!({"jobTemplate": {"serviceAccountName": "shop"}})).await?;
    for (name, words) in [
        ("writes", "kubectl label pvc files operator.etcd.io/for-backups=true"),
        ("is-shop", "kubectl annotate serviceaccount shop operator.etcd.io/for-backups=true"),
    ] {
        until("it says what is missing", async || {
            let status = world.api::<EtcdBackup>().get(name).await?.status.unwrap_or_default();
            let is_told = status.conditions.iter().any(|one| one.message.contains(words));
            Ok(if is_told { Ok(()) } else { Err(format!("{status:#?}")) })
        })
        .await?;
    }
    ensure!(world.names::<Job>().await?.is_empty(), "a Job was created");
    let mark = json!({"operator.etcd.io/for-backups": "true"});
    let patch = |field: &str| Patch::Merge(json!({"metadata": {field: mark}}));
    let how = PatchParams::default();
    world.api::<PersistentVolumeClaim>().patch("files", &how, &patch("labels")).await?;
    world.api::<ServiceAccount>().patch("shop", &how, &patch("annotations")).await?;
    for name in ["writes", "is-shop"] {
        until_backup(&world, name, "Complete").await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_and_what_does_not_ends_it() -> Result<()> {
    let world = World::new().await?;
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, able) = (calls.clone(), able());
    let flaky: Agent = Arc::new(move |command, order| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Failed(Failure::new(FailureKind::StoreUnavailable, "the store sleeps")),
        1 => able(command, order),
        _ => Answer::Failed(Failure::new(FailureKind::StoreForbidden, "wrong key")),
    });
    let _kubelet = kubelet(&world, flaky);
    let _operator = world.operator();
    create_backup(&world, "first", json!({})).await?;
    let first = until_backup(&world, "first", "Complete").await?;
    assert_eq!(first.status.as_ref().map(|status| status.attempts), Some(2));
    assert_eq!(first.finalizers().len(), 0, "nothing is left to do when it is deleted");
    create_backup(&world, "second", json!({})).await?;
    let second = until_backup(&world, "second", "Failed").await?.status.unwrap_or_default();
    let failed =
        second.conditions.iter().find(|one| one.type_ == "Failed").context("it has the condition")?;
    assert_eq!((failed.reason.as_str(), second.attempts), ("StoreForbidden", 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn backups_of_one_etcd_are_taken_one_after_another() -> Result<()> {
    let world = World::new().await?;
    let _operator = world.operator();
    for name in ["a", "b", "c"] {
        create_backup(&world, name, json!({})).await?;
    }
    until("one has a Job and the others wait", async || {
        let backups = world.api::<EtcdBackup>().list(&ListParams::default()).await?.items;
        let phases: Vec<String> = backups
            .iter()
            .map(|one| format!("{:?}", one.status.as_ref().and_then(|status| status.phase)))
            .collect();
        let waits = phases == ["Some(Running)", "Some(Pending)", "Some(Pending)"];
        Ok(if waits { Ok(()) } else { Err(format!("{phases:?}")) })
    })
    .await?;
    assert_eq!(world.names::<Job>().await?.len(), 1);
    let _kubelet = kubelet(&world, able());
    for name in ["a", "b", "c"] {
        until_backup(&world, name, "Complete").await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o08_a_full_database_waits_for_a_backup_of_its_cluster_that_runs_two_minutes_at_most() -> Result<()> {
    let world = World::new().await?;
    let (_members, _operator) = (world.kubelet(), world.operator());
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    for name in world.names::<PersistentVolumeClaim>().await? {
        let room = Patch::Merge(json!({ "status": { "capacity": { "storage": "1Gi" } } }));
        world.api::<PersistentVolumeClaim>().patch_status(&name, &PatchParams::default(), &room).await?;
    }
    // No kubelet runs its Job.
    create_backup(&world, "slow", json!({ "source": { "cluster": "demo" } })).await?;
    until("its Job is created", async || {
        Ok(if world.names::<Job>().await?.is_empty() { Err(String::new()) } else { Ok(()) })
    })
    .await?;
    let full = world.clock.now();
    ensure!(world.members.strike(&Fault::Alarm("demo-1".to_owned())), "there is no such member");
    until("the cluster says what it waits for", async || {
        let said = world.condition("Progressing", "False").await?;
        let waits = said.as_ref().is_some_and(|(why, text)| {
            why == "UnsafeChange" && text.starts_with("EtcdBackup slow runs, and may read a snapshot")
        });
        Ok(if waits { Ok(()) } else { Err(format!("{said:?}")) })
    })
    .await?;
    until("the database has room again", async || {
        Ok(if world.members.alarms() == 0 { Ok(()) } else { Err("it is full".to_owned()) })
    })
    .await?;
    let took = world.clock.now() - full;
    ensure!(took >= Span::seconds(120) && took <= Span::seconds(200), "{took:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_cannot_succeed_ends_by_order() -> Result<()> {
    let world = World::new().await?;
    let able = able();
    let closed: Agent = Arc::new(move |command, order| match command {
        "remove-backup" => {
            Answer::Failed(Failure::new(FailureKind::StoreForbidden, "the bucket is not yours"))
        }
        _ => able(command, order),
    });
    let _kubelet = kubelet(&world, closed);
    let _operator = world.operator();
    create_backup(&world, "one", json!({ "deletionPolicy": "Delete" })).await?;
    until_backup(&world, "one", "Complete").await?;
    world.delete::<EtcdBackup>("one").await?;
    let stuck = until_backup(&world, "one", "Failed").await?;
    assert!(stuck.metadata.deletion_timestamp.is_some());
    let order = json!({ "metadata": { "annotations": { "operator.etcd.io/abandon-object": "true" } } });
    world.api::<EtcdBackup>().patch("one", &PatchParams::default(), &Patch::Merge(order)).await?;
    until_gone(&world, "one").await
}

#[tokio::test(start_paused = true)]
async fn an_etcdbackup_of_another_that_has_the_name_uses_up_no_time_of_a_schedule() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let _operator = world.operator();
    create_schedule(&world, json!({})).await?;
    let schedules = world.api::<EtcdBackupSchedule>();
    let uid = schedules.get("often").await?.uid().context("it has one")?;
    let minute = (world.clock.now().0 / 600_000 + 1) * 10;
    let name = format!("often-{}{minute:08}", &uid[uid.len() - 4..]);
    create_backup(&world, &name, json!({})).await?;
    let status = async || Ok::<_, anyhow::Error>(schedules.get("often").await?.status.unwrap_or_default());
    tokio::time::sleep(Duration::from_secs(610)).await;
    until("the schedule says that its name is taken", async || {
        let status = status().await?;
        let told = status.conditions.iter().any(|one| {
            one.type_ == "Ready"
                && one.reason == "BackupMissed"
                && one.message.contains(&format!("EtcdBackup {name} has its name"))
        });
        Ok(if told { Ok(()) } else { Err(format!("{status:#?}")) })
    })
    .await?;
    assert_eq!(status().await?.last_scheduled, None, "the time is not used up");
    world.delete::<EtcdBackup>(&name).await?;
    until("its own is taken once the name is free", async || {
        let own = world.api::<EtcdBackup>().get_opt(&name).await?;
        let is_own = own.is_some_and(|own| own.labels().contains_key("operator.etcd.io/backup-schedule"));
        let status = status().await?;
        let is_ready = status.conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
        Ok(if is_own && is_ready && status.missed == 0 { Ok(()) } else { Err(format!("{status:#?}")) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_schedule_takes_keeps_and_tests_backups_across_a_restart() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let operator = world.operator();
    create_schedule(
        &world,
        json!({ "retention": { "keepLast": 2 }, "verify": { "schedule": "*/15 * * * *" } }),
    )
    .await?;
    let taken = async |at_least: usize| {
        until("backups are taken, tested and pruned", async || {
            let schedule = world.api::<EtcdBackupSchedule>().get("often").await?;
            let kept = world.names::<EtcdBackup>().await?;
            let status = schedule.status.unwrap_or_default();
            let verified =
                status.conditions.iter().any(|one| one.type_ == "Verified" && one.status == "True");
            let made = world.writes().keys().filter(|what| what.starts_with("create etcdbackups")).count();
            let enough = made >= at_least && kept.len() == 2 && verified && status.active.is_empty();
            Ok(if enough { Ok(()) } else { Err(format!("{status:#?} {kept:?} {:?}", world.writes())) })
        })
        .await
    };
    // The clock is paused and jumps, so an hour is short. `until` waits for ten minutes of it at most.
    tokio::time::sleep(Duration::from_mins(45)).await;
    taken(3).await?;
    operator.stop().await?;
    tokio::time::sleep(Duration::from_mins(65)).await;
    let before = world.names::<EtcdBackup>().await?;
    let _operator = world.operator();
    until("the last one that was missed is made up for", async || {
        let now = world.names::<EtcdBackup>().await?;
        Ok(if now.len() == 2 && now != before && before.contains(&now[0]) {
            Ok(())
        } else {
            Err(format!("{before:?} {now:?}"))
        })
    })
    .await?;
    world.delete::<EtcdBackupSchedule>("often").await?;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(world.names::<EtcdBackup>().await?.len(), 2, "they stay when the schedule is deleted");
    Ok(())
}

/// Orders a restore that waits: its EtcdCluster does not exist.
async fn order_restore(world: &World, backup: &str) -> Result<()> {
    let order = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore", "metadata": { "name": "back" },
        "spec": { "clusterName": "demo", "clusterID": "a1", "snapshot": { "backupRef": { "name": backup } } },
    });
    world.api::<EtcdRestore>().create(&PostParams::default(), &serde_json::from_value(order)?).await?;
    until("the order waits", async || {
        let status = world.api::<EtcdRestore>().get("back").await?.status;
        Ok(if status.as_ref().is_some_and(|status| status.phase.is_some()) {
            Ok(())
        } else {
            Err(format!("{status:?}"))
        })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn the_object_of_a_backup_stays_until_the_order_to_restore_it_is_withdrawn() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let _operator = world.operator();
    create_backup(&world, "one", json!({ "deletionPolicy": "Delete" })).await?;
    until_backup(&world, "one", "Complete").await?;
    order_restore(&world, "one").await?;
    world.delete::<EtcdBackup>("one").await?;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let status = world.api::<EtcdBackup>().get("one").await?.status.context("it has a status")?;
    assert_eq!(status.removals, 0);
    let mut conditions = status.conditions.iter().filter(|one| one.status == "True");
    let message = conditions.next().map(|one| one.message.clone()).unwrap_or_default();
    assert!(message.contains("waits for EtcdRestore back"), "{message}");
    world.delete::<EtcdRestore>("back").await?;
    until_gone(&world, "one").await
}

#[tokio::test(start_paused = true)]
async fn a_schedule_does_not_delete_the_backup_that_a_waiting_order_names() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, able());
    let _operator = world.operator();
    create_schedule(&world, json!({ "retention": { "keepLast": 1 } })).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let first = async || {
        let names = world.names::<EtcdBackup>().await?;
        Ok::<_, anyhow::Error>(names.into_iter().next())
    };
    until("a backup is taken", async || {
        Ok(if first().await?.is_some() { Ok(()) } else { Err(String::new()) })
    })
    .await?;
    let named = first().await?.context("it exists")?;
    order_restore(&world, &named).await?;
    tokio::time::sleep(Duration::from_mins(35)).await;
    let kept = world.names::<EtcdBackup>().await?;
    assert!(kept.len() == 2 && kept.contains(&named), "{named}: {kept:?}");
    world.delete::<EtcdRestore>("back").await?;
    until("retention goes on", async || {
        let kept = world.names::<EtcdBackup>().await?;
        Ok(if kept.len() == 1 && !kept.contains(&named) { Ok(()) } else { Err(format!("{kept:?}")) })
    })
    .await
}

/// The first time that a command is carried out it fails, and then never again.
fn fails_once(failing: &'static str) -> Agent {
    let (calls, able) = (AtomicUsize::new(0), able());
    Arc::new(move |command, order| {
        if command == failing && calls.fetch_add(1, Ordering::SeqCst) == 0 {
            return Answer::Failed(Failure::new(FailureKind::StoreUnavailable, "the store sleeps"));
        }
        able(command, order)
    })
}

fn jobs_created(world: &World, prefix: &str) -> u64 {
    let prefix = format!("create jobs default/{prefix}");
    world.writes().iter().filter(|(what, _)| what.starts_with(&prefix)).map(|(_, times)| times).sum()
}

#[tokio::test(start_paused = true)]
async fn o15_a_look_that_failed_once_is_repeated_after_an_hour_and_then_ends() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = kubelet(&world, fails_once("look-for-backups"));
    let _operator = world.operator();
    create_schedule(
        &world,
        json!({ "schedule": "0 */3 * * *", "immediate": true, "retention": { "keepLast": 1 } }),
    )
    .await?;
    tokio::time::sleep(Duration::from_mins(130)).await;
    until("a look has found what is there", async || {
        let backups = world.api::<EtcdBackup>().list(&ListParams::default()).await?.items;
        let looked =
            backups.iter().any(|one| one.status.as_ref().is_some_and(|status| status.last_look.is_some()));
        let status = world.api::<EtcdBackupSchedule>().get("often").await?.status;
        let look = status.and_then(|status| status.look);
        Ok(if looked && look.is_none() { Ok(()) } else { Err(format!("{look:#?} {:?}", world.writes())) })
    })
    .await?;
    let created = jobs_created(&world, "look-");
    assert!((2..6).contains(&created), "{created}: {:?}", world.writes());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o15_a_reading_that_failed_once_is_repeated_and_the_order_goes_on() -> Result<()> {
    let world = World::new().await?;
    let (_members, _jobs) = (world.kubelet(), kubelet(&world, fails_once("read-backup")));
    let _operator = world.operator();
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    story::order_restore(&world).await?;
    until("the order is complete", async || {
        let status = world.api::<EtcdRestore>().get("back").await?.status.unwrap_or_default();
        let is_complete = status.phase == Some(RestorePhase::Complete);
        Ok(if is_complete { Ok(()) } else { Err(format!("{status:#?} {:?}", world.writes())) })
    })
    .await?;
    assert_eq!(jobs_created(&world, "read-"), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn o02_a_cluster_begins_with_the_newest_backup_that_a_job_found_once_whoever_operates_it() -> Result<()>
{
    let world = World::new().await?;
    let (_members, _jobs) = (world.kubelet(), kubelet(&world, fails_once("find-backup")));
    let operator = world.operator();
    let mut spec = plain(1);
    spec["bootstrap"] = json!({ "restore": { "latest": { "destination": { "s3": { "bucket": "backups" } }, "cluster": "lost" } } });
    world.create_cluster(spec).await?;
    until("the first look has failed, and the cluster says so", async || {
        let status = world.status().await?;
        let says = status.conditions.iter().any(|condition| {
            condition.type_ == "Bootstrapped"
                && condition.reason == "RestoreFailed"
                && condition.message.contains("the store sleeps. It looks again by itself")
        });
        Ok(if says { Ok(()) } else { Err(format!("{status:#?}")) })
    })
    .await?;
    ensure!(world.status().await?.bootstrap.is_none(), "nothing is begun");
    // Another operator goes on with what is recorded.
    drop(operator);
    let _operator = world.operator();
    settled(&world, 1).await?;
    let status = world.status().await?;
    let restored = status.bootstrap.and_then(|bootstrap| bootstrap.restore).context("it is recorded")?;
    let backup = restored.backup.context("it is recorded")?;
    let stands_for = world.api::<EtcdBackup>().get(&backup).await?;
    assert_eq!(stands_for.owner_references()[0].name, "demo", "it goes with the cluster");
    let found = stands_for.status.and_then(|status| status.result).context("it is found")?;
    assert_eq!((found.key.as_str(), restored.source.key), ("default/lost/newest.db", found.key.clone()));
    assert_eq!(restored.source.sha256, found.stored_sha256);
    assert_eq!(jobs_created(&world, "inspect-"), 2);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(jobs_created(&world, "inspect-"), 2, "nothing is looked for any more");
    until("no Job is left", async || {
        let left = world.names::<Job>().await?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn o02_an_order_in_place_restores_the_newest_backup_that_was_found_before_anything_was_stopped()
-> Result<()> {
    let world = World::new().await?;
    let (_members, _jobs) = (world.kubelet(), kubelet(&world, fails_once("find-backup")));
    let _operator = world.operator();
    world.create_cluster(plain(1)).await?;
    settled(&world, 1).await?;
    let id = world.status().await?.cluster_id.context("it is bootstrapped")?;
    world.members.nodes().oracle.may_be_replaced(id.parse()?);
    let latest = json!({ "latest": { "destination": { "s3": { "bucket": "backups" } }, "cluster": "demo" } });
    let order = json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdRestore", "metadata": { "name": "back" },
        "spec": { "clusterName": "demo", "clusterID": id, "snapshot": latest },
    });
    world.api::<EtcdRestore>().create(&PostParams::default(), &serde_json::from_value(order)?).await?;
    until("the order is complete", async || {
        let status = world.api::<EtcdRestore>().get("back").await?.status.unwrap_or_default();
        let is_complete = status.phase == Some(RestorePhase::Complete);
        let is_it = status.url.as_deref() == Some("s3://backups/default/demo/newest.db");
        Ok(if is_complete && is_it { Ok(()) } else { Err(format!("{status:#?} {:?}", world.writes())) })
    })
    .await?;
    assert_eq!((jobs_created(&world, "inspect-"), jobs_created(&world, "read-")), (2, 1));
    Ok(())
}
