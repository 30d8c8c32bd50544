//! Nodes that are disconnected, and nodes that are drained.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::EvictParams;
use quorate_scenarios::rig::Outage;
use quorate_scenarios::{Kubernetes, Writer, spec, until};

#[tokio::test(flavor = "multi_thread")]
async fn h23_a_pod_on_an_unreachable_node_is_waited_for_and_never_force_deleted() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    let pod = world.pods().get("demo-1").await?;
    let writer = Writer::start(&world, "demo").await?;
    let outage = Outage::cut(&[&node_of(&pod)?])?;

    let message = world.wait_for_condition("demo", "Degraded", "True").await?;
    ensure!(message.contains("demo-1"), "{message}");
    world.wait_for_condition("demo", "Available", "True").await?;
    // As a user does who wants it on another node: the Pod stays Terminating, since its kubelet cannot report that it ended.
    world.delete_pod("demo-1").await?;
    world.reports("demo", "demo-1").await?;
    until("the node is NotReady", async || {
        let described = world.shell()?.run("kubectl get nodes").await?;
        Ok(if described.contains("NotReady") { Ok(()) } else { Err(described) })
    })
    .await?;
    let now = world.pods().get("demo-1").await?;
    ensure!(now.uid() == pod.uid() && now.metadata.deletion_timestamp.is_some(), "the Pod was force-deleted");
    ensure!(world.volumes_of("demo").await?.len() == 3, "another volume was created");
    world.wait_for_condition("demo", "Available", "True").await?;

    outage.repair()?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id && world.member_ids("demo").await? == members);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn drains_evict_one_member_at_a_time_and_an_uncordoned_node_gets_its_member_back() -> Result<()> {
    let world = Kubernetes::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    let writer = Writer::start(&world, "demo").await?;
    let node = node_of(&world.pods().get("demo-1").await?)?;
    let cordoned = Cordoned::new(&world, &node)?;

    let evict = async |pod: &str| world.pods().evict(pod, &EvictParams::default()).await;
    evict("demo-1").await.context("the first eviction is allowed")?;
    until("its Pod waits for the node", async || {
        let pod = world.pods().get_opt("demo-1").await?;
        let waits = pod.as_ref().is_some_and(|pod| {
            pod.metadata.deletion_timestamp.is_none()
                && pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none())
        });
        Ok(if waits { Ok(()) } else { Err("not yet".to_owned()) })
    })
    .await?;
    for pod in ["demo-0", "demo-2"] {
        let refused = evict(pod).await.err().with_context(|| format!("{pod} was evicted as well"))?;
        ensure!(refused.to_string().contains("disruption budget"), "{refused}");
    }
    world.reports("demo", "Unschedulable").await?;
    world.wait_for_condition("demo", "Available", "True").await?;

    drop(cordoned);
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id && world.member_ids("demo").await? == members);
    Ok(())
}

fn node_of(pod: &Pod) -> Result<String> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("not on a node")
}

/// A node that is cordoned until this is dropped.
struct Cordoned<'a> {
    world: &'a Kubernetes,
    node: &'a str,
}

impl<'a> Cordoned<'a> {
    fn new(world: &'a Kubernetes, node: &'a str) -> Result<Self> {
        let cordoned = Self { world, node };
        world.shell()?.now(&format!("kubectl cordon {node}"))?;
        Ok(cordoned)
    }
}

impl Drop for Cordoned<'_> {
    fn drop(&mut self) {
        let uncordon = || self.world.shell()?.now(&format!("kubectl uncordon {}", self.node));
        if let Err(error) = uncordon() {
            eprintln!("{} stays cordoned: {error:#}", self.node);
        }
    }
}
