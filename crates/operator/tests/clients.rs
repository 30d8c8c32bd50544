//! R24, through the whole operator: how soon clients are led away from a member that its peers do not reach.

use std::time::Duration;

use crate::world::{World, plain, settled};
use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use quorate_api::keys;
use quorate_sim::world::faults::Fault;

async fn serves(world: &World, pod: &str) -> Result<bool> {
    let labels = world.api::<Pod>().get(pod).await?.metadata.labels.unwrap_or_default();
    Ok(labels.contains_key(keys::SERVES))
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
