//! A client that writes all the time and remembers what etcd acknowledged. At the end every acknowledged write must be
//! readable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use quorate_etcd::Read;
use tokio::task::JoinHandle;

use crate::NamespaceClient;

/// Writes until it is stopped.
pub struct Writer {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    task: JoinHandle<BTreeMap<String, String>>,
}

impl Writer {
    /// Starts to write to a cluster. After every failure the members are looked up again.
    pub fn start(namespace_client: &NamespaceClient, cluster: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(0));
        let (stopped, counted, cluster) = (stop.clone(), written.clone(), cluster.to_owned());
        let namespace_client = namespace_client.clone();
        let task = tokio::spawn(async move {
            let mut acknowledged = BTreeMap::new();
            let mut number = 0u64;
            while !stopped.load(Ordering::Relaxed) {
                let Ok(members) = namespace_client.members(&cluster).await else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                for (_, member) in members.iter().cycle().take(200) {
                    if stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    number += 1;
                    let (key, value) = (format!("writer/{number}"), format!("value-{number}"));
                    match member.put(&key, value.clone()).await {
                        Ok(_) => {
                            acknowledged.insert(key, value);
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        // Refused or unknown: it does not count as acknowledged.
                        Err(_) => break,
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
            acknowledged
        });
        Self { stop, written, task }
    }

    /// Whether etcd has acknowledged a write.
    pub fn has_written(&self) -> bool {
        self.written.load(Ordering::Relaxed) > 0
    }

    /// Stops; returns what was acknowledged.
    pub async fn stop(self) -> Result<Acknowledged> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(Acknowledged(self.task.await?))
    }
}

/// Writes that etcd acknowledged.
pub struct Acknowledged(BTreeMap<String, String>);

impl Acknowledged {
    /// Reads every write back with a linearizable read, at each member in turn.
    pub async fn are_all_readable(&self, namespace_client: &NamespaceClient, cluster: &str) -> Result<()> {
        ensure!(!self.0.is_empty(), "no write was ever acknowledged");
        let members = namespace_client.members(cluster).await?;
        for ((key, value), (name, member)) in self.0.iter().zip(members.iter().cycle()) {
            let stored = member.get(key, Read::Linearizable).await?;
            let stored = stored.map(|stored| String::from_utf8_lossy(&stored.value).into_owned());
            ensure!(
                stored.as_ref() == Some(value),
                "{key} was acknowledged as {value}; {name} has {stored:?}"
            );
        }
        Ok(())
    }
}
