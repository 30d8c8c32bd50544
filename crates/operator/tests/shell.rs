//! The operator around the planner: which objects it creates, that it creates each once, and what it reports when it cannot.

use std::time::Duration;

use crate::world::{RequestOutcome, World, three_members, until, until_pods};
use anyhow::Result;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod, Secret, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use quorate_api::EtcdCluster;
use serde_json::json;

const PODS: [&str; 3] = ["demo-0", "demo-1", "demo-2"];

#[tokio::test(start_paused = true)]
async fn a_new_cluster_gets_names_certificates_volumes_and_pods_each_created_once() -> Result<()> {
    let world = World::new().await?;
    let operator = world.operator();
    world.create_cluster(three_members()).await?;
    until_pods(&world, &PODS).await?;

    assert_eq!(world.names::<PersistentVolumeClaim>().await?, PODS);
    let secrets = ["demo-ca", "demo-client-tls", "demo-peer-ca", "demo-peer-tls", "demo-server-tls"];
    assert_eq!(world.names::<Secret>().await?, secrets);
    assert_eq!(
        world.names::<Service>().await?,
        ["demo"],
        "no client Service before the cluster id is recorded"
    );
    let status = world.status().await?;
    assert!(status.cluster_token.is_some() && status.cluster_id.is_none(), "{status:#?}");
    assert_eq!(status.members.len(), 3);

    let (writes, version) = (world.writes(), world.kube.store().version());
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.writes(), writes);
    assert_eq!(world.kube.store().version(), version, "nothing is written while nothing changes");
    operator.stop().await
}

#[tokio::test(start_paused = true)]
async fn without_tls_there_are_no_certificates() -> Result<()> {
    let world = World::new().await?;
    let _operator = world.operator();
    world.create_cluster(json!({"size": 1, "version": "3.6.16", "tls": {"provider": "disabled"}})).await?;
    until_pods(&world, &["demo-0"]).await?;
    assert!(world.names::<Secret>().await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_service_of_the_same_name_that_the_cluster_does_not_own_is_reported_and_left_alone() -> Result<()> {
    let world = World::new().await?;
    let theirs = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "demo"}, "spec": {"ports": [{"port": 80}]},
    });
    let theirs =
        world.api::<Service>().create(&PostParams::default(), &serde_json::from_value(theirs)?).await?;
    let _operator = world.operator();
    world.create_cluster(three_members()).await?;

    until("the status names it", async || {
        let condition = world.condition("Progressing", "False").await?;
        Ok(match condition {
            Some((reason, message))
                if reason == "ForeignObjects" && message.contains("Service default/demo") =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(world.api::<Service>().get("demo").await?.metadata.uid, theirs.metadata.uid);
    assert!(
        world.names::<Pod>().await?.is_empty(),
        "no Pod is created before the Service that its DNS name needs"
    );

    world.delete::<Service>("demo").await?;
    until_pods(&world, &PODS).await
}

#[tokio::test(start_paused = true)]
async fn an_invalid_spec_is_reported_and_the_edit_that_corrects_it_is_carried_out() -> Result<()> {
    let world = World::new().await?;
    let _operator = world.operator();
    let mut spec = three_members();
    spec["etcdOptions"] = json!(["--no-such-flag=1"]);
    world.create_cluster(spec).await?;
    until("status reports it", async || {
        Ok(match world.condition("Progressing", "False").await? {
            Some((reason, message)) if reason == "SpecInvalid" && message.contains("no-such-flag") => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    until("an event reports it", async || event(&world, "SpecInvalid").await).await?;
    assert!(world.names::<PersistentVolumeClaim>().await?.is_empty());

    let fix = Patch::Merge(json!({"spec": {"etcdOptions": null}}));
    world.api::<EtcdCluster>().patch("demo", &PatchParams::default(), &fix).await?;
    until_pods(&world, &PODS).await
}

#[tokio::test(start_paused = true)]
async fn h46_a_forbidden_write_is_reported_in_status_and_an_event_and_is_retried() -> Result<()> {
    let world = World::new().await?;
    let allowed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let key = allowed.clone();
    let client = world.client_through(move |request| {
        let creates_pod = request.method == http::Method::POST && request.path.ends_with("/pods");
        let forbidden = creates_pod && !key.load(std::sync::atomic::Ordering::SeqCst);
        if forbidden { RequestOutcome::Refused(403, "Forbidden") } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(three_members()).await?;
    until("status reports it", async || {
        let conditions = world.status().await?.conditions;
        let reported = conditions
            .iter()
            .any(|one| one.reason == "WriteRefused" && one.message.contains("create Pod default/demo-0"));
        Ok(if reported { Ok(()) } else { Err(format!("{conditions:#?}")) })
    })
    .await?;
    until("an event reports it", async || event(&world, "WriteRefused").await).await?;
    let version = world.kube.store().version();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(world.kube.store().version(), version, "an unchanged report is not written again");

    allowed.store(true, std::sync::atomic::Ordering::SeqCst);
    until_pods(&world, &PODS).await?;
    until("status no longer reports it", async || {
        let conditions = world.status().await?.conditions;
        let reported = conditions.iter().any(|one| one.reason == "WriteRefused");
        Ok(if reported { Err(format!("{conditions:#?}")) } else { Ok(()) })
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_stops_no_work_and_duplicates_none() -> Result<()> {
    let world = World::new().await?;
    world.create_cluster(three_members()).await?;
    // Lists are answered and watches hang, so the cache never changes.
    let client = world.client_through(|request| {
        let watches = request.query.contains("watch=true");
        if watches { RequestOutcome::Never } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    until_pods(&world, &PODS).await?;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let twice: Vec<_> = world.writes().into_iter().filter(|(_, count)| *count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(world.names::<Pod>().await?, PODS);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn h45_lost_replies_to_creates_neither_lose_nor_duplicate_an_object() -> Result<()> {
    let world = World::new().await?;
    let count = std::sync::atomic::AtomicU32::new(0);
    let client = world.client_through(move |request| {
        let creates = request.method == http::Method::POST;
        let every_second =
            creates && count.fetch_add(1, std::sync::atomic::Ordering::SeqCst).is_multiple_of(2);
        if every_second { RequestOutcome::ReplyLost } else { RequestOutcome::Open }
    });
    let _operator = world.operator_over(client, |_| {});
    world.create_cluster(three_members()).await?;
    until_pods(&world, &PODS).await?;
    let creates = world.writes();
    let twice: Vec<_> =
        creates.iter().filter(|(object, count)| **count > 1 && !object.contains("vents")).collect();
    assert!(twice.is_empty(), "{twice:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_deleted_before_it_is_available_leaves_no_objects_behind() -> Result<()> {
    let world = World::new().await?;
    let _operator = world.operator();
    world.create_cluster(three_members()).await?;
    until_pods(&world, &PODS).await?;
    world.delete::<EtcdCluster>("demo").await?;
    until("nothing is left", async || {
        let left = [
            world.names::<EtcdCluster>().await?,
            world.names::<Pod>().await?,
            world.names::<PersistentVolumeClaim>().await?,
            world.names::<Service>().await?,
            world.names::<Secret>().await?,
        ];
        Ok(if left.iter().all(Vec::is_empty) { Ok(()) } else { Err(format!("{left:?}")) })
    })
    .await
}

/// Whether an event of the EtcdCluster has this reason; if not, the reasons there are.
async fn event(world: &World, reason: &str) -> Result<Result<(), String>> {
    let events = world.api::<Event>().list(&ListParams::default()).await?;
    let about = |event: &Event| event.involved_object.kind.as_deref() == Some("EtcdCluster");
    let reasons: Vec<String> = events.into_iter().filter(about).filter_map(|event| event.reason).collect();
    Ok(if reasons.iter().any(|one| one == reason) { Ok(()) } else { Err(format!("{reasons:?}")) })
}
