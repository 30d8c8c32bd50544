//! The controller of EtcdClusters. Each pass: observe -> validate -> plan -> report -> execute.

mod auth;
mod backup;
mod execute;
mod indexes;
mod metrics;
mod node_says;
mod observe;
mod pass;
mod publish;
mod report;
mod site;
mod stores;
mod waves;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Secret};
use prometheus_client::registry::Registry;
use quorate_etcd::Transport;
use quorate_manifests::Defaults;
use quorate_model::ClusterRef;
use quorate_planner::fleet::Limit;
use quorate_reconcile::ReadCluster;

use crate::controllers::Kinds;
use crate::controllers::backup::ReadBackup;
use crate::controllers::members::KeptConnections;
use crate::controllers::said::Said;
use crate::runtime::controller::{Controller, Runtime};
use crate::runtime::watch::{Index, NamespacedName, Watches};
use indexes::Indexes;
pub(super) use indexes::source;
use metrics::ClusterMetrics;
use pass::Worker;
use site::Sites;
use stores::{DataStores, Source};
use waves::{Stopped, Waves};

/// The controller of EtcdClusters.
pub(crate) struct ClusterController(Shared);

/// What the workers of all clusters share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// What they share with all controllers.
    pub(crate) runtime: Runtime,
    /// The caches.
    pub(crate) indexes: Indexes,
    /// What specs may leave out.
    pub(crate) defaults: Arc<Defaults>,
    /// What connections to members run over.
    pub(crate) transport: Transport,
    /// Which of those stay open while nothing is to be done.
    pub(crate) kept: KeptConnections,
    /// What is counted of clusters.
    pub(crate) metrics: ClusterMetrics,
    /// Which clusters take new defaults now.
    pub(crate) waves: Arc<Waves>,
    /// What was read lately about nodes and volumes.
    pub(crate) sites: Arc<Sites>,
    /// What was said lately about Pods and Jobs.
    said: Arc<Said>,
    /// The DataStores of Kamaji.
    stores: DataStores,
    /// The caches of this kind and of the others.
    pub(super) kinds: Kinds,
}

impl ClusterController {
    /// The controller, its metrics registered.
    pub(crate) fn new(
        runtime: &Runtime,
        registry: &mut Registry,
        defaults: Defaults,
        (transport, kept): (Transport, KeptConnections),
        max_rolling: Limit,
        kinds: Kinds,
    ) -> Self {
        let clusters = kinds.clusters.clone();
        let indexes = Indexes { clusters: clusters.clone(), ..Indexes::default() };
        let defaults = Arc::new(defaults);
        let stopped = Stopped { clusters, defaults: defaults.clone(), clock: runtime.api_clock.clone() };
        registry.register_collector(Box::new(stopped));
        Self(Shared {
            runtime: runtime.clone(),
            indexes,
            defaults,
            transport,
            kept,
            metrics: ClusterMetrics::new(registry),
            waves: Arc::new(Waves::new(max_rolling)),
            sites: Arc::default(),
            said: Arc::default(),
            stores: DataStores::default(),
            kinds,
        })
    }
}

impl ClusterController {
    /// The cache of members' Pods, by their EtcdCluster.
    pub(super) fn pods(&self) -> &Index<Pod> {
        &self.0.indexes.pods
    }

    /// The cache of EtcdBackups, by the EtcdCluster that they are taken of.
    pub(super) fn backups(&self) -> &Index<ReadBackup> {
        &self.0.indexes.backups
    }

    /// The cache of the Secrets of EtcdClusters.
    pub(super) fn secrets(&self) -> &Index<Secret> {
        &self.0.indexes.secrets
    }
}

impl Controller for ClusterController {
    type Root = ReadCluster;
    type Worker = Worker;
    const NAME: &'static str = "cluster";

    fn roots(&self) -> &Index<ReadCluster> {
        &self.0.indexes.clusters
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        self.0.indexes.watch(watches, &self.0.kinds);
        let (client, clusters) = (self.0.runtime.client.clone(), self.0.indexes.clusters.clone());
        let stores = self.0.stores.clone();
        watches.beside(move |wake| stores.follow(Source { client, clusters, wake }));
    }

    fn worker(&self, root: &NamespacedName) -> Worker {
        Worker::new(self.0.clone(), ClusterRef::new(&root.namespace, &root.name))
    }

    fn forget(&self, root: &NamespacedName) {
        self.0.metrics.forget(&ClusterRef::new(&root.namespace, &root.name));
        self.0.indexes.remove_if_empty(root);
    }
}

/// A registry of the metrics of clusters with a series of each.
#[cfg(test)]
pub(super) fn example_metrics(registry: &mut Registry) {
    use crate::runtime::api_clock::ApiClock;
    use crate::runtime::clock::Clock;

    metrics::example(registry);
    let clock = ApiClock::new(Clock::system());
    registry.register_collector(Box::new(Stopped {
        clusters: Index::default(),
        defaults: Arc::default(),
        clock,
    }));
}

impl From<&ClusterRef> for NamespacedName {
    fn from(cluster: &ClusterRef) -> Self {
        Self::new(&cluster.namespace, &cluster.name)
    }
}
