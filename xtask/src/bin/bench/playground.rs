//! What is measured: a detached playground, used through its API as kubectl uses it.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Config, ResourceExt};
use quorate_api::EtcdCluster;
use serde_json::json;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(1);

/// Runs until it is dropped.
pub struct Playground {
    dir: TempDir,
    client: Client,
}

impl Playground {
    /// Starts an empty one.
    pub async fn start() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("quorate-bench-").tempdir()?;
        let etcd = env::var("QUORATE_ETCD_BIN_DIR").context("run this through `cargo xtask bench`")?;
        call(dir.path(), &["--detach", "--empty", "--etcd-bin-dir", &etcd])?;
        let kubeconfig = Kubeconfig::read_from(dir.path().join("kubeconfig"))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        let client = Client::try_from(config)?;
        Ok(Self { dir, client })
    }

    /// From apply to three Ready Pods, which is three started voters.
    pub async fn create(&self, name: &str, version: &str, tls: bool) -> Result<Duration> {
        let cluster: EtcdCluster = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": name},
            "spec": {
                "size": 3,
                "version": version,
                "storageSpec": {"volumeSizeRequest": "1Gi", "retention": {"whenDeleted": "Delete"}},
                "tls": {"provider": if tls { "auto" } else { "disabled" }},
            },
        }))?;
        let start = Instant::now();
        self.clusters().create(&PostParams::default(), &cluster).await?;
        tokio::time::timeout(PATIENCE, self.three_are_ready(name))
            .await
            .with_context(|| format!("{name} has no three Ready Pods after {PATIENCE:?}"))??;
        let took = start.elapsed();
        self.says_so(name).await?;
        Ok(took)
    }

    /// Deletes it and waits until nothing of it is left.
    #[expect(clippy::disallowed_methods, reason = "the benchmark is the user who deletes")]
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.clusters().delete(name, &DeleteParams::default()).await?;
        let start = Instant::now();
        loop {
            let pods = self.pods().list(&ListParams::default().labels(&label(name))).await?.items.len();
            if pods == 0 && self.clusters().get_opt(name).await?.is_none() {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "{name} is not gone after {PATIENCE:?}: {pods} Pods left");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The operator's process.
    pub fn operator(&self) -> Result<u32> {
        let status = call(self.dir.path(), &["status"])?;
        let mut rows = status.lines().map(str::split_whitespace);
        let row =
            rows.find_map(|mut row| Some((row.next()?, row.next()?)).filter(|(_, name)| *name == "operator"));
        let (pid, _) = row.context("`quorate playground status` shows no operator")?;
        Ok(pid.parse()?)
    }

    /// Where the operator serves its metrics.
    pub fn metrics(&self) -> Result<String> {
        let log = std::fs::read_to_string(self.dir.path().join("logs/operator.log"))?;
        let line = log.lines().rev().find_map(|line| line.split_once("serving metrics on "));
        let (_, address) = line.context("the operator's log does not say where metrics are served")?;
        Ok(address.trim().to_owned())
    }

    async fn three_are_ready(&self, cluster: &str) -> Result<()> {
        let config = watcher::Config::default().labels(&label(cluster));
        let mut pods = std::pin::pin!(watcher(self.pods(), config).applied_objects());
        let mut ready = BTreeMap::new();
        while let Some(pod) = pods.try_next().await? {
            ready.insert(pod.name_any(), is_ready(&pod));
            if ready.values().filter(|ready| **ready).count() == 3 {
                return Ok(());
            }
        }
        bail!("the watch of Pods ended")
    }

    /// Status follows: three ready, all voters.
    async fn says_so(&self, name: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let status = serde_json::to_value(self.clusters().get(name).await?.status)?;
            let members = status["members"].as_array().cloned().unwrap_or_default();
            let voters = members
                .iter()
                .filter(|member| member["role"] == "voter" && member["healthy"] == true)
                .count();
            if voters == 3 && status["readyReplicas"] == 3 {
                return Ok(());
            }
            ensure!(start.elapsed() < PATIENCE, "{name} does not say that it is ready: {status}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn clusters(&self) -> Api<EtcdCluster> {
        Api::default_namespaced(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }
}

impl Drop for Playground {
    fn drop(&mut self) {
        if let Err(error) = call(self.dir.path(), &["down"]) {
            eprintln!("stopping the playground: {error:#}");
        }
    }
}

fn label(cluster: &str) -> String {
    format!("operator.etcd.io/cluster={cluster}")
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// `quorate playground ARGS --dir DIR`.
fn call(dir: &Path, args: &[&str]) -> Result<String> {
    let program =
        env::var_os("QUORATE_BIN").map(PathBuf::from).context("run this through `cargo xtask bench`")?;
    let Output { status, stdout, stderr } =
        Command::new(program).arg("playground").args(args).arg("--dir").arg(dir).output()?;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    ensure!(status.success(), "quorate playground {}: {status}\n{stdout}{stderr}", args.join(" "));
    Ok(stdout.into_owned())
}
