//! What only the playground has: failed starts, restarts on the same data, a port that is in use.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use quorate_scenarios::{Playground, World, Writer, clear_directory, refused, spec};

#[tokio::test(flavor = "multi_thread")]
async fn a_playground_started_again_brings_the_same_cluster_with_its_data() -> Result<()> {
    let mut world = Playground::start().await?;
    world.create("demo", spec(3)).await?;
    world.settled("demo", 3).await?;
    let (id, members) = (world.one_cluster_id("demo").await?, world.member_ids("demo").await?);
    let writer = Writer::start(&world, "demo").await?;
    let acknowledged = writer.stop().await?;
    world.restart().await?;
    world.settled("demo", 3).await?;
    ensure!(world.one_cluster_id("demo").await? == id && world.member_ids("demo").await? == members);
    acknowledged.are_all_readable(&world, "demo").await
}

#[tokio::test(flavor = "multi_thread")]
async fn h01_a_node_that_came_back_with_an_empty_disk_does_not_bootstrap_the_cluster_again() -> Result<()> {
    let mut world = Playground::start().await?;
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await?;
    let pod = world.pods().get("demo-0").await?.metadata.uid;
    let volume = world.volume_dir("demo-0").await?;
    world.down()?;
    clear_directory(&volume)?;
    world.restart().await?;
    world.reports("demo", "DataMissing").await?;
    ensure!(
        world.pods().get("demo-0").await?.metadata.uid == pod,
        "the Pod was replaced; it must be the one that was created for a first start"
    );
    ensure!(!volume.join("data").exists(), "a second cluster was bootstrapped");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playground_that_cannot_start_reports_why_and_what_to_do() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name);
    let none = at("no-etcd-here");
    std::fs::create_dir(&none)?;
    let refusal = |dir: &PathBuf, args: &[&str]| refused(dir, args);

    let text = refusal(&at("a"), &["--detach", "--etcd-bin-dir", &none.display().to_string()])?;
    ensure!(text.contains("no etcd found in") && text.contains("cargo xtask tools"), "{text}");

    let file = at("a-file");
    std::fs::write(&file, "not a directory")?;
    let text = refusal(&file, &["--detach"])?;
    ensure!(text.contains("cannot write to") && text.contains("--dir"), "{text}");

    let foreign = at("documents");
    std::fs::create_dir(&foreign)?;
    std::fs::write(foreign.join("thesis.txt"), "precious")?;
    let text = refusal(&foreign, &["--detach", "--fresh"])?;
    ensure!(text.contains("was not created by a playground"), "{text}");
    ensure!(foreign.join("thesis.txt").is_file());

    let world = Playground::start().await?;
    let text = refusal(&world.path().to_owned(), &["--detach", "--empty"])?;
    ensure!(text.contains("already runs") && text.contains("playground down"), "{text}");

    let text = refusal(&at("b"), &["status"])?;
    ensure!(text.contains("no playground runs on"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_taken_while_the_playground_was_down_is_replaced_by_another() -> Result<()> {
    let mut world = Playground::start().await?;
    let port = |text: &str| -> Option<u16> {
        text.split("https://127.0.0.1:").nth(1)?.split(['"', '\n']).next()?.parse().ok()
    };
    let kubeconfig = world.path().join("kubeconfig");
    let before = port(&std::fs::read_to_string(&kubeconfig)?).context("the kubeconfig names no port")?;
    world.down()?;
    let _taken = std::net::TcpListener::bind(("127.0.0.1", before))?;
    world.restart().await?;
    let after = port(&std::fs::read_to_string(&kubeconfig)?).context("the kubeconfig names no port")?;
    ensure!(after != before);
    world.create("demo", spec(1)).await?;
    world.settled("demo", 1).await
}
