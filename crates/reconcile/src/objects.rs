//! The objects of one cluster: as the watches have them, as a pass observes them, and as the API server replies with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{DeserializeGuard, Resource};
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore};
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

/// A kind of object that a cluster is made of.
pub trait OfCluster: Resource + Sized {
    /// Which one.
    const KIND: Kind;

    /// The object, if it is of this kind.
    fn of(object: &Object) -> Option<&Arc<Self>>;
}

macro_rules! objects {
    ($($(#[$doc:meta])+ $kind:ident($of:ty),)+) => {
        /// An object of one of the kinds that a cluster is made of.
        #[derive(Clone, Debug)]
        pub enum Object {
            $($(#[$doc])+ $kind(Arc<$of>),)+
        }

        impl Object {
            /// The object that the API server replied with, cut as the watches cut it: it is kept until they have reported it.
            pub fn parse(kind: Kind, object: Value) -> Result<Self, serde_json::Error> {
                let mut object = match kind {
                    $(Kind::$kind => Self::$kind(Arc::new(trimmed(object)?)),)+
                };
                if let Self::Pod(pod) = &mut object {
                    cut(Arc::make_mut(pod));
                }
                Ok(object)
            }

            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Self::$kind(_) => Kind::$kind,)+
                }
            }

            /// Its metadata.
            pub fn meta(&self) -> &ObjectMeta {
                match self {
                    $(Self::$kind(object) => object.meta(),)+
                }
            }
        }

        $(impl OfCluster for $of {
            const KIND: Kind = Kind::$kind;

            fn of(object: &Object) -> Option<&Arc<Self>> {
                let Object::$kind(object) = object else { return None };
                Some(object)
            }
        })+
    };
}

objects! {
    /// The EtcdCluster itself.
    Cluster(ReadCluster),
    /// A Pod.
    Pod(Pod),
    /// A volume.
    Volume(PersistentVolumeClaim),
    /// A Service.
    Service(Service),
    /// A budget.
    Budget(PodDisruptionBudget),
    /// A Secret.
    Secret(Secret),
    /// A policy of the network.
    NetworkPolicy(NetworkPolicy),
    /// A Certificate of cert-manager.
    Certificate(Certificate),
    /// An EtcdBackup that the cluster begins with, or that comes before an upgrade or its end.
    Backup(EtcdBackup),
}

fn trimmed<K: Resource + DeserializeOwned>(object: Value) -> Result<K, serde_json::Error> {
    let mut object: K = serde_json::from_value(object)?;
    trim(object.meta_mut());
    Ok(object)
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
    /// Its uid, or nothing.
    pub fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
}

impl ClusterView {
    /// Takes an object as it was read.
    pub(crate) fn insert(&mut self, object: Object) {
        let name = object.meta().name.clone().unwrap_or_default();
        match object {
            Object::Cluster(cluster) => self.cluster = Some(cluster),
            Object::Pod(pod) => drop(self.pods.insert(name, pod)),
            Object::Volume(volume) => drop(self.volumes.insert(name, volume)),
            Object::Service(service) => drop(self.services.insert(name, service)),
            Object::Budget(budget) => drop(self.budgets.insert(name, budget)),
            Object::Secret(secret) => drop(self.secrets.insert(name, secret)),
            Object::NetworkPolicy(policy) => drop(self.network_policies.insert(name, policy)),
            Object::Certificate(_) | Object::Backup(_) => {}
        }
    }

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
        fn of<K: OfCluster>(objects: &BTreeMap<String, Arc<K>>, into: &mut Versions) {
            let version = |object: &Arc<K>| object.meta().resource_version.clone();
            into.extend(objects.iter().map(|(name, object)| ((K::KIND, name.clone()), version(object))));
        }
        let mut versions = Versions::new();
        let Self { cluster, pods, volumes, services, budgets, secrets, network_policies, restores } = self;
        for (name, restore) in restores {
            // No object of the cluster has a slash in its name.
            let name = format!("EtcdRestore/{name}");
            versions.insert((Kind::Cluster, name), restore.metadata.resource_version.clone());
        }
        if let Some(meta) = cluster.as_ref().map(|cluster| cluster.meta()) {
            let name = meta.name.clone().unwrap_or_default();
            versions.insert((Kind::Cluster, name), meta.resource_version.clone());
        }
        of(pods, &mut versions);
        of(volumes, &mut versions);
        of(services, &mut versions);
        of(budgets, &mut versions);
        of(secrets, &mut versions);
        of(network_policies, &mut versions);
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
