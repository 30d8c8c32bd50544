//! Backups, and clusters that begin with the data of one.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::backups::restored_from;
use crate::{ProcessFault, World, Writer, spec, until};

pub async fn a_backup_under_writes_is_restored_into_a_new_cluster_with_every_write_up_to_its_revision(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(world, "demo");
    until("there are writes", async || Ok(if writer.has_written() { Ok(()) } else { Err(String::new()) }))
        .await?;

    world.back_up("first", "demo", &store).await?;
    let status = world.is_backed_up("first").await?;
    println!("backed up under writes: {status}");
    let revision = revision(&status)?;
    let acknowledged = writer.stop().await?;
    ensure!(acknowledged.figures().failed == 0, "{}", acknowledged.figures());
    acknowledged.are_all_readable(world, "demo").await?;

    world.wreck("demo").await?;
    world.create("again", restored_from(3, "first")).await?;
    world.settled("again", 3).await?;
    acknowledged.are_readable_as_of(world, "again", revision).await?;
    let restored = world.one_cluster_id("again").await?;
    ensure!(restored != id, "the restored cluster has the id of the old one, so an old member could join it");
    for (name, member) in world.members("again").await? {
        let now = member.status().await?.revision;
        ensure!(
            now.0 >= revision + 1_000_000_000,
            "{name} is at {now}: clients of {revision} notice nothing"
        );
    }
    // It is a cluster like any other: it takes writes, grows, and replaces nothing of what it was restored from.
    let writer = Writer::start(world, "again");
    world.scale("again", 1).await?;
    world.settled("again", 1).await?;
    world.scale("again", 3).await?;
    world.settled("again", 3).await?;
    writer.stop().await?.are_all_readable(world, "again").await
}

pub async fn a_lost_cluster_is_restored_under_its_own_name_and_pods_that_die_meanwhile_restore_again(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let writer = Writer::start(world, "demo");
    until("there are writes", async || Ok(if writer.has_written() { Ok(()) } else { Err(String::new()) }))
        .await?;
    world.back_up("first", "demo", &store).await?;
    let revision = revision(&world.is_backed_up("first").await?)?;
    let acknowledged = writer.stop().await?;

    world.wreck("demo").await?;
    world.create("demo", restored_from(3, "first")).await?;
    until("a Pod is there", async || {
        Ok(if world.pods_of("demo").await?.is_empty() { Err(String::new()) } else { Ok(()) })
    })
    .await?;
    world.kill_operator().await?;
    world.delete_pod("demo-1").await?;
    world.settled("demo", 3).await?;
    world.one_cluster_id("demo").await?;
    acknowledged.are_readable_as_of(world, "demo", revision).await
}

pub async fn a_backup_that_cannot_be_made_says_why_and_leaves_nothing_that_looks_whole(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.back_up("nobody", "nobody", &store).await?;
    let reported = |text: &'static str, name: &'static str| async move {
        until(&format!("{name} says {text:?}"), async || {
            let status = world.backup_status(name).await?.to_string();
            Ok(if status.contains(text) { Ok(()) } else { Err(status) })
        })
        .await
    };
    reported("nobody", "nobody").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    world.back_up("lost", "demo", &json!({"pvc": {"claimName": "no-such-claim"}})).await?;
    reported("no-such-claim", "lost").await?;
    // Neither holds up the next one.
    world.delete_backup("lost").await?;
    world.back_up("good", "demo", &store).await?;
    world.is_backed_up("good").await?;
    world.delete_backup("nobody").await
}

pub async fn without_a_quorum_a_backup_waits_unless_it_is_ordered_from_what_one_member_has(
    world: &impl World,
) -> Result<()> {
    let store = world.claim_for_backups("backups").await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let writer = Writer::start(world, "demo");
    until("there are writes", async || Ok(if writer.has_written() { Ok(()) } else { Err(String::new()) }))
        .await?;
    let acknowledged = writer.stop().await?;
    for pod in ["demo-0", "demo-1"] {
        world.signal_etcd(pod, ProcessFault::Pause).await?;
    }
    world.wait_for_condition("demo", "QuorumAvailable", "False").await?;
    world
        .back_up_with(
            "remains",
            json!({"source": {"cluster": "demo"}, "destination": store, "withoutQuorum": true}),
        )
        .await?;
    let status = world.is_backed_up("remains").await;
    for pod in ["demo-0", "demo-1"] {
        world.signal_etcd(pod, ProcessFault::Resume).await?;
    }
    let status = status?;
    ensure!(status.to_string().contains("withoutQuorum"), "it is not labelled: {status}");
    world.settled("demo", 3).await?;
    acknowledged.are_all_readable(world, "demo").await
}

fn revision(status: &Value) -> Result<i64> {
    status["result"]["revision"].as_i64().with_context(|| format!("no revision in {status}"))
}
