//! The eyes on Kubernetes: one watch for each kind, narrowed by label to what is ours, feeding an index by cluster and a
//! wake-up for the cluster concerned. No event is ever filtered: an event dropped by a clever comparison is a deletion
//! not seen.

mod index;

use std::fmt::Debug;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Resource, ResourceExt as _};
use quorate_api::EtcdCluster;
use quorate_api::keys;
use quorate_model::ClusterRef;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub(crate) use index::version;
pub use index::{CachedObjects, Index};

/// An EtcdCluster as it was read. One that does not parse must not end the watch of all the others.
pub type ReadCluster = DeserializeGuard<EtcdCluster>;

/// Everything that is watched.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// The clusters themselves, each on a shelf of its own.
    pub clusters: Index<ReadCluster>,
    /// Members' Pods.
    pub pods: Index<Pod>,
    /// Members' volumes.
    pub volumes: Index<PersistentVolumeClaim>,
    /// Peer and client Services.
    pub services: Index<Service>,
    /// Budgets.
    pub budgets: Index<PodDisruptionBudget>,
    /// Certificates.
    pub secrets: Index<Secret>,
}

impl Indexes {
    /// Nobody works on this cluster any more.
    pub fn tidy(&self, cluster: &ClusterRef) {
        let Self { clusters, pods, volumes, services, budgets, secrets } = self;
        clusters.tidy(cluster);
        pods.tidy(cluster);
        volumes.tidy(cluster);
        services.tidy(cluster);
        budgets.tidy(cluster);
        secrets.tidy(cluster);
    }
}

/// Told which cluster something happened to.
pub trait Wake: Clone + Send + Sync + 'static {
    /// Something happened.
    fn wake(&self, cluster: &ClusterRef);
}

/// Watches every kind in these namespaces (none: in all). Each future never ends; each token is cancelled when its first
/// list is complete.
pub fn watches<W: Wake>(
    client: &kube::Client,
    namespaces: &[String],
    indexes: &Indexes,
    wake: &W,
) -> (Vec<futures::future::BoxFuture<'static, ()>>, Vec<CancellationToken>) {
    let scopes: Vec<Option<String>> =
        if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() };
    let mut watches = Watches { client, wake, futures: Vec::new(), ready: Vec::new() };
    let labelled = watcher::Config::default().labels(keys::CLUSTER);
    for scope in scopes {
        watches.add(scope.clone(), watcher::Config::default(), &indexes.clusters, itself);
        watches.add(scope.clone(), labelled.clone(), &indexes.pods, by_label);
        watches.add(scope.clone(), labelled.clone(), &indexes.volumes, by_label);
        watches.add(scope.clone(), labelled.clone(), &indexes.services, by_label);
        watches.add(scope.clone(), labelled.clone(), &indexes.budgets, by_label);
        watches.add(scope, labelled.clone(), &indexes.secrets, by_label);
    }
    (watches.futures, watches.ready)
}

struct Watches<'a, W> {
    client: &'a kube::Client,
    wake: &'a W,
    futures: Vec<futures::future::BoxFuture<'static, ()>>,
    ready: Vec<CancellationToken>,
}

/// Which cluster an object belongs to.
type Owner = fn(&ObjectMeta) -> Option<ClusterRef>;

impl<W: Wake> Watches<'_, W> {
    fn add<K>(&mut self, scope: Option<String>, config: watcher::Config, index: &Index<K>, owner: Owner)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let api = match &scope {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let ready = CancellationToken::new();
        let watch =
            Watch { scope, index: index.clone(), owner, wake: self.wake.clone(), ready: ready.clone() };
        self.futures.push(Box::pin(watch.follow(api, config)));
        self.ready.push(ready);
    }
}

struct Watch<K, W> {
    scope: Option<String>,
    index: Index<K>,
    owner: Owner,
    wake: W,
    ready: CancellationToken,
}

impl<K, W> Watch<K, W>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    W: Wake,
{
    async fn follow(self, api: Api<K>, config: watcher::Config) {
        let mut events = Box::pin(watch(api, config).default_backoff().modify(slim));
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(cluster) = (self.owner)(object.meta()) {
                        listed.push((cluster, object));
                    }
                }
                Ok(Event::InitDone) => {
                    let touched = self.index.replace(self.scope.as_deref(), std::mem::take(&mut listed));
                    self.ready.cancel();
                    for cluster in &touched {
                        self.wake.wake(cluster);
                    }
                }
                Ok(Event::Apply(object)) => self.told(object, Index::apply),
                Ok(Event::Delete(object)) => {
                    self.told(object, |index, cluster, object| index.delete(cluster, &object));
                }
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), error = %chain(&error), "watch failed; it goes on");
                }
            }
        }
    }

    fn told(&self, object: K, how: impl FnOnce(&Index<K>, &ClusterRef, K)) {
        if let Some(cluster) = (self.owner)(object.meta()) {
            how(&self.index, &cluster, object);
            self.wake.wake(&cluster);
        }
    }
}

/// Half of an object's metadata is who set which field; nothing here reads it.
fn slim(object: &mut impl Resource) {
    object.managed_fields_mut().clear();
}

fn itself(meta: &ObjectMeta) -> Option<ClusterRef> {
    Some(ClusterRef::new(meta.namespace.as_ref()?, meta.name.as_ref()?))
}

fn by_label(meta: &ObjectMeta) -> Option<ClusterRef> {
    Some(ClusterRef::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(keys::CLUSTER)?))
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
