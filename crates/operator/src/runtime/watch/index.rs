//! The cache: what the watch of one kind last reported, by the root object that it belongs to.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::Resource;
use quorate_reconcile::CachedObjects;

/// A root object: its namespace and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The objects of one kind, by root object. The watch writes it, the workers read it.
#[derive(Debug)]
pub struct Index<K>(Arc<RwLock<HashMap<NamespacedName, CachedObjects<K>>>>);

impl NamespacedName {
    /// The object called `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl<K> Index<K> {
    /// The cached objects that belong to one root object.
    pub fn get(&self, root: &NamespacedName) -> CachedObjects<K> {
        self.read().get(root).cloned().unwrap_or_default()
    }

    /// Whether any cached object belongs to this root object.
    pub fn contains(&self, root: &NamespacedName) -> bool {
        self.read().get(root).is_some_and(|cached| !cached.objects.is_empty())
    }

    /// Every root object that a cached object belongs to.
    pub fn roots(&self) -> Vec<NamespacedName> {
        let index = self.read();
        index.iter().filter(|(_, cached)| !cached.objects.is_empty()).map(|(root, _)| root.clone()).collect()
    }

    /// The cached objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let index = self.read();
        let of_namespace = index.iter().filter(|(root, _)| root.namespace == namespace);
        of_namespace.flat_map(|(_, cached)| cached.objects.values().cloned()).collect()
    }

    /// Forgets the version that was seen of a root object that has no objects left. Call it when its worker has ended.
    pub fn remove_if_empty(&self, root: &NamespacedName) {
        let mut index = self.write();
        if index.get(root).is_some_and(|cached| cached.objects.is_empty()) {
            index.remove(root);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<NamespacedName, CachedObjects<K>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<NamespacedName, CachedObjects<K>>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> Index<K> {
    /// The object was created or changed.
    pub fn apply(&self, root: &NamespacedName, object: K) {
        self.write().entry(root.clone()).or_default().insert(object);
    }

    /// The object was deleted; this is its last state.
    pub fn delete(&self, root: &NamespacedName, object: &K) {
        if let Some(cached) = self.write().get_mut(root) {
            cached.remove(object);
        }
    }

    /// A complete list of the namespace (`None`: of all). Returns the root objects that had or have an object.
    pub fn replace(
        &self,
        namespace: Option<&str>,
        objects: Vec<(NamespacedName, K)>,
    ) -> HashSet<NamespacedName> {
        let mut index = self.write();
        let listed = |root: &NamespacedName| namespace.is_none_or(|namespace| root.namespace == namespace);
        let mut touched = HashSet::new();
        for (root, cached) in index.iter_mut().filter(|(root, _)| listed(root)) {
            touched.insert(root.clone());
            cached.objects.clear();
        }
        for (root, object) in objects {
            touched.insert(root.clone());
            index.entry(root).or_default().insert(object);
        }
        touched
    }
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
