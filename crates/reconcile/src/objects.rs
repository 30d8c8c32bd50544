//! The objects of one cluster: as the watches have them, as a pass observes them, and as the API server replies with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{DeserializeGuard, Resource};
use quorate_api::{EtcdCluster, EtcdRestore};
use quorate_manifests::cert_manager::Certificate;
use quorate_manifests::observe::{cut, trim};
use quorate_manifests::{ClusterObjects, Kind, NameConflict};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::write_cache::CachedObjects;

/// An EtcdCluster as it was read. One that does not parse must not end the watch of the others.
pub type ReadCluster = DeserializeGuard<EtcdCluster>;

/// Which version of which object: two views with the same versions are the same.
pub type Versions = BTreeMap<(Kind, String), Option<String>>;

/// An object of one of the kinds that a cluster is made of.
#[derive(Clone, Debug)]
pub enum Object {
    /// The EtcdCluster itself.
    Cluster(Arc<ReadCluster>),
    /// A Pod.
    Pod(Arc<Pod>),
    /// A volume.
    Volume(Arc<PersistentVolumeClaim>),
    /// A Service.
    Service(Arc<Service>),
    /// A budget.
    Budget(Arc<PodDisruptionBudget>),
    /// A Secret.
    Secret(Arc<Secret>),
    /// A policy of the network.
    NetworkPolicy(Arc<NetworkPolicy>),
    /// A Certificate of cert-manager.
    Certificate(Arc<Certificate>),
}

/// The objects of one cluster as the watches have them.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    /// The EtcdCluster.
    pub clusters: CachedObjects<ReadCluster>,
    /// Pods.
    pub pods: CachedObjects<Pod>,
    /// Volumes.
    pub volumes: CachedObjects<PersistentVolumeClaim>,
    /// Services.
    pub services: CachedObjects<Service>,
    /// Budgets.
    pub budgets: CachedObjects<PodDisruptionBudget>,
    /// Secrets.
    pub secrets: CachedObjects<Secret>,
    /// Policies of the network.
    pub network_policies: CachedObjects<NetworkPolicy>,
    /// The EtcdRestores that name the cluster. They are read only.
    pub restores: BTreeMap<String, Arc<EtcdRestore>>,
}

/// The objects of one cluster as a pass observes them, by name.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
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
    /// Policies of the network.
    pub network_policies: BTreeMap<String, Arc<NetworkPolicy>>,
    /// The EtcdRestores that name the cluster.
    pub restores: BTreeMap<String, Arc<EtcdRestore>>,
}

impl Object {
    /// The object that the API server replied with, cut as the watches cut it: it is kept until they have reported it.
    pub fn parse(kind: Kind, object: Value) -> Result<Self, serde_json::Error> {
        fn parsed<K: Resource + DeserializeOwned>(object: Value) -> Result<K, serde_json::Error> {
            let mut object: K = serde_json::from_value(object)?;
            trim(object.meta_mut());
            Ok(object)
        }
        fn kept<K: Resource + DeserializeOwned>(object: Value) -> Result<Arc<K>, serde_json::Error> {
            parsed(object).map(Arc::new)
        }
        match kind {
            Kind::Cluster => kept(object).map(Self::Cluster),
            Kind::Pod => parsed(object).map(|mut pod| {
                cut(&mut pod);
                Self::Pod(Arc::new(pod))
            }),
            Kind::Volume => kept(object).map(Self::Volume),
            Kind::Service => kept(object).map(Self::Service),
            Kind::Budget => kept(object).map(Self::Budget),
            Kind::Secret => kept(object).map(Self::Secret),
            Kind::NetworkPolicy => kept(object).map(Self::NetworkPolicy),
            Kind::Certificate => kept(object).map(Self::Certificate),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Cluster(_) => Kind::Cluster,
            Self::Pod(_) => Kind::Pod,
            Self::Volume(_) => Kind::Volume,
            Self::Service(_) => Kind::Service,
            Self::Budget(_) => Kind::Budget,
            Self::Secret(_) => Kind::Secret,
            Self::NetworkPolicy(_) => Kind::NetworkPolicy,
            Self::Certificate(_) => Kind::Certificate,
        }
    }

    /// Its metadata.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Cluster(object) => object.meta(),
            Self::Pod(object) => &object.metadata,
            Self::Volume(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::Budget(object) => &object.metadata,
            Self::Secret(object) => &object.metadata,
            Self::NetworkPolicy(object) => &object.metadata,
            Self::Certificate(object) => &object.metadata,
        }
    }

    /// Its uid, or nothing.
    pub fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
}

impl ClusterView {
    /// The input of the translation, with the names that are taken.
    pub fn objects<'a>(
        &'a self,
        cluster: &'a EtcdCluster,
        conflicts: Vec<NameConflict>,
    ) -> ClusterObjects<'a> {
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
            network_policies: all(&self.network_policies),
            restores: all(&self.restores),
            conflicts,
        }
    }

    /// The versions of all objects in it.
    pub fn versions(&self) -> Versions {
        fn of<K: Resource>(kind: Kind, objects: &BTreeMap<String, Arc<K>>, into: &mut Versions) {
            for (name, object) in objects {
                into.insert((kind, name.clone()), object.meta().resource_version.clone());
            }
        }
        let mut versions = Versions::new();
        let Self { cluster, pods, volumes, services, budgets, secrets, network_policies, restores } = self;
        for (name, restore) in restores {
            // No object of the cluster has a slash in its name.
            let name = format!("EtcdRestore/{name}");
            versions.insert((Kind::Cluster, name), restore.metadata.resource_version.clone());
        }
        if let Some(meta) = cluster.as_ref().map(|cluster| cluster.meta()) {
            versions.insert(
                (Kind::Cluster, meta.name.clone().unwrap_or_default()),
                meta.resource_version.clone(),
            );
        }
        of(Kind::Pod, pods, &mut versions);
        of(Kind::Volume, volumes, &mut versions);
        of(Kind::Service, services, &mut versions);
        of(Kind::Budget, budgets, &mut versions);
        of(Kind::Secret, secrets, &mut versions);
        of(Kind::NetworkPolicy, network_policies, &mut versions);
        versions
    }
}

impl PartialEq for Object {
    /// The same version of the same object.
    fn eq(&self, other: &Self) -> bool {
        let key = |object: &Self| (object.kind(), object.meta().clone());
        key(self) == key(other)
    }
}
