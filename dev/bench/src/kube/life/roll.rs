//! Edits that restart every member, one after the other. Beside each stands the same done by hand: `kubectl delete pod` and
//! `kubectl wait`, followers first. There the EtcdCluster is paused, so that nothing but the Pod of the same name is created again.

use std::time::Instant;

use anyhow::Result;
use kube::ResourceExt;
use quorate_api::cluster::DEFAULT_IMAGE_REGISTRY;
use quorate_scenarios::{Kubernetes, Shell, is_ready, spec};
use serde_json::{Value, json};

use super::super::super::figures::Quartiles;
use super::super::super::wait::until;
use super::super::PATIENCE;
use super::super::rig::Rig;
use super::super::series::{CLUSTER, leader, series, uids};
use super::{cluster, verdict};

/// The time of a rollout beside that by hand.
const GOAL: f64 = 1.5;

/// The version that clusters begin with, and that of the next minor version.
const VERSIONS: [&str; 2] = ["3.6.16", "3.7.3"];

/// Another patch version. On the nodes it is another name of the same image.
const PATCH: &str = "3.6.15";

/// Another name of the repository of etcd's images.
const REGISTRY: &str = "bench.quorate.dev/etcd";

/// Measures and prints.
pub async fn run(rig: &Rig, size: usize, runs: u32) -> Result<()> {
    name_images(rig).await?;
    let world = start(rig, size).await?;
    let by_hand = by_hand(&world, size, runs).await?;
    roll(
        &world,
        size,
        "an option",
        runs,
        by_hand,
        |run| json!({"spec": {"etcd": {"snapshotCount": 10_000 + run}}}),
    )
    .await?;
    roll(&world, size, "the template", runs, by_hand, |run| {
        json!({"spec": {"podTemplate": {"metadata": {"annotations": {"bench.quorate.dev/run": run.to_string()}}}}})
    })
    .await?;
    roll(
        &world,
        size,
        "an image",
        runs,
        by_hand,
        |run| json!({"spec": {"imageRegistry": if is_odd(run) { REGISTRY } else { DEFAULT_IMAGE_REGISTRY }}}),
    )
    .await?;
    roll(
        &world,
        size,
        "a patch version",
        runs,
        by_hand,
        |run| json!({"spec": {"version": if is_odd(run) { PATCH } else { VERSIONS[0] }}}),
    )
    .await?;
    drop(world);
    for _ in 0..runs {
        // A minor version is not left again by an edit alone.
        let world = start(rig, size).await?;
        roll(&world, size, "a minor version", 1, by_hand, |_| json!({"spec": {"version": VERSIONS[1]}}))
            .await?;
    }
    Ok(())
}

async fn start(rig: &Rig, size: usize) -> Result<Kubernetes> {
    let mut spec = spec(size);
    spec["version"] = json!(VERSIONS[0]);
    spec["storageSpec"]["volumeSizeRequest"] = json!("1Gi");
    cluster(rig, size, spec).await
}

/// Every name that an edit leads to.
async fn name_images(rig: &Rig) -> Result<()> {
    let official = |version: &str| format!("{DEFAULT_IMAGE_REGISTRY}:v{version}");
    let other = |version: &str| format!("{REGISTRY}:v{version}");
    rig.tag(&official(VERSIONS[0]), &official(PATCH)).await?;
    for version in [VERSIONS[0], PATCH, VERSIONS[1]] {
        rig.tag(&official(version), &other(version)).await?;
    }
    Ok(())
}

fn is_odd(run: u32) -> bool {
    run % 2 == 1
}

/// The operator rolls an edit out as often. `by_hand`: the seconds that a person needs.
async fn roll(
    world: &Kubernetes,
    size: usize,
    what: &str,
    runs: u32,
    by_hand: f64,
    edit: impl Fn(u32) -> Value,
) -> Result<()> {
    let mut took = Vec::new();
    let outcome = series(world, size, what, runs, async |run| {
        let before = uids(world).await?;
        let start = Instant::now();
        world.patch(CLUSTER, edit(run)).await?;
        until("every Pod is another one and ready", PATIENCE, async || {
            let pods = world.pods_of(CLUSTER).await?;
            let is_done = |pod: &&_| is_ready(pod) && pod.uid().is_some_and(|uid| !before.contains(&uid));
            let done = pods.iter().filter(is_done).count();
            Ok((done != size || pods.len() != size).then(|| format!("{done} of {size}")))
        })
        .await?;
        took.push(start.elapsed().as_secs_f64());
        Ok(())
    })
    .await?;
    outcome.judge();
    let median = Quartiles::of(took).median;
    let ratio = median / by_hand;
    println!(
        "{what}: {median:.1} s from the edit to {size} Ready Pods, by hand {by_hand:.1} s: ratio {ratio:.2}; goal, {GOAL} or less: {}",
        verdict(ratio <= GOAL)
    );
    Ok(())
}

/// The median of the seconds that a person needs with kubectl, under the same client.
async fn by_hand(world: &Kubernetes, size: usize, runs: u32) -> Result<f64> {
    let shell = world.shell()?;
    let mut took = Vec::new();
    series(world, size, "by hand", runs, async |_| {
        world.patch(CLUSTER, json!({"spec": {"paused": true}})).await?;
        let last = leader(world).await?.name_any();
        let mut pods: Vec<String> = world.pods_of(CLUSTER).await?.iter().map(ResourceExt::name_any).collect();
        pods.sort_by_key(|pod| (*pod == last, pod.clone()));
        let start = Instant::now();
        for pod in pods {
            restart(&shell, &pod).await?;
        }
        took.push(start.elapsed().as_secs_f64());
        world.patch(CLUSTER, json!({"spec": {"paused": false}})).await?;
        Ok(())
    })
    .await?
    .judge();
    Ok(Quartiles::of(took).median)
}

async fn restart(shell: &Shell, pod: &str) -> Result<()> {
    shell.run(&format!("kubectl delete pod {pod}")).await?;
    shell.run(&format!("kubectl wait --for=create pod/{pod} --timeout=60s")).await?;
    shell.run(&format!("kubectl wait --for=condition=Ready pod/{pod} --timeout=60s")).await.map(drop)
}
