//! The cache: what the watch of one kind last reported, by the root object that it belongs to.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use kube::Resource;
use quorate_reconcile::CachedObjects;

use super::{OwnerOf, Wake};

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
pub struct Index<K>(Arc<Shared<K>>);

#[derive(Debug)]
struct Shared<K> {
    objects: RwLock<Namespaces<K>>,
    followers: RwLock<Vec<Follower<K>>>,
}

/// Another index of the same objects, by other root objects.
struct Follower<K> {
    index: Index<K>,
    owner: OwnerOf<K>,
    /// The workers have the indexes.
    wake: Weak<dyn Wake>,
}

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
        self.0.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Namespaces<K>> {
        self.0.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> Index<K> {
    /// Keeps another index of the same objects, by the root object that `owner` names. That one is woken by their changes.
    pub(super) fn follow(&self, index: &Self, owner: OwnerOf<K>, wake: &Arc<dyn Wake>) {
        let wake = Arc::downgrade(wake);
        let follower = Follower { index: index.clone(), owner, wake };
        let mut followers = self.0.followers.write().unwrap_or_else(PoisonError::into_inner);
        // The watch may have listed already. A change meanwhile is reported when this lock is free.
        for object in self.all() {
            follower.changed(None, &object, true);
        }
        followers.push(follower);
    }

    /// The object was created or changed.
    pub fn apply(&self, root: &NamespacedName, object: impl Into<Arc<K>>) {
        let object = object.into();
        let before = entry(&mut self.write(), root).insert(object.clone());
        for follower in self.followers().iter() {
            follower.changed(before.as_deref(), &object, true);
        }
    }

    /// The object was deleted; this is its last state.
    pub fn delete(&self, root: &NamespacedName, object: impl Into<Arc<K>>) {
        let object = object.into();
        let mut index = self.write();
        let cached = index.get_mut(&root.namespace).and_then(|roots| roots.get_mut(&root.name));
        let before = cached.and_then(|cached| cached.remove(&object));
        drop(index);
        for follower in self.followers().iter() {
            follower.changed(before.as_deref(), &object, false);
        }
    }

    /// A complete list of the namespace (`None`: of all). Returns the root objects that had or have an object.
    pub fn replace(
        &self,
        namespace: Option<&str>,
        objects: &[(NamespacedName, Arc<K>)],
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
            entry(&mut index, root).insert(object.clone());
            touched.insert(root.clone());
        }
        drop(index);
        for follower in self.followers().iter() {
            let owned =
                objects.iter().filter_map(|(_, object)| Some(((follower.owner)(object)?, object.clone())));
            for root in follower.index.replace(namespace, &owned.collect::<Vec<_>>()) {
                follower.wake(&root);
            }
        }
        touched
    }

    fn followers(&self) -> RwLockReadGuard<'_, Vec<Follower<K>>> {
        self.0.followers.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Follower<K> {
    fn wake(&self, root: &NamespacedName) {
        if let Some(wake) = self.wake.upgrade() {
            wake.wake(root);
        }
    }
}

impl<K: Resource> Follower<K> {
    /// The object was like this before, and is, or was at last, like that.
    fn changed(&self, before: Option<&K>, object: &Arc<K>, exists: bool) {
        let is_of = (self.owner)(object);
        let was_of = before.and_then(|before| (self.owner)(before));
        if let Some(root) = was_of.filter(|was_of| exists && is_of.as_ref() != Some(was_of)) {
            self.index.delete(&root, object.clone());
            self.wake(&root);
        }
        let Some(root) = is_of else { return };
        if exists {
            self.index.apply(&root, object.clone());
        } else {
            self.index.delete(&root, object.clone());
        }
        self.wake(&root);
    }
}

impl<K> fmt::Debug for Follower<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
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
        Self(Arc::new(Shared { objects: RwLock::default(), followers: RwLock::default() }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Woken(Mutex<Vec<String>>);

    impl Wake for Woken {
        fn wake(&self, root: &NamespacedName) {
            self.0.lock().unwrap().push(root.name.clone());
        }
    }

    fn labelled(name: &str, version: u32, of: Option<&str>) -> ConfigMap {
        let labels = of.map(|of| json!({ "of": of }));
        let version = version.to_string();
        let metadata =
            json!({ "name": name, "namespace": "default", "resourceVersion": version, "labels": labels });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    #[test]
    fn n10_a_second_index_has_the_same_objects_by_another_key_as_they_come_change_and_go() {
        let root = |name: &str| NamespacedName::new("default", name);
        let (by_name, by_label) = (Index::default(), Index::default());
        let woken = Arc::new(Woken::default());
        let wake: Arc<dyn Wake> = woken.clone();
        let news = || std::mem::take(&mut *woken.0.lock().unwrap());
        let of = |of: &str| by_label.get(&root(of)).objects.into_values().collect::<Vec<Arc<ConfigMap>>>();
        by_name.apply(&root("one"), labelled("one", 1, Some("a")));
        let owner = |object: &ConfigMap| {
            Some(NamespacedName::new("default", object.metadata.labels.as_ref()?.get("of")?))
        };
        by_name.follow(&by_label, Arc::new(owner), &wake);
        assert_eq!(news(), ["a"], "what was there before");
        let [both_have_it] = &of("a")[..] else { panic!("it is not there") };
        assert!(Arc::ptr_eq(both_have_it, &by_name.get(&root("one")).objects["one"]), "no copy");
        by_name.apply(&root("two"), labelled("two", 2, None));
        assert!(news().is_empty(), "it has no such owner");
        by_name.apply(&root("one"), labelled("one", 3, Some("b")));
        assert_eq!((news(), of("a").len(), of("b").len()), (vec!["a".to_owned(), "b".to_owned()], 0, 1));
        by_name.apply(&root("one"), labelled("one", 4, None));
        assert_eq!((news(), of("b").len()), (vec!["b".to_owned()], 0), "its label is gone");
        by_name.apply(&root("two"), labelled("two", 5, Some("a")));
        by_name.delete(&root("two"), labelled("two", 6, Some("a")));
        assert_eq!((of("a").len(), by_label.get(&root("a")).seen), (0, 6));
        news();
        by_name.replace(None, &[(root("new"), Arc::new(labelled("new", 7, Some("c"))))]);
        assert_eq!((of("c").len(), by_name.roots()), (1, vec![root("new")]));
        assert!(news().contains(&"c".to_owned()));
        let workers = Arc::downgrade(&woken);
        drop((wake, woken));
        by_name.apply(&root("new"), labelled("new", 8, Some("d")));
        assert!(workers.upgrade().is_none(), "the index does not keep them");
        assert_eq!(of("d").len(), 1);
    }
}
