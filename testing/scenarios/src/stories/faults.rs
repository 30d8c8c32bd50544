//! What breaks and heals: Pods, processes, the operator, hung members. The same volumes, the same member ids, the same
//! cluster id; and status tells the truth meanwhile.

use anyhow::{Result, ensure};

use crate::{Blow, World, Writer, spec};

pub async fn h22_pods_and_processes_that_die_come_back_as_the_same_members(world: &impl World) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    let writer = Writer::start(world, "demo");

    world.delete_pod("demo-1").await?;
    world.settled_again("demo", 3).await?;
    world.strike("demo-0", Blow::Kill).await?;
    world.settled_again("demo", 3).await?;
    world.kill_operator().await?;
    world.delete_pod("demo-2").await?;
    world.settled_again("demo", 3).await?;
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.strike(member, Blow::Kill).await?;
    }
    world.settled_again("demo", 3).await?;

    writer.stop().await?.are_all_there(world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id);
    ensure!(world.member_ids("demo").await? == members, "member ids changed");
    Ok(())
}

pub async fn a_hung_member_is_named_in_status_and_heals(world: &impl World) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let members = world.member_ids("demo").await?;
    world.strike("demo-1", Blow::Stop).await?;
    let message = world.condition("demo", "Degraded", "True").await?;
    ensure!(message.contains("demo-1"), "{message}");
    world.condition("demo", "Available", "True").await?;
    world.strike("demo-1", Blow::Continue).await?;
    world.settled("demo", 3).await?;
    ensure!(world.member_ids("demo").await? == members);
    Ok(())
}

pub async fn h25_lost_quorum_is_said_with_what_is_being_done(world: &impl World) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    world.strike("demo-0", Blow::Stop).await?;
    world.strike("demo-1", Blow::Stop).await?;
    world.condition("demo", "QuorumAvailable", "False").await?;
    world.says("demo", "1 of 3 voters answer").await?;
    world.condition("demo", "Available", "False").await?;
    world.strike("demo-0", Blow::Continue).await?;
    world.strike("demo-1", Blow::Continue).await?;
    world.settled("demo", 3).await
}

pub async fn h01_a_volume_that_came_back_empty_is_refused_by_the_guard_and_named_in_status(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    world.wipe_volume("demo-1").await?;
    world.delete_pod("demo-1").await?;
    world.says("demo", "DataMissing").await?;
    world.condition("demo", "Available", "True").await?;
    ensure!(world.one_cluster_id("demo").await? == id, "no second cluster");
    Ok(())
}

pub async fn r14_a_sick_cluster_does_not_delay_the_creation_of_others_and_thirty_run_at_once(
    world: &impl World,
) -> Result<()> {
    world.create("sick", spec(1)).await?;
    world.settled("sick", 1).await?;
    world.strike("sick-0", Blow::Stop).await?;
    for number in 0..29 {
        world.create(&format!("c{number}"), spec(1)).await?;
    }
    // Looked for at once: where the others take their time, its kubelet has started it anew before they are done.
    world.condition("sick", "Available", "False").await?;
    for number in 0..29 {
        world.settled(&format!("c{number}"), 1).await?;
    }
    world.strike("sick-0", Blow::Continue).await?;
    world.settled("sick", 1).await
}
