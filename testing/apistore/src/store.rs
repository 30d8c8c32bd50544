//! The objects, and every change to them in order. One lock, no waiting: a call sees and leaves a whole state.

mod admission;
mod binding;
mod definitions;
mod deletion;
mod history;
mod metadata;
mod state;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::errors::ApiError;
use crate::fields::{name, namespace};
use crate::resources::{ObjectKey, ResourceInfo, ResourceKey, Resources};
pub use deletion::{DeleteOptions, Deleted, Propagation};
pub use history::{Change, ChangeKind};
pub use state::RestoreError;
pub use write::Part;

/// The store. Clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Mutex<Inner>>,
    version: Arc<watch::Sender<u64>>,
    clock: Clock,
}

/// The source of time: the system's clock, or a test's.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Inner {
    version: u64,
    objects: BTreeMap<ResourceKey, BTreeMap<(String, String), Arc<Value>>>,
    resources: Resources,
    history: history::History,
    writes: BTreeMap<String, u64>,
    /// The second byte of the addresses of Services.
    service_network: u8,
    uids: Uids,
}

/// How uids are generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uids {
    /// Randomly, as a real server does.
    #[default]
    Random,
    /// From kind, name and how often the name was used, so that two histories that lead to the same objects give the
    /// same uids.
    Counted,
}

impl Store {
    /// An empty store that serves the built-in kinds and contains the namespaces of every cluster.
    pub fn new(clock: Clock) -> Self {
        let inner = Inner {
            version: 1,
            objects: BTreeMap::new(),
            resources: Resources::builtin(),
            history: history::History::default(),
            writes: BTreeMap::new(),
            service_network: 96,
            uids: Uids::Random,
        };
        let store =
            Self { inner: Arc::new(Mutex::new(inner)), version: Arc::new(watch::Sender::new(1)), clock };
        for name in ["default", "kube-system", "kube-node-lease", "kube-public"] {
            let object = json!({"metadata": {"name": name}});
            let created = store.create(&ResourceKey::new("", "namespaces"), "", object, false);
            debug_assert!(created.is_ok());
        }
        store
    }

    /// A copy of the store with its content and history; later changes are not shared.
    #[must_use]
    pub fn fork(&self, clock: Clock) -> Self {
        let inner = self.lock().clone();
        let version = Arc::new(watch::Sender::new(inner.version));
        Self { inner: Arc::new(Mutex::new(inner)), version, clock }
    }

    /// Sets how uids are generated from now on.
    pub fn set_uids(&self, uids: Uids) {
        self.lock().uids = uids;
    }

    /// The time of the store's clock.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Value> {
        self.lock().get(key).cloned()
    }

    /// One object, without copying it.
    pub fn shared(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.lock().shared(key).cloned()
    }

    /// All objects of a kind in one namespace or in all, and the version of this state.
    pub fn list(&self, resource: &ResourceKey, namespace: Option<&str>) -> (Vec<Value>, u64) {
        let inner = self.lock();
        let objects = inner.objects.get(resource).into_iter().flatten();
        let wanted = objects.filter(|((own, _), _)| namespace.is_none_or(|wanted| wanted == own));
        (wanted.map(|(_, object)| Value::clone(object)).collect(), inner.version)
    }

    /// All objects of a kind, without copying them.
    pub fn objects(&self, resource: &ResourceKey) -> Vec<Arc<Value>> {
        let inner = self.lock();
        inner.objects.get(resource).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// All objects of a kind as they were at a version. 410 if the version is no longer kept.
    pub fn objects_at(&self, resource: &ResourceKey, version: u64) -> Result<Vec<Arc<Value>>, ApiError> {
        let inner = self.lock();
        let mut objects = inner.objects.get(resource).cloned().unwrap_or_default();
        for change in inner.history.after(resource, version)?.into_iter().rev() {
            let place = (namespace(&change.object).to_owned(), name(&change.object).to_owned());
            match change.before {
                Some(before) => drop(objects.insert(place, before)),
                None => drop(objects.remove(&place)),
            }
        }
        Ok(objects.into_values().collect())
    }

    /// Every object with its resource.
    pub fn everything(&self) -> Vec<(ResourceKey, Value)> {
        let inner = self.lock();
        let of_kind = |(resource, objects): (&ResourceKey, &BTreeMap<_, Arc<Value>>)| -> Vec<_> {
            objects.values().map(|object| (resource.clone(), Value::clone(object))).collect()
        };
        inner.objects.iter().flat_map(of_kind).collect()
    }

    /// The kinds that are served now.
    pub fn resources(&self) -> Resources {
        self.lock().resources.clone()
    }

    /// A kind, or 404.
    pub fn info(&self, resource: &ResourceKey) -> Result<Arc<ResourceInfo>, ApiError> {
        self.lock().resources.get(resource).ok_or_else(ApiError::no_such_path)
    }

    /// From now on takes the addresses of Services from 127.N.0.0/16. Two servers on one machine must not share them.
    pub fn set_service_network(&self, second: u8) {
        self.lock().service_network = second;
    }

    /// The version of the latest change.
    pub fn version(&self) -> u64 {
        self.lock().version
    }

    /// The changes of a kind after a version, and the version reached. 410 if they are no longer kept.
    pub fn changes(&self, resource: &ResourceKey, after: u64) -> Result<(Vec<Change>, u64), ApiError> {
        let inner = self.lock();
        Ok((inner.history.after(resource, after)?, inner.version))
    }

    /// Notifies at every change.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// How often each object was created and deleted: `create persistentvolumeclaims default/demo-0`.
    pub fn write_counts(&self) -> BTreeMap<String, u64> {
        self.lock().writes.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.shared(key).map(Arc::as_ref)
    }

    fn shared(&self, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(&key.resource)?.get(&(key.namespace.clone(), key.name.clone()))
    }

    /// Stores an object as the next version.
    fn put(&mut self, key: &ObjectKey, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let kept = Arc::new(object.clone());
        let place = (key.namespace.clone(), key.name.clone());
        let before = self.objects.entry(key.resource.clone()).or_default().insert(place, kept.clone());
        if before.is_none() {
            self.count("create", key);
        }
        let kind = if before.is_none() { ChangeKind::Added } else { ChangeKind::Modified };
        self.record(key, kind, kept, before);
        object
    }

    /// Removes an object as the next version. Returns its last state with that version.
    fn take(&mut self, key: &ObjectKey, mut last: Value) -> Value {
        let place = (key.namespace.clone(), key.name.clone());
        let before = self.objects.get_mut(&key.resource).and_then(|objects| objects.remove(&place));
        self.version += 1;
        self.count("delete", key);
        last["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.record(key, ChangeKind::Deleted, Arc::new(last.clone()), before);
        last
    }

    fn record(&mut self, key: &ObjectKey, kind: ChangeKind, object: Arc<Value>, before: Option<Arc<Value>>) {
        let (version, resource) = (self.version, key.resource.clone());
        self.history.push(Change { version, resource, kind, object, before });
    }

    fn count(&mut self, verb: &str, key: &ObjectKey) {
        // These come and go; no data depends on them.
        if !["events", "leases", "endpoints", "endpointslices"].contains(&key.resource.plural.as_str()) {
            *self.writes.entry(counted(verb, key)).or_default() += 1;
        }
    }
}

/// The key of a write count.
fn counted(verb: &str, key: &ObjectKey) -> String {
    format!("{verb} {} {}/{}", key.resource.plural, key.namespace, key.name)
}
