//! EtcdClusters through the API, as kubectl uses it, in the default namespace of a client.

use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Config};
use quorate_api::EtcdCluster;
use serde_json::{Value, json};

use super::pods;
use super::wait::until;

/// The EtcdClusters of one namespace.
pub struct Clusters {
    client: Client,
    patience: Duration,
}

/// The cluster to create.
#[derive(Clone, Copy)]
pub struct Desired<'a> {
    pub size: usize,
    pub version: &'a str,
    pub tls: bool,
}

/// How long it took from apply.
pub struct Took {
    /// Until every Pod was Ready, so every member a started voter.
    pub ready: Duration,
    /// Until status reported it.
    pub reported: Duration,
}

/// The volume size of each member, here and by hand.
pub const VOLUME: &str = "1Gi";

impl Clusters {
    /// Those in the default namespace of the client. Nothing may take longer than `patience`.
    pub fn new(client: Client, patience: Duration) -> Self {
        Self { client, patience }
    }

    /// Applies one and waits until it is ready.
    pub async fn create(&self, name: &str, desired: Desired<'_>) -> Result<Took> {
        let Desired { size, version, tls } = desired;
        let cluster: EtcdCluster = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": name},
            "spec": {
                "size": size,
                "version": version,
                "storageSpec": {"volumeSizeRequest": VOLUME, "retention": {"whenDeleted": "Delete"}},
                "tls": {"provider": if tls { "auto" } else { "disabled" }},
            },
        }))?;
        let start = Instant::now();
        self.api().create(&PostParams::default(), &cluster).await?;
        let ready = async {
            pods::ready(&self.client, &label(name), size).await?;
            Ok(start.elapsed())
        };
        let reported = async {
            self.says_so(name, size).await?;
            Ok::<_, anyhow::Error>(start.elapsed())
        };
        let both = async { tokio::try_join!(ready, reported) };
        if let Ok(both) = tokio::time::timeout(self.patience, both).await {
            return both.map(|(ready, reported)| Took { ready, reported: reported.max(ready) });
        }
        let status = self.status(name).await?;
        let pods = pods::described(&self.client, &label(name)).await?;
        bail!("{name} is not ready after {:?}: {}; status {status}", self.patience, pods.join(", "))
    }

    /// Deletes it and waits until nothing of it is left.
    #[expect(clippy::disallowed_methods, reason = "the benchmark is the user who deletes")]
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.api().delete(name, &DeleteParams::default()).await?;
        until(&format!("{name} is gone"), self.patience, async || {
            let pods = pods::described(&self.client, &label(name)).await?;
            let object = self.api().get_opt(name).await?.is_some();
            Ok((object || !pods.is_empty()).then(|| format!("Pods left: {}", pods.join(", "))))
        })
        .await
    }

    /// Their names.
    pub async fn names(&self) -> Result<Vec<String>> {
        let all = self.api().list(&ListParams::default()).await?.items;
        Ok(all.into_iter().filter_map(|cluster| cluster.metadata.name).collect())
    }

    async fn says_so(&self, name: &str, size: usize) -> Result<()> {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut seen = pin!(watcher(self.api(), config).applied_objects());
        while let Some(cluster) = seen.try_next().await? {
            if is_told(&serde_json::to_value(cluster.status)?, size) {
                return Ok(());
            }
        }
        bail!("the watch of {name} ended")
    }

    async fn status(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.api().get(name).await?.status)?)
    }

    fn api(&self) -> Api<EtcdCluster> {
        Api::default_namespaced(self.client.clone())
    }
}

/// The client configuration of a kubeconfig, without a proxy, because the API server is on this machine.
pub async fn config(kubeconfig: &Path) -> Result<Config> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).context("there is no Kubernetes")?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    config.default_retry = false;
    Ok(config)
}

/// Whether status reports this many ready voters, and Available.
fn is_told(status: &Value, size: usize) -> bool {
    let list = |key: &str| status[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let voters = list("members").iter().filter(|one| one["role"] == "voter" && one["healthy"] == true);
    let available =
        list("conditions").iter().any(|one| one["type"] == "Available" && one["status"] == "True");
    voters.count() == size && status["readyReplicas"] == size && available
}

fn label(cluster: &str) -> String {
    format!("operator.etcd.io/cluster={cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ready_voters_of_an_available_cluster_count() {
        let status = |role: &str, ready: usize, available: &str| {
            json!({
                "members": [{"role": role, "healthy": true}],
                "readyReplicas": ready,
                "conditions": [{"type": "Available", "status": available}],
            })
        };
        assert!(is_told(&status("voter", 1, "True"), 1));
        assert!(!is_told(&status("voter", 1, "True"), 3));
        assert!(!is_told(&status("learner", 1, "True"), 1));
        assert!(!is_told(&status("voter", 0, "True"), 1));
        assert!(!is_told(&status("voter", 1, "Unknown"), 1));
        assert!(!is_told(&Value::Null, 1));
    }
}
