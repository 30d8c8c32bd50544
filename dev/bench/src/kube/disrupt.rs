//! `bench disrupt`: the pause of writes while the leader is taken, under the client of the scenarios: eight writers without rest over
//! all members, and three watches. And how soon a member is back, in turns with a Pod written by hand.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use quorate_scenarios::{Kubernetes, Shell, is_ready, spec};
use serde_json::json;

use super::super::figures::Quartiles;
use super::super::wait::until;
use super::super::{Disrupt, pods, process};
use super::by_hand::{self, Manner};
use super::namespace::Namespace;
use super::rig::{MANIFESTS, Rig};
use super::series::{CLUSTER, leader, series, uids};
use super::{PATIENCE, operator};

/// What the agent may take besides etcd, in MiB.
const AGENT_MIB: f64 = 8.0;

/// A member that comes back may take this much longer than a Pod written by hand.
const BACK_GOAL: f64 = 1.3;

/// The patch versions of an upgrade.
const UPGRADE: [&str; 2] = ["3.6.16", "3.7.3"];

/// Measures and prints.
pub async fn run(args: &Disrupt) -> Result<()> {
    let rig = Rig::bring_up().await?;
    println!("operator: {}", operator::image(&rig).await?);
    println!("pause: the longest time in which none of eight writers had a write acknowledged, in seconds");
    if let Some(release) = &args.operator_from {
        return replace_operator(&rig, release).await;
    }
    let world = cluster(&rig, UPGRADE[0]).await?;
    let shell = world.shell()?;
    println!("memory of the agent, MiB: {}; goal, {AGENT_MIB} or less", agents(&world).await?.join(", "));
    series(&world, 3, "the leader's node drained", args.drains, async |_| drain_leader(&world, &shell).await)
        .await?
        .judge();
    series(&world, 3, "the leader's Pod deleted", args.runs, async |_| delete_leader(&world).await)
        .await?
        .judge();
    series(&world, 3, "rollout of three", args.runs, async |run| {
        let labels = json!({"bench.quorate.dev/run": run.to_string()});
        let patch = json!({"spec": {"podTemplate": {"metadata": {"annotations": labels}}}});
        world.patch(CLUSTER, patch).await?;
        Ok(())
    })
    .await?
    .judge();
    series(&world, 3, "SIGTERM to the leader's etcd, past the agent", args.runs, async |_| {
        terminate_etcd(&world).await
    })
    .await?
    .judge();
    let back = deleted_when_idle(&world, args.runs).await?;
    drop(world);
    for _ in 0..args.upgrades {
        let world = cluster(&rig, UPGRADE[0]).await?;
        let what = format!("upgrade from {} to {}", UPGRADE[0], UPGRADE[1]);
        series(&world, 3, &what, 1, async |_| {
            world.patch(CLUSTER, json!({"spec": {"version": UPGRADE[1]}})).await?;
            Ok(())
        })
        .await?
        .judge();
    }
    let by_hand = Box::pin(deleted_by_hand(&rig, args.runs)).await?;
    print_back(back, by_hand);
    Ok(())
}

/// From one release of the operator to the present one, which rolls every Pod, and back.
async fn replace_operator(rig: &Rig, release: &Path) -> Result<()> {
    rig.install(release).await?;
    let world = cluster(rig, UPGRADE[0]).await?;
    for (what, manifests) in [("operator upgraded", Path::new(MANIFESTS)), ("operator taken back", release)] {
        series(&world, 3, what, 1, async |_| {
            let before = uids(&world).await?;
            rig.install(manifests).await?;
            until("every Pod is another one", PATIENCE, async || {
                let kept = uids(&world).await?.intersection(&before).count();
                Ok((kept > 0).then(|| format!("{kept} are the same")))
            })
            .await
        })
        .await?
        .judge();
        for pod in world.pods_of(CLUSTER).await? {
            let spec = pod.spec.clone().unwrap_or_default();
            let names = spec.init_containers.iter().flatten().chain(&spec.containers).map(|one| &*one.name);
            println!(
                "{what}: {} has the containers {}",
                pod.name_any(),
                names.collect::<Vec<_>>().join(", ")
            );
        }
    }
    rig.install(Path::new(MANIFESTS)).await
}

async fn cluster(rig: &Rig, version: &str) -> Result<Kubernetes> {
    let world = Kubernetes::start_in(rig.kubeconfig()).await?;
    let mut spec = spec(3);
    spec["version"] = json!(version);
    spec["storageSpec"]["volumeSizeRequest"] = json!("1Gi");
    world.create(CLUSTER, spec).await?;
    world.settled(CLUSTER, 3).await?;
    Ok(world)
}

/// What a stop is without the agent: etcd closes its client port first and hands leadership over last. Its container restarts.
async fn terminate_etcd(world: &Kubernetes) -> Result<()> {
    let leader = leader(world).await?;
    let name = leader.name_any();
    let restarts = restarts(&leader);
    let uid = leader.uid().context("a Pod has a uid")?;
    for pid in process::of_pod(&uid, "etcd")? {
        kill(Pid::from_raw(pid.try_into()?), Signal::SIGTERM)?;
    }
    until(&format!("{name} is back"), PATIENCE, async || {
        let now = world.pods().get(&name).await?;
        let is_back = self::restarts(&now) > restarts && is_ready(&now);
        Ok((!is_back).then(|| "not ready yet".to_owned()))
    })
    .await
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.into_iter().flatten().map(|container| container.restart_count).sum()
}

async fn drain_leader(world: &Kubernetes, shell: &Shell) -> Result<()> {
    let leader = leader(world).await?;
    let node = leader.spec.as_ref().and_then(|spec| spec.node_name.clone()).context("it runs on a node")?;
    let flags = "--ignore-daemonsets --delete-emptydir-data --force --timeout=60s";
    let own = format!("--pod-selector=operator.etcd.io/cluster={CLUSTER}");
    shell.run(&format!("kubectl drain {node} {flags} {own}")).await?;
    shell.run(&format!("kubectl uncordon {node}")).await?;
    back(world, &leader).await
}

async fn delete_leader(world: &Kubernetes) -> Result<()> {
    let leader = leader(world).await?;
    world.delete_pod(&leader.name_any()).await?;
    back(world, &leader).await
}

/// Without clients, as of the Pod written by hand: open watches hold up the stop of etcd by seconds.
async fn deleted_when_idle(world: &Kubernetes, runs: u32) -> Result<Vec<f64>> {
    let mut took = Vec::new();
    for run in 0..runs {
        let pod = world.pods().get(&format!("{CLUSTER}-{}", run % 3)).await?;
        let start = Instant::now();
        world.delete_pod(&pod.name_any()).await?;
        back(world, &pod).await?;
        took.push(start.elapsed().as_secs_f64());
        world.settled(CLUSTER, 3).await?;
    }
    Ok(took)
}

/// Waits until another Pod of the same name is Ready.
async fn back(world: &Kubernetes, before: &Pod) -> Result<()> {
    let name = before.name_any();
    until(&format!("{name} is back"), PATIENCE, async || {
        let now = world.pods().get_opt(&name).await?;
        let is_back = now.is_some_and(|pod| pod.uid() != before.uid() && is_ready(&pod));
        Ok((!is_back).then(|| "not ready yet".to_owned()))
    })
    .await
}

/// The resident memory of the agents.
async fn agents(world: &Kubernetes) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for pod in world.pods_of(CLUSTER).await? {
        let uid = pod.uid().context("a Pod has a uid")?;
        for pid in process::of_pod(&uid, "quorate")? {
            all.push(format!("{:.1}", process::resident_mib(pid)?));
        }
    }
    ensure!(!all.is_empty(), "no agent was found");
    Ok(all)
}

/// A Pod written by hand is deleted, and created again as soon as it is gone: seconds until it is Ready.
#[expect(clippy::disallowed_methods, reason = "the benchmark is the user who deletes")]
async fn deleted_by_hand(rig: &Rig, runs: u32) -> Result<Vec<f64>> {
    let namespace = Namespace::create(rig).await?;
    by_hand::create(&namespace, UPGRADE[0], true, Manner::InTurn).await?;
    let api: Api<Pod> = Api::default_namespaced(namespace.client());
    let mut took = Vec::new();
    for run in 0..runs {
        let n = usize::try_from(run % 3)?;
        let name = by_hand::member(n);
        let start = Instant::now();
        api.delete(&name, &DeleteParams::default()).await?;
        until(&format!("{name} is gone"), PATIENCE, async || {
            Ok(api.get_opt(&name).await?.map(|_| "it is there".to_owned()))
        })
        .await?;
        by_hand::create_pod(&namespace, n, UPGRADE[0], true).await?;
        pods::ready(&namespace.client(), by_hand::LABELS, 3).await?;
        took.push(start.elapsed().as_secs_f64());
    }
    namespace.clear().await?;
    Ok(took)
}

fn print_back(operator: Vec<f64>, by_hand: Vec<f64>) {
    let [operator, by_hand] = [operator, by_hand].map(Quartiles::of);
    let ratio = operator.median / by_hand.median;
    let verdict = if ratio <= BACK_GOAL { "met" } else { "MISSED" };
    println!(
        "\nmember back after its Pod is deleted: {:.2} s, by hand {:.2} s: ratio {ratio:.2}; goal, {BACK_GOAL} or less: {verdict}",
        operator.median, by_hand.median
    );
}
