//! Certificates as the operator keeps them: one authority for the life of a cluster, and leaves that are renewed in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::world::{DieAt, World, three_members, until, until_pods};
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use quorate_api::EtcdCluster;
use quorate_model::{CrashPoint, Step};
use quorate_operator::crash::Hook;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const PODS: [&str; 3] = ["demo-0", "demo-1", "demo-2"];
const LEAVES: [&str; 3] = ["demo-client-tls", "demo-peer-tls", "demo-server-tls"];

#[tokio::test(start_paused = true)]
async fn s03_a_deleted_authority_is_reported_and_no_other_is_created_in_its_place() -> Result<()> {
    let world = World::new().await?;
    let _operator = world.operator();
    world.create_cluster(three_members()).await?;
    until_pods(&world, &PODS).await?;
    let backup = world.api::<Secret>().get("demo-ca").await?;

    world.delete::<Secret>("demo-ca").await?;
    until("status reports it", async || reports(&world, "False", "AuthorityLost").await).await?;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let left = ["demo-client-tls", "demo-peer-ca", "demo-peer-tls", "demo-server-tls"];
    assert_eq!(world.names::<Secret>().await?, left, "no authority is created");

    let mut restored = backup.clone();
    (restored.metadata.uid, restored.metadata.resource_version) = (None, None);
    world.api::<Secret>().create(&PostParams::default(), &restored).await?;
    until("the backup is accepted", async || reports(&world, "True", "CertificatesIssued").await).await
}

#[tokio::test(start_paused = true)]
async fn s04_leaves_are_renewed_in_place_by_the_same_authority_and_nothing_restarts() -> Result<()> {
    let world = World::new().await?;
    let _operator = world.operator();
    world.create_cluster(with_short_leaves()).await?;
    until_pods(&world, &PODS).await?;
    let (ca, before) = (certificate(&world, "demo-ca").await?, leaves(&world).await?);
    let version = world.kube.store().version();
    tokio::time::sleep(Duration::from_mins(25)).await;
    assert_eq!(leaves(&world).await?, before, "not before two thirds of their life");
    assert_eq!(world.kube.store().version(), version, "nothing is written while nothing changes");

    tokio::time::sleep(Duration::from_mins(15)).await;
    let after = leaves(&world).await?;
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "every leaf is renewed");
    assert_eq!(certificate(&world, "demo-ca").await?, ca);
    let recreated: Vec<_> =
        world.writes().into_iter().filter(|(object, count)| *count > 1 && !object.contains("vent")).collect();
    assert!(recreated.is_empty(), "{recreated:?}");
    until("status is calm", async || reports(&world, "True", "CertificatesIssued").await).await
}

#[tokio::test(start_paused = true)]
async fn s03_s04_a_crash_while_certificates_are_kept_or_renewed_changes_nothing_about_the_end() -> Result<()>
{
    for point in CrashPoint::all().filter(|point| [Step::I3, Step::I4].contains(&point.step)) {
        Box::pin(keeps_and_renews(point)).await.with_context(|| format!("crash {point}"))?;
    }
    Ok(())
}

/// An operator keeps an authority to which somebody gave an owner, and renews the leaves, dies at this point, and is started
/// again.
async fn keeps_and_renews(point: CrashPoint) -> Result<()> {
    let world = World::new().await?;
    let died = CancellationToken::new();
    let hook: Arc<dyn Hook> = Arc::new(DieAt { point, died: died.clone() });
    let mut operator = Some(world.operator_with(hook));
    let cluster = world.create_cluster(with_short_leaves()).await?;
    until_pods(&world, &PODS).await?;
    let (ca, before) = (certificate(&world, "demo-ca").await?, leaves(&world).await?);
    own_authority(&world, &cluster).await?;
    tokio::select! {
        () = died.cancelled() => {}
        () = tokio::time::sleep(Duration::from_mins(45)) => {}
    }
    ensure!(died.is_cancelled(), "not reached");
    drop(operator.take());
    let _second = world.operator();
    tokio::time::sleep(Duration::from_mins(45)).await;
    until("the authority has no owner", async || {
        let secret = world.api::<Secret>().get("demo-ca").await?;
        Ok(if secret.metadata.owner_references.is_none() { Ok(()) } else { Err(format!("{secret:?}")) })
    })
    .await?;
    ensure!(certificate(&world, "demo-ca").await? == ca, "another authority");
    ensure!(
        leaves(&world).await?.iter().zip(&before).all(|(after, before)| after != before),
        "a leaf is old"
    );
    until("status is calm", async || reports(&world, "True", "CertificatesIssued").await).await
}

/// Makes the EtcdCluster the owner of the authority.
async fn own_authority(world: &World, cluster: &EtcdCluster) -> Result<()> {
    let owner = json!([{
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "name": "demo",
        "uid": cluster.metadata.uid, "controller": true,
    }]);
    let patch = Patch::Merge(json!({ "metadata": { "ownerReferences": owner } }));
    world.api::<Secret>().patch("demo-ca", &PatchParams::default(), &patch).await?;
    Ok(())
}

fn with_short_leaves() -> serde_json::Value {
    let mut spec = three_members();
    spec["tls"] = json!({ "providerCfg": { "autoCfg": { "validityDuration": "1h" } } });
    spec
}

async fn leaves(world: &World) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for name in LEAVES {
        all.push(certificate(world, name).await?);
    }
    Ok(all)
}

async fn certificate(world: &World, name: &str) -> Result<Vec<u8>> {
    let secret = world.api::<Secret>().get(name).await?;
    Ok(secret.data.context("no data")?["tls.crt"].0.clone())
}

/// Whether `TLSReady` has this status and reason; if not, what it has.
async fn reports(world: &World, status: &str, reason: &str) -> Result<Result<(), String>> {
    let conditions = world.status().await?.conditions;
    let found =
        conditions.into_iter().find(|one| one.type_ == "TLSReady").context("no condition TLSReady")?;
    let is = found.status == status && found.reason == reason;
    Ok(if is { Ok(()) } else { Err(format!("{found:?}")) })
}

/// A client whose replies have the `Date` of an API server whose clock is this many seconds behind the operator's.
fn dated(world: &World, behind: &Arc<AtomicI64>) -> kube::Client {
    let (client, clock, behind) = (world.client.clone(), world.clock.clone(), behind.clone());
    let dating = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, clock, behind) = (client.clone(), clock.clone(), behind.clone());
        async move {
            let mut reply = client.send(request).await?;
            let at = clock.now().0 / 1000 - behind.load(Ordering::SeqCst);
            let at = k8s_openapi::jiff::Timestamp::from_second(at).expect("a time");
            let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            reply.headers_mut().insert(http::header::DATE, date.parse().expect("a header"));
            Ok::<_, kube::Error>(reply)
        }
    });
    kube::Client::new(dating, "default")
}

#[tokio::test(start_paused = true)]
async fn l06_a_cluster_is_created_while_the_clock_differs_from_that_of_the_api_server_by_hours() -> Result<()>
{
    let world = World::new().await?;
    let behind = Arc::new(AtomicI64::new(8 * 3600));
    let _operator = world.operator_over(dated(&world, &behind), |_| {});
    world.create_cluster(three_members()).await?;
    until_pods(&world, &PODS).await?;
    until("status reports it", async || {
        let found = world.condition("Progressing", "True").await?;
        let is_told =
            found.as_ref().is_some_and(|(_, message)| message.contains("7h ahead of the API server's"));
        Ok(if is_told { Ok(()) } else { Err(format!("{found:?}")) })
    })
    .await?;
    let version = world.kube.store().version();
    tokio::time::sleep(Duration::from_mins(10)).await;
    ensure!(world.kube.store().version() == version, "the report does not change with every pass");
    Ok(())
}
