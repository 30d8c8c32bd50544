//! The caches of one controller: EtcdClusters and everything that carries their label.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::runtime::watcher::Config;
use quorate_api::{EtcdBackup, EtcdRestore, keys};
use quorate_model::ClusterRef;
use quorate_reconcile::{CachedObjects, Caches, ReadCluster};

use crate::controllers::Kinds;
use crate::controllers::backup::ReadBackup;
use crate::controllers::restore::ReadRestore;
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};

/// Below this name are the EtcdBackups of a namespace that name no EtcdCluster.
pub(super) const OF_ENDPOINTS: &str = "";

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
    /// EtcdBackups, by the EtcdCluster that they are taken of.
    pub backups: Index<ReadBackup>,
}

impl Indexes {
    /// Watches every kind but EtcdRestores and EtcdBackups, whose own controllers watch all of them.
    pub(super) fn watch(&self, watches: &mut Watches<'_>, kinds: &Kinds) {
        let Self { clusters, pods, volumes, services, budgets, secrets, network_policies, restores, backups } =
            self;
        let labelled = Config::default().labels(keys::CLUSTER);
        watches.add(&Config::default(), clusters, itself);
        watches.add_cut(&labelled, pods, by_label, quorate_manifests::observe::cut);
        watches.add(&labelled, volumes, by_label);
        watches.add(&labelled, services, by_label);
        watches.add(&labelled, budgets, by_label);
        watches.add(&labelled, secrets, by_label);
        watches.add(&labelled, network_policies, by_label);
        watches.follow(&kinds.restores, restores, by_cluster);
        watches.follow(&kinds.backups, backups, by_source);
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
        let Self { clusters, pods, volumes, services, budgets, secrets, network_policies, restores, backups } =
            self;
        clusters.remove_if_empty(cluster);
        pods.remove_if_empty(cluster);
        volumes.remove_if_empty(cluster);
        services.remove_if_empty(cluster);
        budgets.remove_if_empty(cluster);
        secrets.remove_if_empty(cluster);
        network_policies.remove_if_empty(cluster);
        restores.remove_if_empty(cluster);
        backups.remove_if_empty(cluster);
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

fn by_source(backup: &ReadBackup) -> Option<NamespacedName> {
    Some(source(backup.meta().namespace.as_ref()?, backup.0.as_ref().ok()?))
}

/// Where the backups of the same EtcdCluster are. No EtcdCluster has the name of those that are taken of endpoints: which one they belong to
/// cannot be told by them alone.
pub(in crate::controllers) fn source(namespace: &str, backup: &EtcdBackup) -> NamespacedName {
    NamespacedName::new(namespace, backup.spec.source.cluster.as_deref().unwrap_or(OF_ENDPOINTS))
}

fn parsed(restores: CachedObjects<ReadRestore>) -> BTreeMap<String, Arc<EtcdRestore>> {
    let parsed = restores.objects.into_iter().filter_map(|(name, restore)| {
        let restore = restore.0.as_ref().ok()?.clone();
        Some((name, Arc::new(restore)))
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::watch::Wake;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self, _root: &NamespacedName) {}
    }

    fn backup(name: &str, source: &Value) -> ReadBackup {
        let backup = json!({
            "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"name": name, "namespace": "default", "resourceVersion": "1"},
            "spec": {"source": source, "destination": {"pvc": {"claimName": "backups"}}},
        });
        DeserializeGuard(Ok(serde_json::from_value(backup).unwrap()))
    }

    #[tokio::test]
    async fn n10_of_the_backups_of_a_namespace_a_cluster_reads_its_own_and_those_of_endpoints() {
        let (all, indexes) = (Index::<ReadBackup>::default(), Indexes::default());
        let client = kube::Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| async {
                Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("there is none"))
            }),
            "default",
        );
        let wake: Arc<dyn Wake> = Arc::new(Nobody);
        indexes.watch(
            &mut Watches::new(&client, &[], wake.clone()),
            &Kinds { backups: all.clone(), ..Kinds::default() },
        );
        let names = |root: &str| -> Vec<String> {
            indexes.backups.get(&NamespacedName::new("default", root)).objects.into_keys().collect()
        };
        for (name, source) in [
            ("one", json!({"cluster": "demo"})),
            ("two", json!({"cluster": "demo"})),
            ("three", json!({"cluster": "other"})),
            ("four", json!({"endpoints": {"urls": ["https://demo-client:2379"]}})),
        ] {
            all.apply(&NamespacedName::new("default", name), backup(name, &source));
        }
        assert_eq!(names("demo"), ["one", "two"]);
        assert_eq!(
            (names("other"), names(OF_ENDPOINTS)),
            (vec!["three".to_owned()], vec!["four".to_owned()])
        );
        all.delete(&NamespacedName::new("default", "one"), backup("one", &json!({"cluster": "demo"})));
        assert_eq!(names("demo"), ["two"]);
    }
}
