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
pub struct Index<K>(Arc<RwLock<Namespaces<K>>>);

/// By namespace, then by the name of the root object: what asks for a namespace reads no other.
type Namespaces<K> = HashMap<String, HashMap<String, CachedObjects<K>>>;

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
        of(&self.read(), root).cloned().unwrap_or_default()
    }

    /// Whether any cached object belongs to this root object.
    pub fn contains(&self, root: &NamespacedName) -> bool {
        of(&self.read(), root).is_some_and(|cached| !cached.objects.is_empty())
    }

    /// Every root object that a cached object belongs to.
    pub fn roots(&self) -> Vec<NamespacedName> {
        let mut all = Vec::new();
        for (namespace, roots) in self.read().iter() {
            let live = roots.iter().filter(|(_, cached)| !cached.objects.is_empty());
            all.extend(live.map(|(name, _)| NamespacedName::new(namespace, name)));
        }
        all
    }

    /// All cached objects.
    pub fn all(&self) -> Vec<Arc<K>> {
        let index = self.read();
        index.values().flat_map(HashMap::values).flat_map(|cached| cached.objects.values().cloned()).collect()
    }

    /// The cached objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let index = self.read();
        let roots = index.get(namespace).into_iter().flat_map(HashMap::values);
        roots.flat_map(|cached| cached.objects.values().cloned()).collect()
    }

    /// Forgets the version that was seen of a root object that has no objects left. Call it when its worker has ended.
    pub fn remove_if_empty(&self, root: &NamespacedName) {
        let mut index = self.write();
        let Some(roots) = index.get_mut(&root.namespace) else { return };
        if roots.get(&root.name).is_some_and(|cached| cached.objects.is_empty()) {
            roots.remove(&root.name);
        }
        if roots.is_empty() {
            index.remove(&root.namespace);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Namespaces<K>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Namespaces<K>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> Index<K> {
    /// The object was created or changed.
    pub fn apply(&self, root: &NamespacedName, object: K) {
        entry(&mut self.write(), root).insert(object);
    }

    /// The object was deleted; this is its last state.
    pub fn delete(&self, root: &NamespacedName, object: &K) {
        let mut index = self.write();
        if let Some(cached) = index.get_mut(&root.namespace).and_then(|roots| roots.get_mut(&root.name)) {
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
        let listed = |of: &String| namespace.is_none_or(|namespace| of == namespace);
        let mut touched = HashSet::new();
        for (namespace, roots) in index.iter_mut().filter(|(namespace, _)| listed(namespace)) {
            for (name, cached) in roots {
                touched.insert(NamespacedName::new(namespace, name));
                cached.objects.clear();
            }
        }
        for (root, object) in objects {
            entry(&mut index, &root).insert(object);
            touched.insert(root);
        }
        touched
    }
}

fn of<'a, K>(index: &'a Namespaces<K>, root: &NamespacedName) -> Option<&'a CachedObjects<K>> {
    index.get(&root.namespace)?.get(&root.name)
}

fn entry<'a, K>(index: &'a mut Namespaces<K>, root: &NamespacedName) -> &'a mut CachedObjects<K> {
    index.entry(root.namespace.clone()).or_default().entry(root.name.clone()).or_default()
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
