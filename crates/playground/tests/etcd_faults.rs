//! What breaks and heals: Pods, processes, the operator, hung members. The same volumes, the same member ids, the same
//! cluster id; and status tells the truth meanwhile.

mod lab;

use anyhow::{Result, ensure};
use lab::writer::Writer;
use lab::{Lab, spec};

#[tokio::test(flavor = "multi_thread")]
async fn h22_pods_and_processes_that_die_come_back_as_the_same_members() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    let (id, members) = (lab.one_cluster_id("demo").await?, lab.member_ids("demo").await?);
    let writer = Writer::start(&lab, "demo");

    lab.delete_pod("demo-1").await?;
    lab.settled_again("demo", 3).await?;
    lab.fault(&["kill-etcd", "demo-0"])?;
    lab.settled_again("demo", 3).await?;
    lab.fault(&["kill-operator"])?;
    lab.delete_pod("demo-2").await?;
    lab.settled_again("demo", 3).await?;
    for member in ["demo-0", "demo-1", "demo-2"] {
        lab.fault(&["kill-etcd", member])?;
    }
    lab.settled_again("demo", 3).await?;

    writer.stop().await?.are_all_there(&lab, "demo").await?;
    ensure!(lab.one_cluster_id("demo").await? == id);
    ensure!(lab.member_ids("demo").await? == members, "member ids changed");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_member_is_named_in_status_and_heals() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    let members = lab.member_ids("demo").await?;
    lab.fault(&["stop-etcd", "demo-1"])?;
    let message = lab.condition("demo", "Degraded", "True").await?;
    ensure!(message.contains("demo-1"), "{message}");
    lab.condition("demo", "Available", "True").await?;
    lab.fault(&["cont-etcd", "demo-1"])?;
    lab.settled("demo", 3).await?;
    ensure!(lab.member_ids("demo").await? == members);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn h25_lost_quorum_is_said_with_what_is_being_done() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    lab.fault(&["stop-etcd", "demo-0"])?;
    lab.fault(&["stop-etcd", "demo-1"])?;
    let message = lab.condition("demo", "QuorumAvailable", "False").await?;
    ensure!(message.contains("1 of 3 voters answer"), "{message}");
    lab.condition("demo", "Available", "False").await?;
    lab.fault(&["cont-etcd", "demo-0"])?;
    lab.fault(&["cont-etcd", "demo-1"])?;
    lab.settled("demo", 3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playground_started_again_brings_the_same_cluster_with_its_data() -> Result<()> {
    let mut lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    let (id, members) = (lab.one_cluster_id("demo").await?, lab.member_ids("demo").await?);
    let writer = Writer::start(&lab, "demo");
    lab::until("it writes", async || Ok(if writer.has_written() { Ok(()) } else { Err("not yet".into()) }))
        .await?;
    let acknowledged = writer.stop().await?;
    lab.restart().await?;
    lab.settled("demo", 3).await?;
    ensure!(lab.one_cluster_id("demo").await? == id && lab.member_ids("demo").await? == members);
    acknowledged.are_all_there(&lab, "demo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn h01_a_volume_that_came_back_empty_is_refused_by_the_guard_and_named_in_status() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    let id = lab.one_cluster_id("demo").await?;
    lab.fault(&["wipe-volume", "demo-1"])?;
    lab.delete_pod("demo-1").await?;
    lab.says("demo", "DataMissing").await?;
    lab.condition("demo", "Available", "True").await?;
    ensure!(lab.one_cluster_id("demo").await? == id, "no second cluster");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r14_a_sick_cluster_does_not_delay_the_creation_of_others_and_thirty_run_at_once() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("sick", spec(1)).await?;
    lab.settled("sick", 1).await?;
    lab.fault(&["stop-etcd", "sick-0"])?;
    for number in 0..29 {
        lab.create(&format!("c{number}"), spec(1)).await?;
    }
    for number in 0..29 {
        lab.settled(&format!("c{number}"), 1).await?;
    }
    lab.condition("sick", "Available", "False").await?;
    lab.fault(&["cont-etcd", "sick-0"])?;
    lab.settled("sick", 1).await
}
