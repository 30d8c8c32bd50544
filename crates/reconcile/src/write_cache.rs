//! The operator's own writes that the watch has not confirmed yet. A pass observes the watch's cache overlaid with them. So
//! the next pass can begin at once, and never acts on a state older than the operator's last write.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{Resource, ResourceExt as _};
use quorate_manifests::Kind;
use quorate_model::{Instant, Span};

use crate::objects::{Object, OfCluster, Versions};

/// How long an own write counts without confirmation by the watch. After that the watch is down, or the reply was wrong, and
/// the object is read. It is not just forgotten: a pass would then act on a state older than the write.
pub const UNCONFIRMED_AFTER: Span = Span::seconds(10);

/// The objects of one kind of one cluster, in the cache of a watch.
#[derive(Debug)]
pub struct CachedObjects<K> {
    /// By name.
    pub objects: BTreeMap<String, Arc<K>>,
    /// Every change of these objects up to this version is contained; 0 if that is not known.
    pub seen: u64,
}

/// The operator's own writes to the objects of one cluster.
#[derive(Clone, Debug, Default)]
pub struct WriteCache(BTreeMap<(Kind, String), Entry>);

#[derive(Clone, Debug)]
struct Entry {
    written: Written,
    since: Instant,
}

#[derive(Clone, Debug)]
enum Written {
    Exists(Object),
    Gone { uid: String },
}

/// The version of an object as a number. Kubernetes guarantees that those of one kind are ordered.
pub fn version(object: &impl Resource) -> u64 {
    number(object.meta())
}

fn number(meta: &ObjectMeta) -> u64 {
    meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

impl<K: Resource> CachedObjects<K> {
    /// The object was created or changed. Returns it as it was before.
    pub fn insert(&mut self, object: impl Into<Arc<K>>) -> Option<Arc<K>> {
        let object = object.into();
        self.seen = self.seen.max(version(&*object));
        self.objects.insert(object.name_any(), object)
    }

    /// The object was deleted; this is its last state. Returns it as it was before.
    pub fn remove(&mut self, object: &K) -> Option<Arc<K>> {
        self.seen = self.seen.max(version(object));
        self.objects.remove(&object.name_any())
    }
}

impl WriteCache {
    /// The API server replied with this object.
    pub fn exists(&mut self, object: Object, now: Instant) {
        let name = object.meta().name.clone().unwrap_or_default();
        self.0.insert((object.kind(), name), Entry { written: Written::Exists(object), since: now });
    }

    /// The API server replied that the object with this uid is gone.
    pub fn gone(&mut self, kind: Kind, name: &str, uid: &str, now: Instant) {
        let written = Written::Gone { uid: uid.to_owned() };
        self.0.insert((kind, name.to_owned()), Entry { written, since: now });
    }

    /// An unconfirmed object was read and does not exist.
    pub fn missing(&mut self, kind: Kind, name: &str, now: Instant) {
        if let Some(entry) = self.0.get(&(kind, name.to_owned())) {
            let uid = match &entry.written {
                Written::Exists(object) => object.uid().to_owned(),
                Written::Gone { uid } => uid.clone(),
            };
            self.gone(kind, name, &uid, now);
        }
    }

    /// The objects that the watch has not confirmed in time, and which must be read.
    pub fn unconfirmed(&self, now: Instant) -> impl Iterator<Item = (Kind, &str)> {
        let late = self.0.iter().filter(move |(_, entry)| entry.is_late(now));
        late.map(|((kind, name), _)| (*kind, name.as_str()))
    }

    /// The watch's cache, overlaid with the own writes. Writes that the cache contains are forgotten.
    pub fn overlay<K: OfCluster>(&mut self, mut cached: CachedObjects<K>) -> BTreeMap<String, Arc<K>> {
        self.0.retain(|(kind, name), entry| *kind != K::KIND || entry.is_news(name, &cached));
        for ((_, name), entry) in self.0.iter().filter(|((kind, _), _)| *kind == K::KIND) {
            match &entry.written {
                Written::Exists(object) => {
                    cached.objects.extend(K::of(object).map(|object| (name.clone(), object.clone())));
                }
                Written::Gone { .. } => drop(cached.objects.remove(name)),
            }
        }
        cached.objects
    }

    /// Adds the versions of unconfirmed writes.
    pub fn add_to(&self, versions: &mut Versions) {
        for (key, entry) in &self.0 {
            match &entry.written {
                Written::Exists(object) => {
                    versions.insert(key.clone(), object.meta().resource_version.clone());
                }
                Written::Gone { .. } => drop(versions.remove(key)),
            }
        }
    }
}

impl Entry {
    fn is_news<K: Resource>(&self, name: &str, cached: &CachedObjects<K>) -> bool {
        match &self.written {
            // The cache contains every event up to here, also a deletion of this object.
            Written::Exists(object) => cached.seen < number(object.meta()),
            Written::Gone { uid } => {
                cached.objects.get(name).is_some_and(|cached| cached.meta().uid.as_ref() == Some(uid))
            }
        }
    }

    fn is_late(&self, now: Instant) -> bool {
        // This includes deletions: a proxy that does not know the path replies 404 for an object that exists. A clock that
        // was set back counts as late.
        now < self.since || now - self.since >= UNCONFIRMED_AFTER
    }
}

impl<K> Default for CachedObjects<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), seen: 0 }
    }
}

impl<K> Clone for CachedObjects<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), seen: self.seen }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(name: &str, uid: &str, version: u64) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    #[derive(Default)]
    struct World {
        cached: CachedObjects<Pod>,
        written: WriteCache,
        now: Instant,
    }

    impl World {
        fn writes(&mut self, pod: Pod) {
            self.written.exists(Object::Pod(Arc::new(pod)), self.now);
        }

        fn unconfirmed(&self) -> Vec<&str> {
            self.written.unconfirmed(self.now).map(|(_, name)| name).collect()
        }

        fn observes(&mut self) -> Vec<(String, u64)> {
            let observed = self.written.overlay(self.cached.clone());
            observed.into_values().map(|pod| (pod.uid().unwrap(), version(pod.as_ref()))).collect()
        }
    }

    #[test]
    fn an_own_write_is_observed_until_the_watch_confirms_it() {
        let mut world = World::default();
        world.cached.insert(pod("demo-0", "a", 5));
        world.writes(pod("demo-0", "a", 7));
        assert_eq!(world.observes(), [("a".to_owned(), 7)]);
        world.cached.insert(pod("demo-0", "a", 6));
        assert_eq!(world.observes(), [("a".to_owned(), 7)], "an event from before the write");
        world.cached.insert(pod("demo-0", "a", 9));
        assert_eq!(world.observes(), [("a".to_owned(), 9)]);
    }

    #[test]
    fn a_deleted_object_is_not_observed_and_a_new_one_of_the_same_name_is() {
        let mut world = World::default();
        world.cached.insert(pod("demo-0", "a", 5));
        world.written.gone(Kind::Pod, "demo-0", "a", world.now);
        assert_eq!(world.observes(), []);
        world.cached.insert(pod("demo-0", "a", 6));
        assert_eq!(world.observes(), [], "a late event of the deleted one");
        world.cached.insert(pod("demo-0", "b", 8));
        assert_eq!(world.observes(), [("b".to_owned(), 8)]);
    }

    #[test]
    fn an_object_that_was_deleted_right_after_its_creation_is_not_observed() {
        let mut world = World::default();
        world.cached.insert(pod("demo-1", "x", 3));
        world.writes(pod("demo-0", "a", 7));
        // It was created and deleted between two passes. The event of the deletion has its own version.
        world.cached.insert(pod("demo-0", "a", 7));
        world.cached.remove(&pod("demo-0", "a", 8));
        assert_eq!(world.observes(), [("x".to_owned(), 3)]);
    }

    #[test]
    fn h46_a_deletion_that_the_watch_never_reports_is_read_too() {
        let mut world = World::default();
        world.cached.insert(pod("demo-0", "a", 5));
        world.written.gone(Kind::Pod, "demo-0", "a", world.now);
        assert_eq!(world.unconfirmed().len(), 0);
        world.now = world.now + UNCONFIRMED_AFTER;
        assert_eq!(world.observes(), [], "it still counts");
        assert_eq!(world.unconfirmed(), ["demo-0"]);
        world.written.missing(Kind::Pod, "demo-0", world.now);
        assert_eq!(
            (world.observes(), world.unconfirmed().len()),
            (vec![], 0),
            "it is not read in every pass"
        );
        world.writes(pod("demo-0", "a", 5));
        assert_eq!(world.observes(), [("a".to_owned(), 5)], "it exists after all");
    }

    #[test]
    fn an_own_write_that_the_watch_never_confirms_is_read_and_not_forgotten() {
        let mut world = World { now: Instant(1_000_000), ..World::default() };
        world.writes(pod("demo-0", "a", 7));
        assert_eq!(world.unconfirmed().len(), 0);
        world.now = Instant(0);
        assert_eq!(world.unconfirmed(), ["demo-0"], "a clock that was set back hides nothing");
        world.now = Instant(1_000_000) + UNCONFIRMED_AFTER;
        assert_eq!(world.unconfirmed(), ["demo-0"]);
        assert_eq!(world.observes(), [("a".to_owned(), 7)]);
        world.written.missing(Kind::Pod, "demo-0", world.now);
        assert_eq!(world.observes(), []);
    }
}
