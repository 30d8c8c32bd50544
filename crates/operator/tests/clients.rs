//! R24, through the whole operator: where clients are sent after an upgrade of the operator, and how soon they are led away from a member
//! that its peers do not reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::world::{RequestOutcome, World, plain, settled, until};
use anyhow::Result;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Patch, PatchParams};
use quorate_api::keys;
use quorate_apistore::ResourceKey;
use quorate_apistore::fields::label;
use quorate_sim::world::faults::Fault;
use serde_json::json;

const PODS: [&str; 3] = ["demo-0", "demo-1", "demo-2"];

async fn serves(world: &World, pod: &str) -> Result<bool> {
    let labels = world.api::<Pod>().get(pod).await?.metadata.labels.unwrap_or_default();
    Ok(labels.contains_key(keys::SERVES))
}

async fn selects_by_the_label(world: &World) -> Result<bool> {
    let service = world.api::<Service>().get("demo-client").await?;
    let selector = service.spec.and_then(|spec| spec.selector).unwrap_or_default();
    Ok(selector.contains_key(keys::SERVES))
}

#[tokio::test(start_paused = true)]
async fn m05_pods_of_an_earlier_release_are_labelled_before_the_selector_changes() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let operator = world.operator();
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    operator.stop().await?;
    // As an earlier release leaves them.
    let merge = PatchParams::default();
    let selector = Patch::Merge(json!({ "spec": { "selector": { keys::SERVES: null } } }));
    world.api::<Service>().patch("demo-client", &merge, &selector).await?;
    for pod in PODS {
        let labels = Patch::Merge(json!({ "metadata": { "labels": { keys::SERVES: null } } }));
        world.api::<Pod>().patch(pod, &merge, &labels).await?;
    }

    // How many Pods had the label when the Service was changed first.
    let labelled = Arc::new(AtomicUsize::new(usize::MAX));
    let (seen, store) = (labelled.clone(), world.kube.store().clone());
    let client = world.client_through(move |request| {
        if request.method == http::Method::PATCH && request.path.contains("/services/") {
            let pods = store.objects(&ResourceKey::new("", "pods"));
            let count = pods.iter().filter(|pod| label(pod, keys::SERVES).is_some()).count();
            seen.fetch_min(count, Ordering::SeqCst);
        }
        RequestOutcome::Open
    });
    let before = world.writes();
    let _operator = world.operator_over(client, |_| {});
    until("the Service selects by the label", async || {
        Ok(if selects_by_the_label(&world).await? { Ok(()) } else { Err("not yet".to_owned()) })
    })
    .await?;
    assert_eq!(labelled.load(Ordering::SeqCst), 3, "every Pod was labelled by then");
    settled(&world, 3).await?;
    assert_eq!(world.writes(), before, "no Pod is rolled out for it");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn m05_clients_are_led_away_within_forty_seconds_and_l02_the_member_is_restarted_half_a_minute_later()
-> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let _operator = world.operator();
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    let uid = async || anyhow::Ok(world.api::<Pod>().get("demo-1").await?.metadata.uid);
    let before = uid().await?;
    assert!(world.members.strike(&Fault::CutFromPeers("demo-1".to_owned())));
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(serves(&world, "demo-1").await?, "it may be over in a moment");
    tokio::time::sleep(Duration::from_secs(36)).await;
    assert!(!serves(&world, "demo-1").await?);
    let available =
        world.condition("Available", "True").await?.map(|(_, message)| message).unwrap_or_default();
    assert!(available.contains("sends no clients to demo-1 until it serves again"), "{available}");
    assert!(serves(&world, "demo-0").await? && serves(&world, "demo-2").await?);
    assert_eq!(uid().await?, before);
    // Established connections end with the Pod, and the next one meets its peers.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_ne!(uid().await?, before);
    assert!(serves(&world, "demo-1").await?);
    settled(&world, 3).await
}
