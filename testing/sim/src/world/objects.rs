//! Kubernetes objects as the operator's watches have them: parsed once per version, and one kind possibly as it was earlier.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube_core::DeserializeGuard;
use quorate_api::{EtcdBackup, EtcdCluster, EtcdRestore, keys};
use quorate_apistore::fields::{items, label, name, namespace, text};
use quorate_apistore::{ApiError, ObjectKey, ResourceKey, Store};
use quorate_manifests::Kind;
use quorate_manifests::cert_manager::{self, Certificate};
use quorate_model::ClusterRef;
use quorate_reconcile::{CachedObjects, Caches, Object, ReadCluster};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The kinds that the operator watches, but for NetworkPolicies: no network is modelled that has any.
pub const KINDS: [Kind; 6] =
    [Kind::Cluster, Kind::Pod, Kind::Volume, Kind::Service, Kind::Budget, Kind::Secret];

/// The objects that were parsed, by name, with their version.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    clusters: Cache<ReadCluster>,
    pods: Cache<Pod>,
    volumes: Cache<PersistentVolumeClaim>,
    services: Cache<Service>,
    budgets: Cache<PodDisruptionBudget>,
    secrets: Cache<Secret>,
    network_policies: Cache<NetworkPolicy>,
    certificates: Cache<Certificate>,
    backups: Cache<EtcdBackup>,
}

type Cache<K> = BTreeMap<String, (String, Arc<K>)>;

/// The API resource of a kind.
pub fn resource(kind: Kind) -> ResourceKey {
    let (group, plural) = match kind {
        Kind::Cluster => (keys::GROUP, "etcdclusters"),
        Kind::Pod => ("", "pods"),
        Kind::Volume => ("", "persistentvolumeclaims"),
        Kind::Service => ("", "services"),
        Kind::Budget => ("policy", "poddisruptionbudgets"),
        Kind::Secret => ("", "secrets"),
        Kind::NetworkPolicy => ("networking.k8s.io", "networkpolicies"),
        Kind::Certificate => (cert_manager::GROUP, "certificates"),
        Kind::Backup => (keys::GROUP, "etcdbackups"),
    };
    ResourceKey::new(group, plural)
}

/// One object of the cluster's namespace.
pub fn key(kind: Kind, at: &ClusterRef, name: &str) -> ObjectKey {
    ObjectKey::new(resource(kind), at.namespace.clone(), name)
}

/// Whether a Job owns it.
pub fn is_of_job(object: &Value) -> bool {
    items(object, "/metadata/ownerReferences").iter().any(|owner| text(owner, "/kind") == "Job")
}

impl Parsed {
    /// The objects of a cluster in the operator's watches, one kind of them as of an earlier version if `stale` names it.
    pub fn caches(
        &mut self,
        store: &Store,
        at: &ClusterRef,
        stale: Option<(Kind, u64)>,
    ) -> Result<Caches, ApiError> {
        let watched = |kind| watched(store, at, kind, stale);
        Ok(Caches {
            clusters: cached(&mut self.clusters, watched(Kind::Cluster)?, parse_cluster),
            pods: cached(&mut self.pods, watched(Kind::Pod)?, parse),
            volumes: cached(&mut self.volumes, watched(Kind::Volume)?, parse),
            services: cached(&mut self.services, watched(Kind::Service)?, parse),
            budgets: cached(&mut self.budgets, watched(Kind::Budget)?, parse),
            secrets: cached(&mut self.secrets, watched(Kind::Secret)?, parse),
            network_policies: cached(&mut self.network_policies, watched(Kind::NetworkPolicy)?, parse),
            restores: restores(store, at),
        })
    }

    /// An object that the API server replies with.
    pub fn object(&mut self, kind: Kind, object: &Value) -> Object {
        match kind {
            Kind::Cluster => Object::Cluster(parsed(&mut self.clusters, object, parse_cluster)),
            Kind::Pod => Object::Pod(parsed(&mut self.pods, object, parse)),
            Kind::Volume => Object::Volume(parsed(&mut self.volumes, object, parse)),
            Kind::Service => Object::Service(parsed(&mut self.services, object, parse)),
            Kind::Budget => Object::Budget(parsed(&mut self.budgets, object, parse)),
            Kind::Secret => Object::Secret(parsed(&mut self.secrets, object, parse)),
            Kind::NetworkPolicy => Object::NetworkPolicy(parsed(&mut self.network_policies, object, parse)),
            Kind::Certificate => Object::Certificate(parsed(&mut self.certificates, object, parse)),
            Kind::Backup => Object::Backup(parsed(&mut self.backups, object, parse)),
        }
    }
}

/// The orders to restore the cluster in place.
fn restores(store: &Store, at: &ClusterRef) -> BTreeMap<String, Arc<EtcdRestore>> {
    let all = store.objects(&ResourceKey::new(keys::GROUP, "etcdrestores"));
    let own = all.iter().filter(|object| text(object, "/spec/clusterName") == at.name);
    own.map(|object| (name(object).to_owned(), Arc::new(parse(object)))).collect()
}

/// Objects of one kind that have the cluster's label, or are the cluster itself, and the version up to which they are known.
fn watched(
    store: &Store,
    at: &ClusterRef,
    kind: Kind,
    stale: Option<(Kind, u64)>,
) -> Result<(Vec<Arc<Value>>, u64), ApiError> {
    let earlier = stale.filter(|(stale, _)| *stale == kind).map(|(_, version)| version);
    let mut all = match earlier {
        Some(version) => store.objects_at(&resource(kind), version)?,
        None => store.objects(&resource(kind)),
    };
    all.retain(|object| {
        let own = match kind {
            Kind::Cluster => name(object) == at.name,
            Kind::Pod
            | Kind::Volume
            | Kind::Service
            | Kind::Budget
            | Kind::Secret
            | Kind::NetworkPolicy
            | Kind::Certificate
            | Kind::Backup => label(object, keys::CLUSTER) == Some(&at.name),
        };
        own && namespace(object) == at.namespace
    });
    Ok((all, earlier.unwrap_or_else(|| store.version())))
}

fn cached<K>(
    cache: &mut Cache<K>,
    (objects, seen): (Vec<Arc<Value>>, u64),
    parse: fn(&Value) -> K,
) -> CachedObjects<K> {
    let named = objects.iter().map(|object| (name(object).to_owned(), parsed(cache, object, parse)));
    CachedObjects { objects: named.collect(), seen }
}

fn parsed<K>(cache: &mut Cache<K>, object: &Value, parse: fn(&Value) -> K) -> Arc<K> {
    let version = text(object, "/metadata/resourceVersion");
    if let Some((_, known)) = cache.get(name(object)).filter(|(known, _)| known == version) {
        return known.clone();
    }
    let one = Arc::new(parse(object));
    cache.insert(name(object).to_owned(), (version.to_owned(), Arc::clone(&one)));
    one
}

fn parse<K: DeserializeOwned>(object: &Value) -> K {
    K::deserialize(object).expect("the store holds what the API server let through")
}

/// Parses a cluster directly: the store has only valid ones.
fn parse_cluster(object: &Value) -> ReadCluster {
    DeserializeGuard(Ok(parse::<EtcdCluster>(object)))
}
