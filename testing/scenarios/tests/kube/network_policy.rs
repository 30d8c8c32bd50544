//! docs/network.md where a network carries the policy out: kube-router, in the network of each node. It looks at the traffic of every Pod,
//! so it has the Kubernetes for itself.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use quorate_scenarios::rotations::stage;
use quorate_scenarios::{KubeRouter, Kubernetes, Writer, is_ready, rig, spec, until, version};
use serde_json::json;

const CLIENTS: u16 = 2379;
/// Clients, peers, metrics, the agent.
const PORTS: [u16; 4] = [CLIENTS, 2380, 2381, 9980];

#[tokio::test(flavor = "multi_thread")]
async fn where_policies_are_carried_out_strangers_are_kept_out_and_whoever_keeps_the_cluster_is_let_in()
-> Result<()> {
    let world = Kubernetes::start().await?;
    let router = KubeRouter::start(&world).await?;
    world.create("demo", spec(3)).await?;
    let (friend, stranger) =
        (visitor(&world, "app", "friend").await?, visitor(&world, "app", "stranger").await?);
    let job = visitor(&world, "operator.etcd.io/backup", "job").await?;
    world.settled("demo", 3).await?;
    // So what is shut below is shut by the policy; and Pods without one are left alone.
    reaches_just(&world, &stranger, &PORTS).await?;

    let writer = Writer::start(&world, "demo").await?;
    let policy = json!({
        "enabled": true, "metricsFrom": [],
        "clientsFrom": [{"podSelector": {"matchLabels": {"app": "friend"}}}, {"ipBlock": {"cidr": rig::machines()?}}],
    });
    world.patch("demo", json!({"spec": {"networkPolicy": policy}})).await?;
    let is_enforced = async || {
        reaches_just(&world, &stranger, &[]).await?;
        reaches_just(&world, &job, &[CLIENTS]).await?;
        reaches_just(&world, &friend, &[CLIENTS]).await
    };
    is_enforced().await?;

    // A Job begins before the network knows its address, and asks the members again until it does.
    let destination = world.claim_for_backups("backups").await?;
    world.back_up("early", "demo", &destination).await?;
    let backup = world.is_backed_up("early").await?;
    ensure!(backup["attempts"] == 1, "its first Job did not wait: {backup}");

    // Here the operator opens connections to the port of peers, and each member is started twice.
    let began = Instant::now();
    let order = json!({"metadata": {"annotations": {"operator.etcd.io/rotate-ca": "peers"}}});
    world.patch("demo", order).await?;
    stage(&world, "Sign").await?;
    stage(&world, "Drop").await?;
    until("the rotation has ended", async || {
        let certificates = world.status("demo").await?["certificates"].clone();
        let ended = certificates["rotation"].is_null() && certificates["lastRotationOrder"] == "peers";
        Ok(if ended { Ok(()) } else { Err(certificates.to_string()) })
    })
    .await?;
    println!("rotation of the authority of peers: {:.1} s", began.elapsed().as_secs_f64());
    world.settled_again("demo", 3).await?;
    is_enforced().await?;

    // Kubelets restart what their probes cannot reach.
    for pod in world.pods_of("demo").await? {
        let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let restarts: i32 = containers.into_iter().flatten().map(|one| one.restart_count).sum();
        ensure!(is_ready(&pod) && restarts == 0, "{} was restarted {restarts} times", pod.name_any());
    }
    // New members join, which have to reach the others and be reached. One that is faster than the network is started again.
    world.scale("demo", 5).await?;
    world.settled("demo", 5).await?;
    is_enforced().await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    router.stop().await
}

/// Waits until a Pod can connect to these ports of each member, and to no other one of [`PORTS`].
async fn reaches_just(world: &Kubernetes, from: &Pod, ports: &[u16]) -> Result<()> {
    let name = from.name_any();
    until(&format!("{name} reaches just {ports:?}"), async || {
        for member in world.pods_of("demo").await? {
            let ip = member.status.as_ref().and_then(|status| status.pod_ip.clone()).context("no address")?;
            for port in PORTS {
                let connects = rig::connects(from, SocketAddr::new(ip.parse()?, port)).await?;
                if connects != ports.contains(&port) {
                    let member = member.name_any();
                    return Ok(Err(format!("connection to {port} of {member}: {connects}")));
                }
            }
        }
        Ok(Ok(()))
    })
    .await
}

/// A Pod that is no part of a cluster, with its name in this label; it runs.
async fn visitor(world: &Kubernetes, label: &str, name: &str) -> Result<Pod> {
    let pod = json!({
        "metadata": {"name": name, "labels": {label: name}},
        "spec": {
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "fsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "terminationGracePeriodSeconds": 1,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{
                "name": "idle", "image": format!("gcr.io/etcd-development/etcd:v{}", version()),
                "command": ["etcd", "--data-dir=/data/etcd"],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    });
    world.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    until(&format!("{name} runs"), async || {
        let pod = world.pods().get(name).await?;
        Ok(if is_ready(&pod) { Ok(()) } else { Err(format!("{:?}", pod.status)) })
    })
    .await?;
    Ok(world.pods().get(name).await?)
}
