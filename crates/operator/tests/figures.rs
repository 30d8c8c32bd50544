//! What `/metrics` shows of a cluster, by a client of HTTP.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Result, ensure};
use quorate_api::EtcdCluster;
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
