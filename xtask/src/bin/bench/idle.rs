//! What clusters cost that nobody changes: requests, calls, CPU and memory of the operator.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::playground::Playground;

/// Until what the creation set going has come to rest.
const SETTLE: Duration = Duration::from_secs(20);

/// `CLK_TCK`: Linux shows CPU times in hundredths of a second, whatever its own clock.
const TICKS: f64 = 100.0;

const COUNTERS: [(&str, &str); 2] =
    [("quorate_api_requests_total", "API requests"), ("quorate_etcd_calls_total", "etcd calls")];

/// Watches for so long, and prints.
pub async fn measure(playground: &Playground, clusters: u32, span: Duration) -> Result<()> {
    tokio::time::sleep(SETTLE).await;
    let (pid, address) = (playground.operator()?, playground.metrics()?);
    let (start, before, cpu) = (Instant::now(), scrape(&address).await?, cpu_seconds(pid)?);
    tokio::time::sleep(span).await;
    let (after, seconds) = (scrape(&address).await?, start.elapsed().as_secs_f64());
    let cpu = cpu_seconds(pid)? - cpu;
    for (counter, name) in COUNTERS {
        let more: BTreeMap<&str, f64> = after
            .iter()
            .filter(|(series, _)| series.starts_with(counter))
            .map(|(series, value)| (series.as_str(), value - before.get(series).unwrap_or(&0.0)))
            .filter(|(_, more)| *more > 0.0)
            .collect();
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

/// The counters by series.
async fn scrape(address: &str) -> Result<BTreeMap<String, f64>> {
    let mut stream = TcpStream::connect(address).await.with_context(|| format!("no metrics on {address}"))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    ensure!(reply.starts_with("HTTP/1.0 200") || reply.starts_with("HTTP/1.1 200"), "metrics: {reply}");
    let series = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((series.to_owned(), value.parse().ok()?))
    };
    let all: BTreeMap<_, _> = reply.lines().filter_map(series).collect();
    for (counter, _) in COUNTERS {
        ensure!(
            all.keys().any(|series| series.starts_with(counter)),
            "the operator does not count {counter}"
        );
    }
    Ok(all)
}

/// User and system time that the process has used.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the operator is gone")?;
    // The name, in parentheses, may hold anything; the state after it is the third field.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat names the process")?;
    let field =
        |number: usize| fields.split_whitespace().nth(number - 3).and_then(|field| field.parse::<f64>().ok());
    Ok((field(14).context("user time")? + field(15).context("system time")?) / TICKS)
}

fn resident_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("the operator is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.split_whitespace().next().context("no figure")?.parse()?;
    Ok(kib / 1024.0)
}
