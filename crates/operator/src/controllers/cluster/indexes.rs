//! The caches of one controller: EtcdClusters and everything that carries their label.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::runtime::watcher::Config;
use quorate_api::{EtcdRestore, keys};
use quorate_model::ClusterRef;
use quorate_reconcile::{CachedObjects, Caches, ReadCluster};

use crate::controllers::restore::ReadRestore;
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};

/// Every kind that is watched.
#[derive(Clone, Debug, Default)]
pub struct Indexes {
    /// The EtcdClusters themselves.
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
    /// Policies of the network.
    pub network_policies: Index<NetworkPolicy>,
    /// The orders to restore in place, by the EtcdCluster that they name.
    pub restores: Index<ReadRestore>,
}

impl Indexes {
    /// Watches every kind but EtcdRestores, whose own controller watches `all_restores`.
    pub fn watch(&self, watches: &mut Watches<'_>, all_restores: &Index<ReadRestore>) {
        let Self { clusters, pods, volumes, services, budgets, secrets, network_policies, restores } = self;
        let labelled = Config::default().labels(keys::CLUSTER);
        watches.add(&Config::default(), clusters, itself);
        watches.add_cut(&labelled, pods, by_label, quorate_manifests::observe::cut);
        watches.add(&labelled, volumes, by_label);
        watches.add(&labelled, services, by_label);
        watches.add(&labelled, budgets, by_label);
        watches.add(&labelled, secrets, by_label);
        watches.add(&labelled, network_policies, by_label);
        watches.follow(all_restores, restores, by_cluster);
    }

    /// What the watches have of a cluster.
    pub fn caches(&self, cluster: &ClusterRef) -> Caches {
        let root = &NamespacedName::from(cluster);
        Caches {
            clusters: self.clusters.get(root),
            pods: self.pods.get(root),
            volumes: self.volumes.get(root),
            services: self.services.get(root),
            budgets: self.budgets.get(root),
            secrets: self.secrets.get(root),
            network_policies: self.network_policies.get(root),
            restores: parsed(self.restores.get(root)),
        }
    }

    /// Forgets a cluster of which nothing is left.
    pub fn remove_if_empty(&self, cluster: &NamespacedName) {
        let Self { clusters, pods, volumes, services, budgets, secrets, network_policies, restores } = self;
        clusters.remove_if_empty(cluster);
        pods.remove_if_empty(cluster);
        volumes.remove_if_empty(cluster);
        services.remove_if_empty(cluster);
        budgets.remove_if_empty(cluster);
        secrets.remove_if_empty(cluster);
        network_policies.remove_if_empty(cluster);
        restores.remove_if_empty(cluster);
    }
}

fn by_label(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(keys::CLUSTER)?))
}

/// The EtcdCluster that an EtcdRestore names.
fn by_cluster(restore: &ReadRestore) -> Option<NamespacedName> {
    let name = &restore.0.as_ref().ok()?.spec.cluster_name;
    Some(NamespacedName::new(restore.meta().namespace.as_ref()?, name))
}

fn parsed(restores: CachedObjects<ReadRestore>) -> BTreeMap<String, Arc<EtcdRestore>> {
    let parsed = restores.objects.into_iter().filter_map(|(name, restore)| {
        let restore = restore.0.as_ref().ok()?.clone();
        Some((name, Arc::new(restore)))
    });
    parsed.collect()
}
