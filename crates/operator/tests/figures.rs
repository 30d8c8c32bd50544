//! What `/metrics` shows of a cluster, by a client of HTTP.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::{ListParams, PostParams};
use quorate_api::EtcdCluster;
use quorate_api::backup::{BackupPhase, EtcdBackup};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{RequestOutcome, World, plain, settled, until};

/// An address that nobody listens on now.
fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

async fn scraped(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    Ok(page)
}

/// The passes of a controller, whatever their outcome.
async fn passes(address: SocketAddr, controller: &str) -> Result<u64> {
    let page = scraped(address).await?;
    let of = format!("quorate_reconciles_total{{controller=\"{controller}\"");
    let counts = page.lines().filter(|line| line.starts_with(&of));
    Ok(counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
}

#[tokio::test(start_paused = true)]
async fn n10_backups_that_have_ended_have_no_passes() -> Result<()> {
    let world = World::new().await?;
    let address = free()?;
    let metrics = |options: &mut quorate_operator::Options| options.metrics = Some(address);
    let operator = world.operator_over(world.client.clone(), metrics);
    for name in ["one", "two"] {
        let backup = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
            // One that an older definition took its order from: it has failed at once.
            "metadata": { "name": name, "annotations": { quorate_api::keys::EXISTING_OBJECT: "object" } },
            "spec": { "source": { "cluster": "none" }, "destination": { "pvc": { "claimName": "none" } } },
        });
        let backups = world.api::<EtcdBackup>();
        backups.create(&PostParams::default(), &serde_json::from_value(backup)?).await?;
    }
    let have_failed = async || {
        let backups = world.api::<EtcdBackup>().list(&ListParams::default()).await?;
        let phases: Vec<_> = backups.iter().map(|backup| backup.status.as_ref()?.phase).collect();
        let all = phases.iter().all(|phase| *phase == Some(BackupPhase::Failed));
        Ok(if all { Ok(()) } else { Err(format!("{phases:?}")) })
    };
    until("both have failed", have_failed).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = passes(address, "backup").await?;
    ensure!(before > 0);
    tokio::time::sleep(Duration::from_mins(10)).await;
    ensure!(passes(address, "backup").await? == before);
    // The next operator looks at each once, in which nothing is written.
    drop(operator);
    let version = world.kube.store().version();
    let address = free()?;
    let metrics = |options: &mut quorate_operator::Options| options.metrics = Some(address);
    let _operator = world.operator_over(world.client.clone(), metrics);
    tokio::time::sleep(Duration::from_mins(10)).await;
    ensure!(passes(address, "backup").await? == 2, "{}", passes(address, "backup").await?);
    ensure!(world.kube.store().version() == version);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_series_of_a_cluster_are_those_of_its_last_pass_and_go_with_it() -> Result<()> {
    let world = World::new().await?;
    let _kubelet = world.kubelet();
    let address = free()?;
    let client = world.client_through(|_| RequestOutcome::Open);
    let _operator = world.operator_over(client, |options| options.metrics = Some(address));
    world.create_cluster(plain(3)).await?;
    settled(&world, 3).await?;
    tokio::time::sleep(Duration::from_mins(10)).await;

    let page = scraped(address).await?;
    let of = r#"namespace="default",name="demo""#;
    for line in [
        format!("quorate_cluster_members{{{of}}} 3"),
        format!("quorate_cluster_healthy_voters{{{of}}} 3"),
        format!("quorate_cluster_learners{{{of}}} 0"),
        format!("quorate_cluster_available{{{of}}} 1"),
        format!("quorate_cluster_paused{{{of}}} 0"),
        format!("quorate_cluster_phase{{{of},phase=\"Running\"}} 1"),
        format!("quorate_cluster_condition{{{of},type=\"Available\"}} 1"),
        format!("quorate_cluster_condition{{{of},type=\"Degraded\"}} 0"),
        format!("quorate_cluster_alarm{{{of},kind=\"NOSPACE\"}} 0"),
        format!("quorate_member_healthy{{{of},member=\"demo-2\"}} 1"),
        "quorate_leader 1".to_owned(),
        "quorate_wave_stopped 0".to_owned(),
    ] {
        ensure!(page.contains(&format!("\n{line}\n")), "no {line} in\n{page}");
    }
    let looked = |page: &str| -> Option<i64> {
        let (_, rest) = page.split_once(&format!("quorate_cluster_looked_at_timestamp_seconds{{{of}}} "))?;
        rest.lines().next()?.parse().ok()
    };
    let age = looked(&page).map(|at| world.clock.now().0 / 1000 - at);
    ensure!(age.is_some_and(|age| (0..=60).contains(&age)), "looked at {age:?} s ago");

    world.delete::<EtcdCluster>("demo").await?;
    until("no series is left", async || {
        let page = scraped(address).await?;
        Ok(if page.contains("\"demo\"") { Err(page) } else { Ok(()) })
    })
    .await
}
