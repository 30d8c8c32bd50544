//! The DataStores of Kamaji, by one watch for all clusters. Kamaji need not be installed, so the watch begins when a cluster is to have a
//! DataStore, and once the API server has the kind.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_all};
use quorate_api::EtcdCluster;
use quorate_manifests::{data_store as objects, observe};
use quorate_model::ClusterRef;
use quorate_orders::data_store::Stores;
use quorate_reconcile::{ReadCluster, WriteError, version};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::runtime::lease::WRITE_DEADLINE;
use crate::runtime::watch::{Index, NamespacedName, Wake, chain};
use crate::runtime::write::{refusal, reply};

/// How often the API server is asked for a kind that it lacks, or that may not be read.
const AGAIN: Duration = Duration::from_mins(1);

/// The cache of DataStores. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct DataStores(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// A cluster has asked.
    wanted: Notify,
    known: watch::Sender<Known>,
}

/// What is known of them.
#[derive(Debug)]
enum Known {
    /// The first answer is waited for.
    NotYet,
    /// Why there is no list.
    No(Stores),
    /// All of them.
    Listed(Listed),
}

#[derive(Debug, Default)]
struct Listed {
    by_name: HashMap<String, Arc<DynamicObject>>,
    /// The names by what leads from a DataStore to a cluster.
    by_key: HashMap<String, BTreeSet<String>>,
}

/// Asked of its API server, and woken by its changes.
pub(super) struct Source {
    pub(super) client: kube::Client,
    pub(super) clusters: Index<ReadCluster>,
    pub(super) wake: Arc<dyn Wake>,
}

/// The API of TenantControlPlanes.
pub(super) fn planes(client: kube::Client) -> Api<DynamicObject> {
    let (kind, plural) = objects::TENANT;
    let kind = GroupVersionKind::gvk(objects::GROUP, objects::VERSION, kind);
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, plural))
}

/// The API of DataStores.
pub(super) fn api(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(objects::GROUP, objects::VERSION, objects::KIND);
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, objects::PLURAL))
}

impl Default for DataStores {
    fn default() -> Self {
        Self(Arc::new(Inner { wanted: Notify::new(), known: watch::Sender::new(Known::NotYet) }))
    }
}

impl DataStores {
    /// Those that concern a cluster. The first answer of the API server is waited for, no longer than any other.
    pub(super) async fn of(&self, cluster: &EtcdCluster, at: &ClusterRef) -> Stores {
        self.0.wanted.notify_one();
        let mut known = self.0.known.subscribe();
        // It has always a sender.
        let _ = timeout(WRITE_DEADLINE, known.wait_for(|known| !matches!(known, Known::NotYet))).await;
        self.now(cluster, at)
    }

    /// The same by what is known now.
    pub(super) fn now(&self, cluster: &EtcdCluster, at: &ClusterRef) -> Stores {
        match &*self.0.known.borrow() {
            Known::NotYet => Stores::Unknown(format!("DataStores: no list within {WRITE_DEADLINE:?}")),
            Known::No(why) => why.clone(),
            Known::Listed(all) => all.of(cluster, at),
        }
    }

    /// The API server replied with this to a write.
    pub(super) fn wrote(&self, store: DynamicObject) {
        self.change(|all| all.apply(store));
    }

    /// Watches them, for ever.
    pub(super) async fn follow(self, source: Source) {
        self.0.wanted.notified().await;
        loop {
            let why = self.watch(&source).await;
            self.0.known.send_replace(Known::No(why));
            source.wake_all(|_, _| true);
            sleep(AGAIN).await;
        }
    }

    /// Until there is no such kind any more, or it may not be read.
    async fn watch(&self, source: &Source) -> Stores {
        let config = watcher::Config::default().page_size(100);
        let trimmed = |store: &mut DynamicObject| observe::trim(&mut store.metadata);
        let watched = watch_all(api(source.client.clone()), config).default_backoff().modify(trimmed);
        let mut events = Box::pin(watched);
        let mut list = Listed::default();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => list = Listed::default(),
                Ok(Event::InitApply(store)) => list.apply(store),
                Ok(Event::InitDone) => {
                    self.0.known.send_replace(Known::Listed(std::mem::take(&mut list)));
                    source.wake_all(|_, _| true);
                }
                Ok(Event::Apply(store)) => {
                    let changed = json!(store);
                    self.wrote(store);
                    source.wake_all(|cluster, at| objects::is_of(cluster, at, &changed));
                }
                Ok(Event::Delete(store)) => {
                    self.change(|all| all.remove(store.metadata.name.as_deref().unwrap_or_default()));
                    source.wake_all(|cluster, at| objects::is_of(cluster, at, &json!(store)));
                }
                Err(error) => match refused(&error) {
                    Some(WriteError::Missing(why)) => return without_kind(&source.client, why).await,
                    Some(WriteError::Forbidden(why)) => return Stores::Forbidden(why),
                    Some(_) | None => self.failed(&error),
                },
            }
        }
        Stores::Unknown("the watch of DataStores ended".to_owned())
    }

    /// What was listed stays, as in every watch.
    fn failed(&self, error: &watcher::Error) {
        tracing::warn!(kind = objects::KIND, error = %chain(error), "watch failed; it is retried");
        self.0.known.send_if_modified(|known| {
            let is_listed = matches!(known, Known::Listed(_));
            if !is_listed {
                *known = Known::No(Stores::Unknown(chain(error)));
            }
            !is_listed
        });
    }

    fn change(&self, change: impl FnOnce(&mut Listed)) {
        self.0.known.send_if_modified(|known| match known {
            Known::Listed(all) => {
                change(all);
                true
            }
            Known::NotYet | Known::No(_) => false,
        });
    }
}

impl Listed {
    fn apply(&mut self, store: DynamicObject) {
        let name = store.metadata.name.clone().unwrap_or_default();
        // The reply to a write may be newer than what the watch reports.
        if self.by_name.get(&name).is_some_and(|known| {
            known.metadata.uid == store.metadata.uid && version(&**known) > version(&store)
        }) {
            return;
        }
        self.remove(&name);
        for key in objects::index_keys(&json!(store)) {
            self.by_key.entry(key).or_default().insert(name.clone());
        }
        self.by_name.insert(name, Arc::new(store));
    }

    fn remove(&mut self, name: &str) {
        let Some(store) = self.by_name.remove(name) else { return };
        for key in objects::index_keys(&json!(*store)) {
            if let Some(names) = self.by_key.get_mut(&key) {
                names.remove(name);
                if names.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }

    fn of(&self, cluster: &EtcdCluster, at: &ClusterRef) -> Stores {
        let names: BTreeSet<&String> = objects::keys_of_cluster(cluster, at)
            .iter()
            .filter_map(|key| self.by_key.get(key))
            .flatten()
            .collect();
        let found = names.into_iter().filter_map(|name| self.by_name.get(name)).map(|store| json!(**store));
        let (own, others): (Vec<Value>, Vec<Value>) = found.partition(|one| objects::is_own(cluster, one));
        let unlabelled = others.into_iter().filter(|one| objects::leads_to(at, one)).collect();
        let named = objects::wanted(cluster).and_then(|name| self.by_name.get(name));
        Stores::Seen { own, unlabelled, named: named.map(|store| json!(**store)) }
    }
}

impl Source {
    /// Wakes the clusters that are to have a DataStore, or may have one.
    fn wake_all(&self, is_of: impl Fn(&EtcdCluster, &ClusterRef) -> bool) {
        for cluster in self.clusters.all() {
            let Ok(cluster) = &cluster.0 else { continue };
            let meta = &cluster.metadata;
            let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else { continue };
            if objects::concerns(cluster) && is_of(cluster, &ClusterRef::new(namespace, name)) {
                self.wake.wake(&NamespacedName::new(namespace, name));
            }
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

/// What the API server said to a list or a watch.
fn refused(error: &watcher::Error) -> Option<WriteError> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(refusal(status)),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => None,
    }
}

/// A path that is not found may be that of a kind whose definition was replaced, or of another version. Only where the API server lists
/// no such group, among others, is there no DataStore.
pub(super) async fn without_kind(client: &kube::Client, why: String) -> Stores {
    let groups = reply(timeout(WRITE_DEADLINE, client.list_api_groups()).await);
    match groups {
        Ok(groups) if groups.groups.iter().any(|group| group.name == objects::GROUP) => Stores::Unknown(
            format!("there is a group {}, without DataStores of {}: {why}", objects::GROUP, objects::VERSION),
        ),
        Ok(groups) if groups.groups.is_empty() => {
            Stores::Unknown("the API server lists no groups at all".to_owned())
        }
        Ok(_) => Stores::NoKind,
        Err(error) => Stores::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(name: &str, version: u32, rest: &Value) -> DynamicObject {
        let mut store = json!({
            "apiVersion": "kamaji.clastix.io/v1alpha1", "kind": "DataStore",
            "metadata": { "name": name, "uid": name, "resourceVersion": version.to_string(), "labels": rest["labels"] },
        });
        store["spec"] = rest["spec"].clone();
        serde_json::from_value(store).unwrap()
    }

    fn cluster() -> (EtcdCluster, ClusterRef) {
        let mut cluster = EtcdCluster::new("demo", quorate_api::EtcdClusterSpec::default());
        cluster.metadata.uid = Some("u1".to_owned());
        cluster.metadata.annotations =
            Some([(quorate_api::keys::KAMAJI_DATA_STORE.to_owned(), "asked-for".to_owned())].into());
        (cluster, ClusterRef::new("default", "demo"))
    }

    #[test]
    fn n12_the_cache_finds_what_a_list_of_all_would_find_and_keeps_nothing_of_what_is_gone() {
        let secret = |name: &str| {
            json!({ "spec": { "tlsConfig": { "clientCertificate": { "privateKey": { "secretReference":
            { "name": name, "namespace": "default" } } } } } })
        };
        let at = |endpoint: &str| json!({ "spec": { "endpoints": ["x:1", endpoint, 7] } });
        let all = [
            store("own", 1, &json!({ "labels": { quorate_api::keys::CLUSTER_UID: "u1" } })),
            store("of-another", 1, &json!({ "labels": { quorate_api::keys::CLUSTER_UID: "u2" } })),
            store("endpoint", 1, &at("demo-client.default.svc:2379")),
            store("endpoint-of-another", 1, &at("demo-client.other.svc:2379")),
            store("alike", 1, &at("demo-client.default.example.org:2379")),
            store("secret", 1, &secret("demo-root-client-tls")),
            store("authority", 1, &secret("demo-ca")),
            store("asked-for", 1, &json!({ "spec": ["\u{0}"] })),
        ];
        let (cluster, here) = cluster();
        let mut listed = Listed::default();
        for one in &all {
            listed.apply(one.clone());
        }
        let Stores::Seen { own, unlabelled, named } = listed.of(&cluster, &here) else { panic!("no list") };
        let names = |all: &[Value]| -> Vec<String> {
            all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        let of_all: Vec<Value> = all.iter().map(|one| json!(one)).collect();
        let expected =
            of_all.iter().filter(|one| !objects::is_own(&cluster, one) && objects::leads_to(&here, one));
        let mut expected: Vec<Value> = expected.cloned().collect();
        expected.sort_by_key(|one| one["metadata"]["name"].to_string());
        assert_eq!((names(&own), names(&unlabelled)), (vec!["own".to_owned()], names(&expected)));
        assert_eq!(names(&unlabelled), ["authority", "endpoint", "secret"]);
        assert_eq!(named, Some(json!(all[7])));

        listed.apply(store("own", 3, &at("elsewhere:1")));
        listed.apply(store("own", 2, &json!({ "labels": { quorate_api::keys::CLUSTER_UID: "u1" } })));
        let Stores::Seen { own, .. } = listed.of(&cluster, &here) else { panic!("no list") };
        assert_eq!(own, [] as [Value; 0], "an event that is older than the reply to a write changes nothing");
        for one in &all {
            listed.remove(one.metadata.name.as_deref().unwrap());
        }
        assert!(listed.by_name.is_empty() && listed.by_key.is_empty(), "{listed:?}");
    }
}
