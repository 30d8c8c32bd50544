//! Faults and upgrades of the operator: leader change, concurrent start, a new version.

use std::ffi::OsStr;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use quorate_scenarios::operator::restarts;
use quorate_scenarios::{Kubernetes, ProcessFault, Writer, agent_image, spec, until};

#[tokio::test(flavor = "multi_thread")]
async fn h17_an_operator_that_hangs_loses_the_lease_and_writes_nothing_when_it_resumes() -> Result<()> {
    let world = Kubernetes::start().await?;
    let operator = world.operator();
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let id = world.one_cluster_id("demo").await?;
    let writer = Writer::start(&world, "demo").await?;
    world.scale("demo", 5).await?;
    for number in 0..4 {
        world.create(&format!("c{number}"), spec(1)).await?;
    }
    let former = operator.leader().await?;
    let before = restarts(&former);
    operator.signal(&former, ProcessFault::Pause)?;
    let next = operator.wait_for_other_leader(&former).await?;
    for number in 0..4 {
        world.settled(&format!("c{number}"), 1).await?;
    }
    world.settled("demo", 5).await?;
    // Its liveness probe may have killed it already.
    operator.signal(&former, ProcessFault::Resume)?;
    until("the former leader restarts", async || {
        let pod = operator.pods().await?.into_iter().find(|pod| pod.uid() == former.uid());
        let count = pod.map_or(i32::MAX, |pod| restarts(&pod));
        Ok(if count > before { Ok(()) } else { Err(format!("{count} restarts")) })
    })
    .await?;
    operator.wait_for_replicas(2).await?;
    ensure!(operator.leader().await?.uid() == next.uid(), "the former leader got the lease back");
    world.scale("demo", 3).await?;
    world.settled("demo", 3).await?;
    writer.stop().await?.are_all_readable(&world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_three_operators_that_start_at_once_acts() -> Result<()> {
    let world = Kubernetes::start().await?;
    let operator = world.operator();
    operator.scale(0).await?;
    let outcome = start_three_at_once(&world).await;
    operator.restore().await?;
    outcome
}

async fn start_three_at_once(world: &Kubernetes) -> Result<()> {
    for name in ["one", "two"] {
        world.create(name, spec(3)).await?;
    }
    world.operator().scale(3).await?;
    for name in ["one", "two"] {
        world.settled(name, 3).await?;
        world.one_cluster_id(name).await?;
        let mut volumes: Vec<String> =
            world.volumes_of(name).await?.iter().map(ResourceExt::name_any).collect();
        volumes.sort();
        ensure!(volumes == [0, 1, 2].map(|nth| format!("{name}-{nth}")), "{volumes:?}");
    }
    Ok(())
}

/// `cargo xtask test kube` provides manifests and image of the previous commit, where there is one.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_of_the_previous_commit_is_upgraded_while_its_clusters_serve() -> Result<()> {
    let Some(previous) = std::env::var_os("QUORATE_TEST_PREVIOUS") else {
        eprintln!("SKIPPED: no earlier commit to upgrade from");
        return Ok(());
    };
    let world = Kubernetes::start().await?;
    let shell = world.shell()?;
    let install = |file: &OsStr| {
        let file = file.display();
        shell.now(&format!("kubectl apply --server-side --force-conflicts -f {file}"))?;
        shell.now("kubectl -n quorate-system rollout status deployment/quorate --timeout=2m")
    };
    let current = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/install/quorate.yaml");
    install(&previous)?;
    let outcome = upgrade(&world, || install(current.as_ref()).map(drop)).await;
    install(current.as_ref())?;
    world.operator().wait_for_replicas(2).await?;
    outcome
}

async fn upgrade(world: &Kubernetes, install: impl FnOnce() -> Result<()>) -> Result<()> {
    world.operator().wait_for_replicas(2).await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    world.create("asleep", spec(1)).await?;
    world.settled("asleep", 1).await?;
    world.scale("asleep", 0).await?;
    world.settled("asleep", 0).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    let old = agents(&world.pods_of("demo").await?)?;
    ensure!(old.iter().all(|image| image == "quorate:previous"), "{old:?}");
    let writer = Writer::start(world, "demo").await?;

    install()?;
    until("every member has the new agents", async || {
        let images = agents(&world.pods_of("demo").await?)?;
        let new = images.len() == 3 && images.iter().all(|image| image != "quorate:previous");
        Ok(if new { Ok(()) } else { Err(format!("{images:?}")) })
    })
    .await?;
    world.settled("demo", 3).await?;
    world.scale("asleep", 1).await?;
    world.settled("asleep", 1).await?;
    writer.stop().await?.are_all_readable(world, "demo").await?;
    ensure!(world.one_cluster_id("demo").await? == id && world.member_ids("demo").await? == members);
    Ok(())
}

/// The images of the agents.
fn agents(pods: &[Pod]) -> Result<Vec<String>> {
    pods.iter().map(|pod| agent_image(pod).context("a member without the agent")).collect()
}
