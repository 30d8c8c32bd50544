//! The EtcdClusters of the fleet, each in a namespace of its own, as status shows them; and when the operator last did something for one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt as _};
use quorate_api::EtcdCluster;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::etcd::{Key, lock};

/// The name of every EtcdCluster.
pub const NAME: &str = "etcd";

/// How many are created at a time.
const AT_A_TIME: usize = 8;

/// When the operator last wrote something for the cluster of a namespace, as the watches have shown it here.
#[derive(Clone, Default)]
pub struct Effects(Arc<Mutex<HashMap<String, Instant>>>);

impl Effects {
    /// It has just done something.
    pub fn note(&self, namespace: &str) {
        lock(&self.0).insert(namespace.to_owned(), Instant::now());
    }

    /// How long after `since` the first effect came that was seen after it.
    pub async fn after(&self, namespace: &str, since: Instant, patience: Duration) -> Option<Duration> {
        while since.elapsed() < patience {
            if let Some(at) = lock(&self.0).get(namespace).filter(|at| **at > since) {
                return Some(at.duration_since(since));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        None
    }
}

/// The fleet.
#[derive(Clone)]
pub struct Clusters {
    client: Client,
    effects: Effects,
    seen: Arc<Mutex<HashMap<String, Seen>>>,
}

#[derive(Default)]
struct Seen {
    status: Value,
    is_ready: bool,
}

/// The cluster with this number.
pub fn key(number: usize) -> Key {
    (format!("tenant-{number:04}"), NAME.to_owned())
}

impl Clusters {
    /// None yet.
    pub fn new(client: Client, effects: Effects) -> Self {
        Self { client, effects, seen: Arc::default() }
    }

    /// Watches their status until it is dropped.
    pub fn run(&self) -> JoinSet<()> {
        let (clusters, api) = (self.clone(), Api::<EtcdCluster>::all(self.client.clone()));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut events = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(cluster) | Event::InitApply(cluster)) => clusters.see(&cluster),
                    Ok(Event::Init | Event::InitDone | Event::Delete(_)) => {}
                    Err(error) => eprintln!("clusters: {error}"),
                }
            }
        });
        tasks
    }

    /// Creates those with the numbers from `from` on.
    pub async fn create(&self, from: usize, to: usize) -> Result<()> {
        let creations = (from..to).map(|number| self.create_one(number));
        stream::iter(creations).buffer_unordered(AT_A_TIME).try_collect::<()>().await
    }

    /// How many are ready, as the present spec wants them.
    pub fn ready(&self) -> usize {
        lock(&self.seen).values().filter(|seen| seen.is_ready).count()
    }

    /// One that is not ready, with its status.
    pub fn unready(&self) -> Option<String> {
        let seen = lock(&self.seen);
        let (namespace, one) = seen.iter().find(|(_, seen)| !seen.is_ready)?;
        let conditions = one.status["conditions"].as_array()?;
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
        Some(format!("{namespace}: {}: {}", ready["reason"], ready["message"]))
    }

    /// Whether one is ready.
    pub fn is_ready(&self, namespace: &str) -> bool {
        lock(&self.seen).get(namespace).is_some_and(|seen| seen.is_ready)
    }

    /// Edits the spec of one.
    pub async fn edit(&self, namespace: &str, spec: Value) -> Result<()> {
        let api: Api<EtcdCluster> = Api::namespaced(self.client.clone(), namespace);
        let edited = api.patch(NAME, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        self.see(&edited);
        Ok(())
    }

    async fn create_one(&self, number: usize) -> Result<()> {
        let (namespace, name) = key(number);
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &object).await?;
        let cluster = serde_json::from_value(json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": name},
            "spec": {
                "size": 3, "version": "3.6.16", "storageSpec": {"volumeSizeRequest": "8Gi"},
                "podTemplate": {"spec": {"resources": {
                    "requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"},
                }}},
            },
        }))?;
        let api: Api<EtcdCluster> = Api::namespaced(self.client.clone(), &namespace);
        match api.create(&PostParams::default(), &cluster).await {
            Ok(_) => Ok(()),
            Err(error) => bail!("{namespace}: {error}"),
        }
    }

    fn see(&self, cluster: &EtcdCluster) {
        let namespace = cluster.namespace().unwrap_or_default();
        let status = serde_json::to_value(&cluster.status).unwrap_or_default();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is = |type_: &str| conditions.iter().any(|one| one["type"] == type_ && one["status"] == "True");
        let is_current = status["observedGeneration"].as_i64() == cluster.metadata.generation;
        let is_ready = is_current && is("Ready") && status["readyReplicas"] == 3;
        let mut seen = lock(&self.seen);
        let before = seen.entry(namespace.clone()).or_default();
        if before.status != status {
            self.effects.note(&namespace);
        }
        *before = Seen { status, is_ready };
    }
}
