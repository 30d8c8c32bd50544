//! Kubernetes' objects as the operator takes them: parsed once per version, and a kind at a time as it was earlier.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use quorate_api::{EtcdCluster, keys};
use quorate_apistore::fields::{label, name, namespace, text};
use quorate_apistore::{ApiError, ObjectKey, ResourceKey, Store};
use quorate_manifests::{ClusterObjects, Kind};
use quorate_model::ClusterRef;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The kinds that the operator watches.
pub const KINDS: [Kind; 6] =
    [Kind::Cluster, Kind::Pod, Kind::Volume, Kind::Service, Kind::Budget, Kind::Secret];

/// The objects of one cluster, as a pass sees them.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The EtcdCluster.
    pub cluster: Option<Arc<EtcdCluster>>,
    pods: Vec<Arc<Pod>>,
    volumes: Vec<Arc<PersistentVolumeClaim>>,
    services: Vec<Arc<Service>>,
    budgets: Vec<Arc<PodDisruptionBudget>>,
    secrets: Vec<Arc<Secret>>,
}

/// What the operator wrote itself and its view may not show yet.
#[derive(Clone, Debug)]
pub enum Own {
    /// It looks like this.
    Stands(Arc<Value>),
    /// The object with this uid is gone.
    Gone(String),
}

/// Own writes, by kind and name.
pub type Overlay = BTreeMap<(Kind, String), Own>;

/// What was parsed, by uid and version.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    clusters: Cache<EtcdCluster>,
    pods: Cache<Pod>,
    volumes: Cache<PersistentVolumeClaim>,
    services: Cache<Service>,
    budgets: Cache<PodDisruptionBudget>,
    secrets: Cache<Secret>,
}

type Cache<K> = BTreeMap<String, (String, Arc<K>)>;

/// Where objects of a kind are kept.
pub fn resource(kind: Kind) -> ResourceKey {
    let (group, plural) = match kind {
        Kind::Cluster => (keys::GROUP, "etcdclusters"),
        Kind::Pod => ("", "pods"),
        Kind::Volume => ("", "persistentvolumeclaims"),
        Kind::Service => ("", "services"),
        Kind::Budget => ("policy", "poddisruptionbudgets"),
        Kind::Secret => ("", "secrets"),
    };
    ResourceKey::new(group, plural)
}

/// One object of the cluster's namespace.
pub fn key(kind: Kind, at: &ClusterRef, name: &str) -> ObjectKey {
    ObjectKey::new(resource(kind), at.namespace.clone(), name)
}

impl Parsed {
    /// What the operator sees of a cluster: one kind as of an earlier version, if so said, and its own writes over it.
    pub fn look(
        &mut self,
        store: &Store,
        at: &ClusterRef,
        stale: Option<(Kind, u64)>,
        own: &mut Overlay,
    ) -> Result<Objects, ApiError> {
        let mut shelf = |kind| shelf(store, at, kind, stale, own);
        let clusters = shelf(Kind::Cluster)?;
        let (pods, volumes) = (shelf(Kind::Pod)?, shelf(Kind::Volume)?);
        let (services, budgets, secrets) =
            (shelf(Kind::Service)?, shelf(Kind::Budget)?, shelf(Kind::Secret)?);
        Ok(Objects {
            cluster: parse(&mut self.clusters, &clusters).pop(),
            pods: parse(&mut self.pods, &pods),
            volumes: parse(&mut self.volumes, &volumes),
            services: parse(&mut self.services, &services),
            budgets: parse(&mut self.budgets, &budgets),
            secrets: parse(&mut self.secrets, &secrets),
        })
    }
}

impl Objects {
    /// As the translation takes them.
    pub fn seen<'a>(&'a self, cluster: &'a EtcdCluster, conflicts: Vec<String>) -> ClusterObjects<'a> {
        fn all<K>(objects: &[Arc<K>]) -> Vec<&K> {
            objects.iter().map(AsRef::as_ref).collect()
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
}

/// Objects of one kind that carry the cluster's label, or are the cluster itself.
fn shelf(
    store: &Store,
    at: &ClusterRef,
    kind: Kind,
    stale: Option<(Kind, u64)>,
    own: &mut Overlay,
) -> Result<Vec<Arc<Value>>, ApiError> {
    let earlier = stale.filter(|(stale, _)| *stale == kind).map(|(_, version)| version);
    let all = match earlier {
        Some(version) => store.objects_at(&resource(kind), version)?,
        None => store.objects(&resource(kind)),
    };
    let ours = |object: &Arc<Value>| {
        let own = match kind {
            Kind::Cluster => name(object) == at.name,
            Kind::Pod | Kind::Volume | Kind::Service | Kind::Budget | Kind::Secret => {
                label(object, keys::CLUSTER) == Some(&at.name)
            }
        };
        own && namespace(object) == at.namespace
    };
    let mut objects: BTreeMap<String, Arc<Value>> =
        all.into_iter().filter(ours).map(|object| (name(&object).to_owned(), object)).collect();
    own.retain(|(own, _), _| *own != kind || earlier.is_some());
    for ((_, name), written) in own.iter().filter(|((own, _), _)| *own == kind) {
        match written {
            Own::Stands(object) if earlier.is_some_and(|version| version < of(object)) => {
                objects.insert(name.clone(), object.clone());
            }
            Own::Gone(uid) if objects.get(name).is_some_and(|seen| text(seen, "/metadata/uid") == uid) => {
                objects.remove(name);
            }
            Own::Stands(_) | Own::Gone(_) => {}
        }
    }
    Ok(objects.into_values().collect())
}

/// The version of an object.
pub fn of(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or(0)
}

fn parse<K: DeserializeOwned>(cache: &mut Cache<K>, objects: &[Arc<Value>]) -> Vec<Arc<K>> {
    let mut parsed = Vec::with_capacity(objects.len());
    for object in objects {
        let version = text(object, "/metadata/resourceVersion");
        let known =
            cache.get(name(object)).filter(|(known, _)| known == version).map(|(_, known)| known.clone());
        let one = known.unwrap_or_else(|| {
            let one = K::deserialize(object.as_ref());
            let one = Arc::new(one.expect("the store holds what the API server let through"));
            cache.insert(name(object).to_owned(), (version.to_owned(), Arc::clone(&one)));
            one
        });
        parsed.push(one);
    }
    parsed
}
