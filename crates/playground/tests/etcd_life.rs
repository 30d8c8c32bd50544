//! The life of a cluster on real etcd: founded, scaled, put to sleep, deleted, adopted. Every scenario keeps a writer going;
//! every write that etcd acknowledged must be there at the end.

mod lab;

use anyhow::{Result, ensure};
use lab::writer::Writer;
use lab::{Lab, spec, until};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_through_every_size_and_loses_no_acknowledged_write() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    let id = lab.one_cluster_id("demo").await?;
    let writer = Writer::start(&lab, "demo");
    for size in [5, 1, 0, 3, 5] {
        lab.scale("demo", size).await?;
        lab.settled("demo", size).await?;
    }
    let acknowledged = writer.stop().await?;
    acknowledged.are_all_there(&lab, "demo").await?;
    ensure!(lab.one_cluster_id("demo").await? == id, "the cluster id changed");
    ensure!(lab.volumes_of("demo").await?.len() == 5, "volumes of removed members are deleted");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tls_a_cluster_is_founded_and_scaled_as_well() -> Result<()> {
    let lab = Lab::start().await?;
    let mut plain = spec(1);
    plain["tls"] = json!({"provider": "disabled"});
    lab.create("plain", plain).await?;
    lab.settled("plain", 1).await?;
    let writer = Writer::start(&lab, "plain");
    lab.scale("plain", 3).await?;
    lab.settled("plain", 3).await?;
    writer.stop().await?.are_all_there(&lab, "plain").await
}

#[tokio::test(flavor = "multi_thread")]
async fn retained_volumes_wait_for_a_human_and_are_served_after_the_annotation() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    lab.settled("demo", 3).await?;
    let id = lab.one_cluster_id("demo").await?;
    let writer = Writer::start(&lab, "demo");
    until("something is written", async || {
        Ok(if writer.has_written() { Ok(()) } else { Err("nothing".into()) })
    })
    .await?;
    let acknowledged = writer.stop().await?;
    lab.delete("demo").await?;
    ensure!(lab.volumes_of("demo").await?.len() == 3, "volumes are retained");

    lab.create("demo", spec(3)).await?;
    let message = lab.condition("demo", "ExistingData", "True").await?;
    ensure!(message.contains(&format!("operator.etcd.io/adopt={id}")), "{message}");
    ensure!(lab.pods_of("demo").await?.is_empty(), "nothing is started");

    let annotation = json!({"metadata": {"annotations": {"operator.etcd.io/adopt": id}}});
    lab.patch("demo", annotation).await?;
    lab.settled("demo", 3).await?;
    ensure!(lab.one_cluster_id("demo").await? == id, "the adopted cluster keeps its id");
    acknowledged.are_all_there(&lab, "demo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn h05_once_retained_volumes_are_deleted_a_new_cluster_has_new_names_and_another_id() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(1)).await?;
    lab.settled("demo", 1).await?;
    let (id, token) = (lab.cluster_id("demo").await?, lab.status("demo").await?["clusterToken"].clone());
    lab.delete("demo").await?;
    lab.create("demo", spec(1)).await?;
    lab.condition("demo", "ExistingData", "True").await?;
    lab.delete_volume("demo-0").await?;
    lab.settled("demo", 1).await?;
    ensure!(lab.one_cluster_id("demo").await? != id, "another cluster has another id");
    ensure!(lab.status("demo").await?["clusterToken"] != token, "and another token");
    ensure!(lab.member_ids("demo").await?.contains_key("demo-1"), "and another name");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_go_with_the_cluster_when_retention_says_so() -> Result<()> {
    let lab = Lab::start().await?;
    let mut gone = spec(3);
    gone["storageSpec"]["retention"] = json!({"whenDeleted": "Delete"});
    lab.create("gone", gone).await?;
    lab.settled("gone", 3).await?;
    lab.delete("gone").await?;
    until("the volumes are gone", async || {
        let left = lab.volumes_of("gone").await?.len();
        Ok(if left == 0 { Ok(()) } else { Err(format!("{left} left")) })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_in_quick_succession_during_bootstrap_end_in_one_cluster_of_the_last_size() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    for size in [5, 3, 4] {
        lab.scale("demo", size).await?;
    }
    lab.settled("demo", 4).await?;
    lab.one_cluster_id("demo").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_does_not_exist_is_told_and_cured_by_the_right_one() -> Result<()> {
    let lab = Lab::start().await?;
    let mut wrong = spec(3);
    wrong["version"] = json!("3.6.999");
    lab.create("demo", wrong).await?;
    lab.says("demo", "ImagePull").await?;
    lab.patch("demo", json!({"spec": {"version": lab::version()}})).await?;
    lab.settled("demo", 3).await?;
    lab.one_cluster_id("demo").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_deleted_during_bootstrap_and_made_again_at_once_is_one_cluster() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("demo", spec(3)).await?;
    until("volumes are being made", async || {
        let volumes = lab.volumes_of("demo").await?.len();
        Ok(if volumes > 0 { Ok(()) } else { Err("none".into()) })
    })
    .await?;
    lab.delete("demo").await?;
    lab.create("demo", spec(3)).await?;
    // Where the first had already formed, its volumes wait for a human; both ends are right, a mixture is not.
    let settled = lab.settled("demo", 3);
    let asked = lab.condition("demo", "ExistingData", "True");
    tokio::select! {
        settled = settled => settled?,
        asked = asked => drop(asked?),
    }
    if !lab.pods_of("demo").await?.is_empty() {
        lab.one_cluster_id("demo").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_cluster_writes_nothing_to_the_api() -> Result<()> {
    let lab = Lab::start().await?;
    lab.create("calm", spec(1)).await?;
    lab.settled("calm", 1).await?;
    let version =
        async || Ok::<_, anyhow::Error>(lab.clusters().get("calm").await?.metadata.resource_version);
    let (before, objects) =
        (version().await?, lab.pods_of("calm").await?[0].metadata.resource_version.clone());
    // Two calm looks at etcd (10 s each) pass.
    tokio::time::sleep(std::time::Duration::from_secs(21)).await;
    ensure!(version().await? == before, "the status of a calm cluster was written");
    ensure!(lab.pods_of("calm").await?[0].metadata.resource_version == objects, "its Pod was written");
    Ok(())
}
