//! What we wrote ourselves and the watch has not told us yet. A pass sees the cache overlaid with it, so that the next
//! pass may begin at once and still never acts on a world older than its own last write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::{Resource, ResourceExt};
use quorate_manifests::Kind;
use tokio::time::Instant;

use crate::controllers::cluster::observe::Versions;
use crate::runtime::watch::{CachedObjects, version};

/// How long an own write is believed without the watch having told it. Only a watch that is down is so late, or what was
/// replied was not so. The object is then read, never forgotten: without it a pass would see a world from before the write.
const BELIEVED: Duration = Duration::from_secs(10);

/// Our own writes to one kind of object of one cluster.
#[derive(Debug)]
pub struct Written<K>(BTreeMap<String, Entry<K>>);

#[derive(Debug)]
struct Entry<K> {
    what: What<K>,
    since: Instant,
}

#[derive(Debug)]
enum What<K> {
    Stands(Arc<K>),
    Gone { uid: String },
}

impl<K: Resource> Written<K> {
    /// The API server replied that the object looks like this.
    pub fn stands(&mut self, object: K) {
        self.put(object.name_any(), What::Stands(Arc::new(object)));
    }

    /// The API server replied that the object with this uid is gone.
    pub fn gone(&mut self, name: &str, uid: &str) {
        self.put(name.to_owned(), What::Gone { uid: uid.to_owned() });
    }

    /// An object that was read is not there.
    pub fn missing(&mut self, name: &str) {
        if let Some(entry) = self.0.get(name) {
            let uid = match &entry.what {
                What::Stands(object) => object.meta().uid.clone().unwrap_or_default(),
                What::Gone { uid } => uid.clone(),
            };
            self.gone(name, &uid);
        }
    }

    /// The names of objects that the watch should have told of long ago, and which must be read.
    pub fn unconfirmed(&self) -> impl Iterator<Item = &str> {
        let late = self.0.iter().filter(|(_, entry)| entry.is_late());
        late.map(|(name, _)| name.as_str())
    }

    /// The cache with our own writes laid over it. Those that the cache has caught up with are forgotten.
    pub fn over(&mut self, mut shelf: CachedObjects<K>) -> BTreeMap<String, Arc<K>> {
        self.0.retain(|name, entry| entry.is_news(name, &shelf));
        for (name, entry) in &self.0 {
            match &entry.what {
                What::Stands(object) => shelf.objects.insert(name.clone(), object.clone()),
                What::Gone { .. } => shelf.objects.remove(name),
            };
        }
        shelf.objects
    }

    /// Adds the versions that we wrote and nobody told us yet.
    pub fn add_to(&self, kind: Kind, versions: &mut Versions) {
        for (name, entry) in &self.0 {
            let key = (kind, name.clone());
            match &entry.what {
                What::Stands(object) => drop(versions.insert(key, object.meta().resource_version.clone())),
                What::Gone { .. } => drop(versions.remove(&key)),
            }
        }
    }

    fn put(&mut self, name: String, what: What<K>) {
        self.0.insert(name, Entry { what, since: Instant::now() });
    }
}

impl<K: Resource> Entry<K> {
    fn is_news(&self, name: &str, shelf: &CachedObjects<K>) -> bool {
        let cached = shelf.objects.get(name);
        match &self.what {
            // Later events of this cluster, the deletion of this very object among them, were all seen.
            What::Stands(object) => shelf.seen < version(object.as_ref()),
            What::Gone { uid } => cached.is_some_and(|cached| cached.meta().uid.as_ref() == Some(uid)),
        }
    }

    fn is_late(&self) -> bool {
        // The end of an object, too: a proxy that does not know the path says 404 of one that is there.
        self.since.elapsed() >= BELIEVED
    }
}

impl<K> Default for Written<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::runtime::watch::{Index, NamespacedName};

    fn pod(name: &str, uid: &str, version: u64) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.uid = Some(uid.to_owned());
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    struct World {
        index: Index<Pod>,
        written: Written<Pod>,
        cluster: NamespacedName,
    }

    impl World {
        fn new() -> Self {
            let cluster = NamespacedName::new("default", "demo");
            Self { index: Index::default(), written: Written::default(), cluster }
        }

        fn told(&self, pod: Pod) {
            self.index.apply(&self.cluster, pod);
        }

        fn sees(&mut self) -> Vec<(String, u64)> {
            let seen = self.written.over(self.index.get(&self.cluster));
            seen.into_values().map(|pod| (pod.uid().unwrap(), version(pod.as_ref()))).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_own_write_is_seen_before_the_watch_tells_it_and_gives_way_when_it_does() {
        let mut world = World::new();
        world.told(pod("demo-0", "a", 5));
        world.written.stands(pod("demo-0", "a", 7));
        assert_eq!(world.sees(), [("a".to_owned(), 7)]);
        world.told(pod("demo-0", "a", 6));
        assert_eq!(world.sees(), [("a".to_owned(), 7)], "an event from before the write");
        world.told(pod("demo-0", "a", 9));
        assert_eq!(world.sees(), [("a".to_owned(), 9)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_object_is_not_seen_again_but_its_successor_of_the_same_name_is() {
        let mut world = World::new();
        world.told(pod("demo-0", "a", 5));
        world.written.gone("demo-0", "a");
        assert_eq!(world.sees(), []);
        world.told(pod("demo-0", "a", 6));
        assert_eq!(world.sees(), [], "a late event of the deleted one");
        world.told(pod("demo-0", "b", 8));
        assert_eq!(world.sees(), [("b".to_owned(), 8)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_somebody_deleted_right_after_we_made_it_is_no_ghost() {
        let mut world = World::new();
        world.told(pod("demo-1", "x", 3));
        world.written.stands(pod("demo-0", "a", 7));
        // Created and deleted between two passes; the event of the deletion has a version of its own.
        world.told(pod("demo-0", "a", 7));
        world.index.delete(&world.cluster, &pod("demo-0", "a", 8));
        assert_eq!(world.sees(), [("x".to_owned(), 3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn h46_an_end_that_the_watch_never_tells_is_asked_after_too() {
        let mut world = World::new();
        world.told(pod("demo-0", "a", 5));
        world.written.gone("demo-0", "a");
        assert_eq!(world.written.unconfirmed().count(), 0);
        tokio::time::advance(BELIEVED).await;
        assert_eq!(world.sees(), [], "still believed");
        assert_eq!(world.written.unconfirmed().collect::<Vec<_>>(), ["demo-0"]);
        world.written.missing("demo-0");
        assert_eq!(
            (world.sees(), world.written.unconfirmed().count()),
            (vec![], 0),
            "it is not asked in every pass"
        );
        world.written.stands(pod("demo-0", "a", 5));
        assert_eq!(world.sees(), [("a".to_owned(), 5)], "it is there after all");
    }

    #[tokio::test(start_paused = true)]
    async fn an_own_write_that_the_watch_never_tells_is_asked_after_and_never_just_forgotten() {
        let mut world = World::new();
        world.written.stands(pod("demo-0", "a", 7));
        assert_eq!(world.written.unconfirmed().count(), 0);
        tokio::time::advance(BELIEVED).await;
        assert_eq!(world.written.unconfirmed().collect::<Vec<_>>(), ["demo-0"]);
        assert_eq!(world.sees(), [("a".to_owned(), 7)]);
        world.written.missing("demo-0");
        assert_eq!(world.sees(), []);
    }
}
