//! Clients that write while something is measured, and how long their writes took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quorate_etcd::testkit::Cluster;
use tokio::task::JoinSet;

/// As many as the scenarios have.
const WRITERS: usize = 8;

/// The shortest time from one write to the next, so that the writers do not take the cores from what is measured.
const PACE: Duration = Duration::from_millis(20);

/// Writers, spread over all members.
pub struct Writers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Result<Vec<f64>>>,
}

/// How long writes took, in milliseconds.
pub struct Latencies(Vec<f64>);

impl Writers {
    /// Starts them.
    pub fn start(cluster: &Cluster) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for number in 0..WRITERS {
            let client = cluster.members[number % cluster.members.len()].client();
            let stop = stop.clone();
            tasks.spawn(async move {
                let mut took = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    client.put(&format!("/writer/{number}"), "value").await.context("a write failed")?;
                    took.push(began.elapsed().as_secs_f64() * 1000.0);
                    tokio::time::sleep(PACE.saturating_sub(began.elapsed())).await;
                }
                Ok(took)
            });
        }
        Self { stop, tasks }
    }

    /// Stops them. A write that failed is an error.
    pub async fn stop(mut self) -> Result<Latencies> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        while let Some(task) = self.tasks.join_next().await {
            all.extend(task??);
        }
        ensure!(!all.is_empty(), "nothing was written");
        all.sort_by(f64::total_cmp);
        Ok(Latencies(all))
    }
}

impl Latencies {
    /// 99 of 100 writes took at most this long.
    pub fn p99_ms(&self) -> f64 {
        let last = self.0.len() - 1;
        self.0[last - last / 100]
    }
}
