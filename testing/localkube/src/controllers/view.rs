//! What the controllers read: a copy of every object of the store, in a fixed order.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_apistore::fields::{name, namespace};
use quorate_apistore::store::{ChangeKind, Store};
use quorate_apistore::{ResourceKey, Resources};
use serde_json::Value;

use crate::events::Note;

/// A kind that a controller names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The API group, empty for the core.
    pub group: &'static str,
    /// The plural, as URLs name it.
    pub plural: &'static str,
}

/// The kinds that the built-in controllers read and write.
#[expect(missing_docs, reason = "each is named as Kubernetes names it")]
pub mod kinds {
    use super::Kind;

    pub const PODS: Kind = core("pods");
    pub const NODES: Kind = core("nodes");
    pub const SERVICES: Kind = core("services");
    pub const ENDPOINTS: Kind = core("endpoints");
    pub const EVENTS: Kind = core("events");
    pub const NAMESPACES: Kind = core("namespaces");
    pub const CLAIMS: Kind = core("persistentvolumeclaims");
    pub const VOLUMES: Kind = core("persistentvolumes");
    pub const CLASSES: Kind = Kind { group: "storage.k8s.io", plural: "storageclasses" };
    pub const SLICES: Kind = Kind { group: "discovery.k8s.io", plural: "endpointslices" };
    pub const JOBS: Kind = Kind { group: "batch", plural: "jobs" };
    pub const BUDGETS: Kind = Kind { group: "policy", plural: "poddisruptionbudgets" };

    const fn core(plural: &'static str) -> Kind {
        Kind { group: "", plural }
    }
}

/// Every object at one version of the store.
#[derive(Clone, Debug)]
pub struct View {
    version: u64,
    resources: Resources,
    objects: BTreeMap<ResourceKey, Objects>,
}

/// The objects of one resource, by namespace and name. Cluster-scoped objects have the empty namespace.
type Objects = BTreeMap<String, BTreeMap<String, Value>>;

impl View {
    /// A copy of the store's objects.
    pub fn of(store: &Store) -> Self {
        let mut view = Self { version: 0, resources: store.resources(), objects: BTreeMap::new() };
        view.copy(store);
        view
    }

    /// Follows the store; returns whether anything changed that a controller reads.
    pub fn catch_up(&mut self, store: &Store) -> bool {
        // Every change up to this version is in the history, so the kinds can be read one after the other and still
        // give one consistent state.
        let version = store.version();
        self.resources = store.resources();
        let mut changed = false;
        let served: Vec<ResourceKey> = self.resources.all().map(|info| info.key()).collect();
        for resource in &served {
            let Ok((changes, _)) = store.changes(resource, self.version) else {
                self.copy(store);
                return true;
            };
            for change in changes.into_iter().filter(|change| change.version <= version) {
                // Renewals of leases and counts of events are frequent, and no controller depends on them.
                changed |= change.kind != ChangeKind::Modified
                    || !matches!(resource.plural.as_str(), "leases" | "events");
                match change.kind {
                    ChangeKind::Added | ChangeKind::Modified => {
                        self.put(resource, Arc::unwrap_or_clone(change.object));
                    }
                    ChangeKind::Deleted => self.remove(resource, &change.object),
                }
            }
        }
        // Deleting a definition deletes the objects of its kind.
        self.objects.retain(|resource, _| served.contains(resource));
        self.version = version;
        changed
    }

    /// Every object of a kind, by namespace and name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        self.objects(kind).into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values)
    }

    /// Every object of a kind in one namespace.
    pub fn of_namespace<'a>(
        &'a self,
        kind: Kind,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.objects(kind).and_then(|objects| objects.get(namespace)).into_iter().flat_map(BTreeMap::values)
    }

    /// One object; the namespace is empty for cluster-scoped kinds.
    pub fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.objects(kind)?.get(namespace)?.get(name)
    }

    /// Whether the event of a note exists.
    pub fn is_recorded(&self, note: &Note) -> bool {
        let key = note.key();
        self.get(kinds::EVENTS, &key.namespace, &key.name).is_some()
    }

    /// Every object with its resource.
    pub fn everything(&self) -> impl Iterator<Item = (&ResourceKey, &Value)> {
        self.objects.iter().flat_map(|(resource, objects)| {
            objects.values().flat_map(BTreeMap::values).map(move |object| (resource, object))
        })
    }

    /// The object that an owner reference names: in the namespace, or cluster-scoped.
    pub fn owner(
        &self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Option<(&ResourceKey, &Value)> {
        let info = self.resources.all().find(|info| info.group == group && info.kind == kind)?;
        let (resource, objects) = self.objects.get_key_value(&info.key())?;
        let place = if info.namespaced { namespace } else { "" };
        Some((resource, objects.get(place)?.get(name)?))
    }

    /// The JSON pointer to the desired replicas of a resource with a `scale` subresource.
    pub fn scale_path(&self, resource: &ResourceKey) -> Option<String> {
        Some(self.resources.get(resource)?.scale.as_ref()?.spec_replicas.clone())
    }

    fn copy(&mut self, store: &Store) {
        // Read the version before the objects: a change in between is read twice, which does no harm.
        self.version = store.version();
        self.resources = store.resources();
        self.objects.clear();
        for (resource, object) in store.everything() {
            self.put(&resource, object);
        }
    }

    fn put(&mut self, resource: &ResourceKey, object: Value) {
        let named = self
            .objects
            .entry(resource.clone())
            .or_default()
            .entry(namespace(&object).to_owned())
            .or_default();
        named.insert(name(&object).to_owned(), object);
    }

    fn remove(&mut self, resource: &ResourceKey, object: &Value) {
        let objects = self.objects.get_mut(resource);
        if let Some(named) = objects.and_then(|objects| objects.get_mut(namespace(object))) {
            named.remove(name(object));
        }
    }

    fn objects(&self, kind: Kind) -> Option<&Objects> {
        // There are few kinds: comparing each is cheaper than building a key.
        let found = self.objects.iter().find(|(key, _)| key.plural == kind.plural && key.group == kind.group);
        found.map(|(_, objects)| objects)
    }
}

impl From<Kind> for ResourceKey {
    fn from(kind: Kind) -> Self {
        Self::new(kind.group, kind.plural)
    }
}
