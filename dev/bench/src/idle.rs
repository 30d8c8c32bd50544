//! The cost of idle clusters: requests, calls, CPU and memory of the operator.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::metrics::{API_REQUESTS, Counts, ETCD_CALLS};
use super::playground::Playground;
use super::process::{cpu_seconds, resident_mib};

/// How long the operator may still be busy after a creation.
pub const SETTLE: Duration = Duration::from_secs(20);

/// Measures for this long, and prints.
pub async fn measure(playground: &Playground, clusters: u32, span: Duration) -> Result<()> {
    tokio::time::sleep(SETTLE).await;
    let (pid, address) = (playground.operator()?, playground.metrics()?);
    let (start, before, cpu) = (Instant::now(), Counts::scrape(&address).await?, cpu_seconds(pid)?);
    tokio::time::sleep(span).await;
    let (after, seconds) = (Counts::scrape(&address).await?, start.elapsed().as_secs_f64());
    let cpu = cpu_seconds(pid)? - cpu;
    for (counter, name) in [(API_REQUESTS, "API requests"), (ETCD_CALLS, "etcd calls")] {
        after.demand(counter)?;
        let more = after.since(&before, counter);
        let rate = more.values().fold(0.0, |sum, more| sum + more) * 60.0 / seconds / f64::from(clusters);
        println!("{name:14} {rate:8.1} per minute per cluster");
        for (series, more) in more {
            println!("  {more:4.0} x {}", series.trim_start_matches(counter));
        }
    }
    println!("{:14} {:8.2} % of one core", "operator CPU", cpu / seconds * 100.0);
    println!("{:14} {:8.1} MiB", "operator RSS", resident_mib(pid)?);
    Ok(())
}
