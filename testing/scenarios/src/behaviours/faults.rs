//! Faults and recovery: Pods, processes, the operator, hung members. Volumes, member ids and the cluster id stay the same,
//! and status reports the fault while it lasts.

use anyhow::{Result, ensure};

use crate::{ProcessFault, World, Writer, spec};

pub async fn h22_killed_pods_and_processes_come_back_as_the_same_members(world: &impl World) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    let writer = Writer::start(world, "demo").await?;

    world.delete_pod("demo-1").await?;
    world.settled_again("demo", 3).await?;
    world.signal_etcd("demo-0", ProcessFault::Kill).await?;
    world.settled_again("demo", 3).await?;
    world.kill_operator().await?;
    world.delete_pod("demo-2").await?;
    world.settled_again("demo", 3).await?;
    for member in ["demo-0", "demo-1", "demo-2"] {
        world.signal_etcd(member, ProcessFault::Kill).await?;
    }
    world.settled_again("demo", 3).await?;

    writer.stop().await?.are_all_readable(world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id);
    ensure!(world.member_ids("demo").await? == members, "member ids changed");
    Ok(())
}

pub async fn a_hung_member_is_named_in_status_and_recovers(world: &impl World) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let members = world.member_ids("demo").await?;
    world.signal_etcd("demo-1", ProcessFault::Pause).await?;
    let message = world.wait_for_condition("demo", "Degraded", "True").await?;
    ensure!(message.contains("demo-1"), "{message}");
    world.wait_for_condition("demo", "Available", "True").await?;
    world.signal_etcd("demo-1", ProcessFault::Resume).await?;
    world.settled("demo", 3).await?;
    ensure!(world.member_ids("demo").await? == members);
    Ok(())
}

pub async fn h25_lost_quorum_is_reported_with_what_is_being_done(world: &impl World) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    world.signal_etcd("demo-0", ProcessFault::Pause).await?;
    world.signal_etcd("demo-1", ProcessFault::Pause).await?;
    world.wait_for_condition("demo", "QuorumAvailable", "False").await?;
    world.reports("demo", "1 of 3 voters answer").await?;
    world.wait_for_condition("demo", "Available", "False").await?;
    world.signal_etcd("demo-0", ProcessFault::Resume).await?;
    world.signal_etcd("demo-1", ProcessFault::Resume).await?;
    world.settled("demo", 3).await
}

pub async fn h01_an_emptied_volume_is_refused_by_the_guard_and_named_in_status(
    world: &impl World,
) -> Result<()> {
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    world.wipe_volume("demo-1").await?;
    world.delete_pod("demo-1").await?;
    world.reports("demo", "DataMissing").await?;
    world.wait_for_condition("demo", "Available", "True").await?;
    ensure!(world.one_cluster_id("demo").await? == id, "no second cluster");
    Ok(())
}

pub async fn r14_an_unhealthy_cluster_does_not_delay_others_and_thirty_run_at_once(
    world: &impl World,
) -> Result<()> {
    world.create("unhealthy", spec(1)).await?;
    world.settled("unhealthy", 1).await?;
    world.signal_etcd("unhealthy-0", ProcessFault::Pause).await?;
    for number in 0..29 {
        world.create(&format!("c{number}"), spec(1)).await?;
    }
    // Checked at once: where the others are slow, the kubelet has restarted it before they are ready.
    world.wait_for_condition("unhealthy", "Available", "False").await?;
    for number in 0..29 {
        world.settled(&format!("c{number}"), 1).await?;
    }
    world.signal_etcd("unhealthy-0", ProcessFault::Resume).await?;
    world.settled("unhealthy", 1).await
}
