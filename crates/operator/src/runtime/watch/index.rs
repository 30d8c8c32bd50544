//! What the API server last told of one kind of object, by cluster.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use kube::{Resource, ResourceExt};
use quorate_model::ClusterRef;

/// The objects of one kind, by cluster. Written by the watch, read by the workers.
#[derive(Debug)]
pub struct Index<K>(Arc<RwLock<HashMap<ClusterRef, CachedObjects<K>>>>);

/// The objects of one kind that belong to one cluster.
#[derive(Debug)]
pub struct CachedObjects<K> {
    /// By name.
    pub objects: BTreeMap<String, Arc<K>>,
    /// Everything that happened to these objects up to this version is in here; 0 if that can not be told.
    pub seen: u64,
}

impl<K> Index<K> {
    /// What is known of one cluster.
    pub fn shelf(&self, cluster: &ClusterRef) -> CachedObjects<K> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(cluster).cloned().unwrap_or_default()
    }

    /// Every cluster that has an object.
    pub fn clusters(&self) -> Vec<ClusterRef> {
        let shelves = self.0.read().unwrap_or_else(PoisonError::into_inner);
        shelves
            .iter()
            .filter(|(_, shelf)| !shelf.objects.is_empty())
            .map(|(cluster, _)| cluster.clone())
            .collect()
    }

    /// Nobody works on this cluster any more: if nothing is left of it, nothing is kept of it.
    pub fn tidy(&self, cluster: &ClusterRef) {
        let mut shelves = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if shelves.get(cluster).is_some_and(|shelf| shelf.objects.is_empty()) {
            shelves.remove(cluster);
        }
    }
}

impl<K: Resource> Index<K> {
    /// The object looks like this now.
    pub fn apply(&self, cluster: &ClusterRef, object: K) {
        let mut shelves = self.0.write().unwrap_or_else(PoisonError::into_inner);
        shelves.entry(cluster.clone()).or_default().put(object);
    }

    /// The object is gone; this is how it looked last.
    pub fn delete(&self, cluster: &ClusterRef, object: &K) {
        let mut shelves = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(shelf) = shelves.get_mut(cluster) {
            shelf.seen = shelf.seen.max(version(object));
            shelf.objects.remove(&object.name_any());
        }
    }

    /// These are all there are in the namespace (`None`: anywhere). Returns the clusters that anything is or was of.
    pub fn replace(&self, namespace: Option<&str>, objects: Vec<(ClusterRef, K)>) -> HashSet<ClusterRef> {
        let mut shelves = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let covered = |cluster: &ClusterRef| namespace.is_none_or(|namespace| cluster.namespace == namespace);
        let mut touched = HashSet::new();
        for (cluster, shelf) in shelves.iter_mut().filter(|(cluster, _)| covered(cluster)) {
            touched.insert(cluster.clone());
            shelf.objects.clear();
        }
        for (cluster, object) in objects {
            touched.insert(cluster.clone());
            shelves.entry(cluster).or_default().put(object);
        }
        touched
    }
}

impl<K: Resource> CachedObjects<K> {
    fn put(&mut self, object: K) {
        self.seen = self.seen.max(version(&object));
        self.objects.insert(object.name_any(), Arc::new(object));
    }
}

/// The version of an object as a number. Kubernetes promises that those of one kind are ordered.
pub(crate) fn version(object: &impl Resource) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl<K> Clone for Index<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for CachedObjects<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), seen: self.seen }
    }
}

impl<K> Default for CachedObjects<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), seen: 0 }
    }
}
