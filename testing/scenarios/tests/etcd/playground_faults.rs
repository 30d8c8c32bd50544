//! The faults of `quorate playground fault` that last until they are undone.

use anyhow::{Context, Result, ensure};
use quorate_etcd::Read;
use quorate_scenarios::{Playground, Writer, spec, until};
use serde_json::{Value, json};

/// The member of this name in status.
async fn member(world: &Playground, name: &str) -> Result<Value> {
    let status = world.status("demo").await?;
    let members = status["members"].as_array().context("no members")?;
    members.iter().find(|member| member["name"] == name).cloned().context("not in status")
}

pub(crate) async fn node_of(world: &Playground, pod: &str) -> Result<String> {
    let pod = world.pods().get(pod).await?;
    pod.spec.and_then(|spec| spec.node_name).context("not on a node")
}

/// Waits until a member is not healthy, and returns why.
async fn is_sick(world: &Playground, name: &str) -> Result<String> {
    until(&format!("{name} is not healthy"), async || {
        Ok(if member(world, name).await?["healthy"] == false { Ok(()) } else { Err("healthy".into()) })
    })
    .await?;
    Ok(member(world, name).await?["reason"].to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_on_a_node_that_is_cut_off_follows_no_leader_until_the_node_is_back() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let node = node_of(&world, "demo-1").await?;
    let writer = Writer::start(&world, "demo").await?;
    world.fault(&["partition", &node])?;
    until("demo-1 has no leader, and the others have", async || {
        let mut led = Vec::new();
        for (name, member) in world.members("demo").await? {
            led.push((name, member.status().await?.leader.is_some()));
        }
        let expected = ["demo-0", "demo-1", "demo-2"].map(|name| (name.to_owned(), name != "demo-1"));
        Ok(if led == expected { Ok(()) } else { Err(format!("{led:?}")) })
    })
    .await?;
    let why = is_sick(&world, "demo-1").await?;
    ensure!(why.contains("leader"), "{why}");
    world.fault(&["partition", &node, "--undo"])?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_stopped_and_started_brings_its_members_back_with_their_data() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let (ids, node) = (world.member_ids("demo").await?, node_of(&world, "demo-2").await?);
    let writer = Writer::start(&world, "demo").await?;
    world.fault(&["stop-node", &node])?;
    is_sick(&world, "demo-2").await?;
    world.fault(&["stop-node", &node, "--undo"])?;
    world.settled("demo", 3).await?;
    ensure!(world.member_ids("demo").await? == ids);
    writer.stop().await?.are_all_readable(&world, "demo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_is_named_in_status_and_its_member_recovers() -> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let ids = world.member_ids("demo").await?;
    world.fault(&["hang-disk", "demo-0"])?;
    // Writes go on without it, also if it led.
    let writer = Writer::start(&world, "demo").await?;
    is_sick(&world, "demo-0").await?;
    // The canary's limit is 30 s.
    until("the Pod is not ready", async || {
        let pod = world.pods().get("demo-0").await?;
        Ok(if quorate_scenarios::is_ready(&pod) { Err("ready".into()) } else { Ok(()) })
    })
    .await?;
    world.fault(&["hang-disk", "demo-0", "--undo"])?;
    world.settled("demo", 3).await?;
    ensure!(world.member_ids("demo").await? == ids);
    writer.stop().await?.are_all_readable(&world, "demo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_that_a_person_enables_makes_no_member_unready_is_told_and_can_be_disabled_or_handed_over()
-> Result<()> {
    let world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    world.fault(&["enable-auth", "demo"])?;
    for (name, member) in world.members("demo").await? {
        let refused = member.get("key", Read::Serializable).await.err();
        let why = refused.with_context(|| format!("{name} served a client without a user"))?.to_string();
        ensure!(why.starts_with("refused: "), "{name}: {why}");
    }
    for pod in world.pods_of("demo").await? {
        ensure!(quorate_scenarios::is_ready(&pod), "a refusal by auth is an answer");
    }
    // A member that cannot be added has the operator look.
    world.patch("demo", json!({ "spec": { "size": 4 } })).await?;
    world.wait_for_condition("demo", "AuthReady", "False").await?;
    world.reports("demo", r#"-p '{"spec":{"auth":{"enabled":true}}}'"#).await?;
    world.fault(&["enable-auth", "demo", "--undo"])?;
    world.settled("demo", 4).await?;
    let (_, member) = world.members("demo").await?.remove(0);
    member.get("key", Read::Serializable).await?;

    world.fault(&["enable-auth", "demo"])?;
    world.patch("demo", json!({ "spec": { "size": 3, "auth": { "enabled": true } } })).await?;
    world.wait_for_condition("demo", "AuthReady", "True").await?;
    until("three members are left", async || {
        let status = world.status("demo").await?;
        let is_so = status["memberCount"] == 3 && status["readyReplicas"] == 3;
        Ok(if is_so { Ok(()) } else { Err(status["conditions"].to_string()) })
    })
    .await?;
    Ok(())
}
