//! The objects that nodes read, kept up to date: Secrets, ConfigMaps, claims, volumes, Services and Nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Secret, Service};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The objects.
#[derive(Clone)]
pub struct Cache {
    secrets: Store<Secret>,
    config_maps: Store<ConfigMap>,
    claims: Store<PersistentVolumeClaim>,
    volumes: Store<PersistentVolume>,
    services: Store<Service>,
    nodes: Store<Node>,
    changed: watch::Receiver<u64>,
}

/// The values of a Secret or ConfigMap.
pub type Values = BTreeMap<String, Vec<u8>>;

impl Cache {
    /// Starts the watches as tasks of this set.
    pub fn start(client: &Client, tasks: &mut JoinSet<()>) -> Self {
        let (changes, changed) = watch::channel(0);
        let changes = Arc::new(changes);
        Self {
            secrets: reflect(client, &changes, tasks),
            config_maps: reflect(client, &changes, tasks),
            claims: reflect(client, &changes, tasks),
            volumes: reflect(client, &changes, tasks),
            services: reflect(client, &changes, tasks),
            nodes: reflect(client, &changes, tasks),
            changed,
        }
    }

    /// An empty cache.
    #[cfg(test)]
    pub fn empty() -> Self {
        Self {
            secrets: reflector::store().0,
            config_maps: reflector::store().0,
            claims: reflector::store().0,
            volumes: reflector::store().0,
            services: reflector::store().0,
            nodes: reflector::store().0,
            changed: watch::channel(0).1,
        }
    }

    /// Waits until every kind was listed once.
    pub async fn ready(&self) {
        let _ = self.secrets.wait_until_ready().await;
        let _ = self.config_maps.wait_until_ready().await;
        let _ = self.claims.wait_until_ready().await;
        let _ = self.volumes.wait_until_ready().await;
        let _ = self.services.wait_until_ready().await;
        let _ = self.nodes.wait_until_ready().await;
    }

    /// Notifies at every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// The values of a Secret.
    pub fn secret(&self, namespace: &str, name: &str, optional: Option<bool>) -> Result<Values, String> {
        match self.secrets.get(&ObjectRef::new(name).within(namespace)) {
            Some(secret) => Ok(bytes(secret.data.as_ref())),
            None => absent("secret", name, optional),
        }
    }

    /// The values of a ConfigMap.
    pub fn config_map(&self, namespace: &str, name: &str, optional: Option<bool>) -> Result<Values, String> {
        match self.config_maps.get(&ObjectRef::new(name).within(namespace)) {
            Some(map) => {
                let mut values = bytes(map.binary_data.as_ref());
                let texts =
                    map.data.iter().flatten().map(|(key, text)| (key.clone(), text.clone().into_bytes()));
                values.extend(texts);
                Ok(values)
            }
            None => absent("configmap", name, optional),
        }
    }

    /// A claim.
    pub fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(&ObjectRef::new(name).within(namespace))
    }

    /// A volume.
    pub fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.get(&ObjectRef::new(name))
    }

    /// The nodes that have this annotation.
    pub fn nodes_with(&self, annotation: &str) -> BTreeSet<String> {
        let nodes = self.nodes.state();
        nodes
            .iter()
            .filter(|node| node.annotations().contains_key(annotation))
            .map(|node| node.name_any())
            .collect()
    }

    /// All Services.
    pub fn services(&self) -> Vec<Arc<Service>> {
        self.services.state()
    }
}

fn reflect<K>(client: &Client, changes: &Arc<watch::Sender<u64>>, tasks: &mut JoinSet<()>) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    <K as Resource>::DynamicType: Eq + Hash + Clone + Default,
{
    let (store, writer) = reflector::store();
    let (api, changes) = (Api::<K>::all(client.clone()), changes.clone());
    tasks.spawn(async move {
        let events = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
        let notify = |_| {
            changes.send_modify(|count| *count += 1);
            std::future::ready(())
        };
        events.for_each(notify).await;
    });
    store
}

fn bytes(data: Option<&BTreeMap<String, k8s_openapi::ByteString>>) -> Values {
    data.into_iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect()
}

fn absent(kind: &str, name: &str, optional: Option<bool>) -> Result<Values, String> {
    if optional == Some(true) { Ok(Values::new()) } else { Err(format!("{kind} {name:?} not found")) }
}
