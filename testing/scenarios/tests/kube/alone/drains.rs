//! `kubectl drain` of whole nodes, as a person does before maintenance: at every size, with a member that is sick, and of a node that
//! never comes back. Volumes are those of a node, so a member is down until its node is uncordoned.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{EvictParams, PostParams};
use quorate_scenarios::{Acknowledged, Kubernetes, ProcessFault, World, Writer, is_ready, spec, until};
use serde_json::json;

/// The clusters, and their sizes. Five members on three nodes share some, so its budget admits as many as leave a quorum.
const CLUSTERS: [(&str, usize); 4] = [("one", 1), ("two", 2), ("three", 3), ("five", 5)];

/// Those that no drain may stop.
const SURVIVE: [&str; 2] = ["three", "five"];

/// A drain moves leadership first, so nobody waits for an election. The goal is 1 s, measured is 0.46 s; the rest is for a busy machine.
const OF_A_DRAIN: Duration = Duration::from_secs(2);

/// Where a member hangs that may lead, others are elected, on a busy machine.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_drained_one_after_the_other_at_every_size() -> Result<()> {
    let world = Kubernetes::start().await?;
    for (cluster, size) in CLUSTERS {
        let mut spec = spec(size);
        if size == 5 {
            spec["disruption"] = json!({ "podDisruptionBudget": "Quorum" });
        }
        world.create(cluster, spec).await?;
    }
    all_settled(&world).await?;
    let mut ids = BTreeMap::new();
    for (cluster, _) in CLUSTERS {
        ids.insert(cluster, world.one_cluster_id(cluster).await?);
    }
    let mut writers = Vec::new();
    for cluster in SURVIVE {
        writers.push((cluster, Writer::start(&world, cluster).await?));
    }
    let nodes = world.shell()?.run("kubectl get nodes -o name").await?;
    for node in nodes.lines().map(|node| node.trim_start_matches("node/")) {
        let drained = Drained::drain(&world, node).await?;
        for cluster in SURVIVE {
            world.wait_for_condition(cluster, "Available", "True").await?;
        }
        drop(drained);
        all_settled(&world).await.with_context(|| format!("after {node} was drained"))?;
        let laps: Vec<_> = writers.iter().map(|(cluster, writer)| (*cluster, writer.lap())).collect();
        eprintln!("{node}: {laps:?}");
        for (cluster, lap) in laps {
            ensure!(lap.length < OF_A_DRAIN, "{cluster}: nobody wrote for {lap:?} while {node} was drained");
        }
    }

    a_sick_member_keeps_the_others_from_being_drained(&world).await?;
    a_node_that_never_comes_back_keeps_no_other_from_being_drained_for_ever(&world).await?;

    for (cluster, writer) in writers {
        let acknowledged: Acknowledged = writer.stop().await?;
        acknowledged.are_all_readable(&world, cluster).await?;
        let pause = acknowledged.figures().pause.length;
        ensure!(pause < LONGEST_PAUSE, "{cluster}: nobody wrote for {pause:?}");
    }
    for (cluster, id) in ids {
        ensure!(world.one_cluster_id(cluster).await? == id, "{cluster} is another cluster");
    }
    Ok(())
}

/// The node of a good member waits. That of the sick one does not: it protects nobody.
async fn a_sick_member_keeps_the_others_from_being_drained(world: &Kubernetes) -> Result<()> {
    world.signal_etcd("three-1", ProcessFault::Pause).await?;
    until("its Pod is not ready", async || {
        let pod = world.pods().get("three-1").await?;
        Ok(if is_ready(&pod) { Err("still ready".to_owned()) } else { Ok(()) })
    })
    .await?;
    for good in ["three-0", "three-2"] {
        // The controller counts ready Pods a moment later.
        until("the budget admits no eviction", async || {
            let post_options = PostParams { dry_run: true, ..PostParams::default() };
            let tried =
                world.pods().evict(good, &EvictParams { post_options, ..EvictParams::default() }).await;
            Ok(if tried.is_err() { Ok(()) } else { Err(format!("that of {good}")) })
        })
        .await?;
        let refused = evict(world, good).await.err().with_context(|| format!("{good} was evicted"))?;
        ensure!(refused.to_string().contains("disruption budget"), "{refused}");
    }
    world.wait_for_condition("three", "Available", "True").await?;
    let sick = world.pods().get("three-1").await?;
    evict(world, "three-1").await.context("the sick member's Pod may go")?;
    // It would take its whole grace period: a process that is stopped handles no signal.
    world.signal_etcd("three-1", ProcessFault::Kill).await?;
    until("another Pod has replaced it", async || {
        let pod = world.pods().get_opt("three-1").await?;
        Ok(if pod.is_some_and(|pod| pod.uid() != sick.uid()) { Ok(()) } else { Err("not yet".to_owned()) })
    })
    .await?;
    world.settled("three", 3).await
}

/// While its member is missing, a cluster of five at the edge of its quorum is not drained further. A smaller size gives the member up, and
/// then it goes on.
async fn a_node_that_never_comes_back_keeps_no_other_from_being_drained_for_ever(
    world: &Kubernetes,
) -> Result<()> {
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pod in world.pods_of("five").await? {
        members.entry(node_of(&pod)?).or_default().push(pod.name_any());
    }
    let (node, lost) = members.iter().min_by_key(|(_, members)| members.len()).context("no node")?;
    ensure!(lost.len() == 1, "five members on three nodes: {members:?}");
    let drained = Drained::drain(world, node).await?;
    world.reports("five", "Unschedulable").await?;
    world.scale("five", 4).await?;
    world.settled("five", 4).await?;
    let left: Vec<String> = world.pods_of("five").await?.iter().map(ResourceExt::name_any).collect();
    ensure!(!left.contains(&lost[0]) && left.len() == 4, "{left:?}");
    let next = members.iter().find(|(other, _)| *other != node).and_then(|(_, members)| members.first());
    let next = next.context("no other node")?;
    evict(world, next).await.context("the next node can be drained")?;
    world.settled_again("five", 4).await?;
    drop(drained);
    all_settled_but(world, "five").await
}

async fn evict(world: &Kubernetes, pod: &str) -> kube::Result<()> {
    world.pods().evict(pod, &EvictParams::default()).await.map(drop)
}

async fn all_settled(world: &Kubernetes) -> Result<()> {
    all_settled_but(world, "").await?;
    world.settled("five", 5).await
}

async fn all_settled_but(world: &Kubernetes, one: &str) -> Result<()> {
    for (cluster, size) in CLUSTERS.into_iter().filter(|(cluster, _)| *cluster != one) {
        world.settled(cluster, size).await?;
    }
    Ok(())
}

fn node_of(pod: &Pod) -> Result<String> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("not on a node")
}

/// A node without Pods of this namespace, cordoned until this is dropped.
struct Drained<'a> {
    world: &'a Kubernetes,
    node: String,
}

impl<'a> Drained<'a> {
    async fn drain(world: &'a Kubernetes, node: &str) -> Result<Self> {
        let drained = Self { world, node: node.to_owned() };
        let names = CLUSTERS.map(|(cluster, _)| cluster).join(",");
        let flags = "--ignore-daemonsets --delete-emptydir-data --timeout=60s";
        let own = format!("--pod-selector='operator.etcd.io/cluster in ({names})'");
        world.shell()?.run(&format!("kubectl drain {node} {flags} {own}")).await?;
        Ok(drained)
    }
}

impl Drop for Drained<'_> {
    fn drop(&mut self) {
        let uncordon = || self.world.shell()?.now(&format!("kubectl uncordon {}", self.node));
        if let Err(error) = uncordon() {
            eprintln!("{} stays cordoned: {error:#}", self.node);
        }
    }
}
