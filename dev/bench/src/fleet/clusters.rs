//! The EtcdClusters of the fleet, as status shows them; and when the operator last did something for one.

use std::collections::{BTreeMap, HashMap};
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

/// How many are created at a time.
const AT_A_TIME: usize = 8;

/// Where the clusters are: each in a namespace of its own, and some percent of them with many others in one.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// How many percent of the clusters share a namespace.
    pub shared_percent: usize,
    /// How many clusters one such namespace has.
    pub in_one_namespace: usize,
}

impl Layout {
    /// The cluster with this number. It stays the same when the fleet grows.
    pub fn key(self, number: usize) -> Key {
        let shared = |number: usize| number * self.shared_percent / 100;
        let (before, with) = (shared(number), shared(number + 1));
        if with > before && self.in_one_namespace > 0 {
            (format!("shared-{:03}", before / self.in_one_namespace), format!("etcd-{number:04}"))
        } else {
            (format!("tenant-{number:04}"), "etcd".to_owned())
        }
    }

    /// The namespace in which most of so many clusters are.
    pub fn fullest(self, fleet: usize) -> Option<String> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..fleet {
            *counts.entry(self.key(number).0).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(namespace, _)| namespace)
    }
}

/// When the operator last wrote something for a cluster, as the watches have shown it here.
#[derive(Clone, Default)]
pub struct Effects(Arc<Mutex<HashMap<Key, Instant>>>);

impl Effects {
    /// It has just done something.
    pub fn note(&self, key: &Key) {
        lock(&self.0).insert(key.clone(), Instant::now());
    }

    /// The clusters with an effect since then.
    pub fn since(&self, since: Instant) -> Vec<Key> {
        lock(&self.0).iter().filter(|(_, at)| **at > since).map(|(key, _)| key.clone()).collect()
    }

    /// How long after `since` the first effect came that was seen after it.
    pub async fn after(&self, key: &Key, since: Instant, patience: Duration) -> Option<Duration> {
        while since.elapsed() < patience {
            if let Some(at) = lock(&self.0).get(key).filter(|at| **at > since) {
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
    layout: Layout,
    effects: Effects,
    seen: Arc<Mutex<HashMap<Key, Seen>>>,
}

#[derive(Default)]
struct Seen {
    status: Value,
    is_ready: bool,
}

impl Clusters {
    /// None yet.
    pub fn new(client: Client, layout: Layout, effects: Effects) -> Self {
        Self { client, layout, effects, seen: Arc::default() }
    }

    /// The cluster with this number.
    pub fn key(&self, number: usize) -> Key {
        self.layout.key(number)
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
        let ((namespace, name), one) = seen.iter().find(|(_, seen)| !seen.is_ready)?;
        let conditions = one.status["conditions"].as_array()?;
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
        Some(format!("{namespace}/{name}: {}: {}", ready["reason"], ready["message"]))
    }

    /// Whether one is ready.
    pub fn is_ready(&self, key: &Key) -> bool {
        lock(&self.seen).get(key).is_some_and(|seen| seen.is_ready)
    }

    /// Edits the spec of one.
    pub async fn edit(&self, (namespace, name): &Key, spec: Value) -> Result<()> {
        let api: Api<EtcdCluster> = Api::namespaced(self.client.clone(), namespace);
        let edited = api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
        self.see(&edited);
        Ok(())
    }

    async fn create_one(&self, number: usize) -> Result<()> {
        let (namespace, name) = self.key(number);
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        match Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &object).await {
            // It has other clusters.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created?),
        }
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
        let key = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        let status = serde_json::to_value(&cluster.status).unwrap_or_default();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is = |type_: &str| conditions.iter().any(|one| one["type"] == type_ && one["status"] == "True");
        let is_current = status["observedGeneration"].as_i64() == cluster.metadata.generation;
        let is_ready = is_current && is("Ready") && status["readyReplicas"] == 3;
        let mut seen = lock(&self.seen);
        let before = seen.entry(key.clone()).or_default();
        if before.status != status {
            self.effects.note(&key);
        }
        *before = Seen { status, is_ready };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_percent_of_the_clusters_share_namespaces_of_the_size_that_is_asked_for() {
        let layout = Layout { shared_percent: 20, in_one_namespace: 40 };
        let keys: Vec<Key> = (0..1000).map(|number| layout.key(number)).collect();
        let shared = keys.iter().filter(|key| key.0.starts_with("shared-")).count();
        assert_eq!(shared, 200);
        assert_eq!(keys.iter().filter(|key| key.0 == "shared-000").count(), 40);
        assert_eq!(keys.iter().filter(|key| key.0 == "shared-005").count(), 0);
        assert_eq!(keys.iter().collect::<std::collections::BTreeSet<_>>().len(), 1000);
        assert_eq!(layout.fullest(20).as_deref(), Some("shared-000"));
        let alone = Layout { shared_percent: 0, in_one_namespace: 40 };
        assert!((0..100).all(|number| alone.key(number).0.starts_with("tenant-")));
    }
}
