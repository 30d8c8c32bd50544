//! The Kubernetes side of one cluster as a pass sees it: the caches, overlaid with what we wrote ourselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Resource, ResourceExt as _};
use quorate_api::EtcdCluster;
use quorate_manifests::{ClusterObjects, Kind};
use quorate_model::ClusterRef;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::controllers::cluster::indexes::{Indexes, ReadCluster};
use crate::controllers::cluster::written::Written;
use crate::runtime::watch::NamespacedName;

/// What we wrote to the objects of one cluster.
#[derive(Debug, Default)]
pub struct Own {
    clusters: Written<ReadCluster>,
    pods: Written<Pod>,
    volumes: Written<PersistentVolumeClaim>,
    services: Written<Service>,
    budgets: Written<PodDisruptionBudget>,
    secrets: Written<Secret>,
}

/// The objects of one cluster, by name.
#[derive(Clone, Debug)]
pub struct View {
    /// The EtcdCluster.
    pub cluster: Option<Arc<ReadCluster>>,
    /// Pods.
    pub pods: BTreeMap<String, Arc<Pod>>,
    /// Volumes.
    pub volumes: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    /// Services.
    pub services: BTreeMap<String, Arc<Service>>,
    /// Budgets.
    pub budgets: BTreeMap<String, Arc<PodDisruptionBudget>>,
    /// Secrets.
    pub secrets: BTreeMap<String, Arc<Secret>>,
}

/// Which version of which object: two views with the same versions are the same.
pub type Versions = BTreeMap<(Kind, String), Option<String>>;

impl Own {
    /// What is there now, as far as the caches and our own writes tell.
    pub fn view(&mut self, indexes: &Indexes, cluster: &ClusterRef) -> View {
        let root = &NamespacedName::from(cluster);
        View {
            cluster: self.clusters.over(indexes.clusters.get(root)).remove(&cluster.name),
            pods: self.pods.over(indexes.pods.get(root)),
            volumes: self.volumes.over(indexes.volumes.get(root)),
            services: self.services.over(indexes.services.get(root)),
            budgets: self.budgets.over(indexes.budgets.get(root)),
            secrets: self.secrets.over(indexes.secrets.get(root)),
        }
    }

    /// The API server replied with this object.
    pub fn stands(&mut self, kind: Kind, object: Value) {
        if let Err(error) = self.parse(kind, object) {
            tracing::warn!(kind = kind.as_str(), %error, "the API server replied with something else");
        }
    }

    fn parse(&mut self, kind: Kind, object: Value) -> Result<(), serde_json::Error> {
        fn note<K: Resource + DeserializeOwned>(
            to: &mut Written<K>,
            object: Value,
        ) -> Result<(), serde_json::Error> {
            let mut object: K = serde_json::from_value(object)?;
            object.meta_mut().managed_fields = None;
            to.stands(object);
            Ok(())
        }
        match kind {
            Kind::Cluster => note(&mut self.clusters, object),
            Kind::Pod => note(&mut self.pods, object),
            Kind::Volume => note(&mut self.volumes, object),
            Kind::Service => note(&mut self.services, object),
            Kind::Budget => note(&mut self.budgets, object),
            Kind::Secret => note(&mut self.secrets, object),
        }
    }

    /// Objects that we wrote and of which the watches should have told long ago.
    pub fn unconfirmed(&self) -> Vec<(Kind, String)> {
        fn all<'a>(kind: Kind, names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (Kind, String)> {
            names.map(move |name| (kind, name.to_owned()))
        }
        let Self { clusters, pods, volumes, services, budgets, secrets } = self;
        all(Kind::Cluster, clusters.unconfirmed())
            .chain(all(Kind::Pod, pods.unconfirmed()))
            .chain(all(Kind::Volume, volumes.unconfirmed()))
            .chain(all(Kind::Service, services.unconfirmed()))
            .chain(all(Kind::Budget, budgets.unconfirmed()))
            .chain(all(Kind::Secret, secrets.unconfirmed()))
            .collect()
    }

    /// An object that was read is not there.
    pub fn missing(&mut self, kind: Kind, name: &str) {
        match kind {
            Kind::Cluster => self.clusters.missing(name),
            Kind::Pod => self.pods.missing(name),
            Kind::Volume => self.volumes.missing(name),
            Kind::Service => self.services.missing(name),
            Kind::Budget => self.budgets.missing(name),
            Kind::Secret => self.secrets.missing(name),
        }
    }

    /// Adds the versions that we wrote and nobody told us yet.
    pub fn add_to(&self, versions: &mut Versions) {
        let Self { clusters, pods, volumes, services, budgets, secrets } = self;
        clusters.add_to(Kind::Cluster, versions);
        pods.add_to(Kind::Pod, versions);
        volumes.add_to(Kind::Volume, versions);
        services.add_to(Kind::Service, versions);
        budgets.add_to(Kind::Budget, versions);
        secrets.add_to(Kind::Secret, versions);
    }

    /// The API server replied that this object is gone.
    pub fn gone(&mut self, kind: Kind, name: &str, uid: &str) {
        match kind {
            Kind::Cluster => self.clusters.gone(name, uid),
            Kind::Pod => self.pods.gone(name, uid),
            Kind::Volume => self.volumes.gone(name, uid),
            Kind::Service => self.services.gone(name, uid),
            Kind::Budget => self.budgets.gone(name, uid),
            Kind::Secret => self.secrets.gone(name, uid),
        }
    }
}

impl View {
    /// As the translation takes it, with the names that were found taken.
    pub fn seen<'a>(&'a self, cluster: &'a EtcdCluster, conflicts: Vec<String>) -> ClusterObjects<'a> {
        fn all<K>(objects: &BTreeMap<String, Arc<K>>) -> Vec<&K> {
            objects.values().map(AsRef::as_ref).collect()
        }
        ClusterObjects {
            cluster,
            pods: all(&self.pods),
            volumes: all(&self.volumes),
            services: all(&self.services),
            budgets: all(&self.budgets),
            secrets: all(&self.secrets),
            conflicts,
        }
    }

    /// The versions of everything in it.
    pub fn versions(&self) -> Versions {
        fn of<K: Resource>(kind: Kind, objects: &BTreeMap<String, Arc<K>>, into: &mut Versions) {
            for (name, object) in objects {
                into.insert((kind, name.clone()), object.meta().resource_version.clone());
            }
        }
        let mut versions = Versions::new();
        let Self { cluster, pods, volumes, services, budgets, secrets } = self;
        if let Some(cluster) = cluster {
            versions.insert((Kind::Cluster, cluster.name_any()), cluster.meta().resource_version.clone());
        }
        of(Kind::Pod, pods, &mut versions);
        of(Kind::Volume, volumes, &mut versions);
        of(Kind::Service, services, &mut versions);
        of(Kind::Budget, budgets, &mut versions);
        of(Kind::Secret, secrets, &mut versions);
        versions
    }
}
