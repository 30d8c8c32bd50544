//! Watches: one for each kind and namespace. Each feeds an index and wakes the worker of the root object concerned. No
//! event is ever filtered: a filter that is too clever hides a deletion.

mod index;

use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Resource};
use quorate_manifests::observe::trim;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub use index::{Index, NamespacedName};

/// How many objects a list has at a time: a page is in memory as a whole, before anything is taken off its objects.
const PAGE: u32 = 100;

/// A kind that can be watched.
pub trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// Maps an object to the root object that it belongs to, by its metadata.
pub type Owner = fn(&ObjectMeta) -> Option<NamespacedName>;

/// Maps an object to the root object that it belongs to.
type OwnerOf<K> = Arc<dyn Fn(&K) -> Option<NamespacedName> + Send + Sync>;

/// Wakes the worker of a root object.
pub trait Wake: Send + Sync + 'static {
    /// An object that belongs to `root` has changed.
    fn wake(&self, root: &NamespacedName);
}

/// The watches of one controller.
pub struct Watches<'a> {
    client: &'a kube::Client,
    /// In all namespaces if empty.
    namespaces: &'a [String],
    wake: Arc<dyn Wake>,
    futures: Vec<BoxFuture<'static, ()>>,
    listed: Vec<CancellationToken>,
}

impl<'a> Watches<'a> {
    /// No watches yet.
    pub fn new(client: &'a kube::Client, namespaces: &'a [String], wake: Arc<dyn Wake>) -> Self {
        Self { client, namespaces, wake, futures: Vec::new(), listed: Vec::new() }
    }

    /// Adds the watch of one kind.
    pub fn add<K: Watched>(&mut self, config: &watcher::Config, index: &Index<K>, owner: Owner) {
        self.add_by(config, index, move |object: &K| owner(object.meta()));
    }

    /// Adds the watch of one kind, of whose objects `cut` takes off what nobody reads before they are kept.
    pub fn add_cut<K: Watched>(
        &mut self,
        config: &watcher::Config,
        index: &Index<K>,
        owner: Owner,
        cut: fn(&mut K),
    ) {
        self.add_with(config, index, move |object: &K| owner(object.meta()), cut);
    }

    /// Adds the watch of one kind whose objects name their root object in their spec.
    pub fn add_by<K: Watched>(
        &mut self,
        config: &watcher::Config,
        index: &Index<K>,
        owner: impl Fn(&K) -> Option<NamespacedName> + Send + Sync + 'static,
    ) {
        self.add_with(config, index, owner, |_| {});
    }

    /// Adds another index of the objects of a watch that this or another controller adds. Their changes wake the workers of this one.
    pub fn follow<K: Watched>(
        &self,
        watched: &Index<K>,
        index: &Index<K>,
        owner: impl Fn(&K) -> Option<NamespacedName> + Send + Sync + 'static,
    ) {
        watched.follow(index, Arc::new(owner), &self.wake);
    }

    /// Adds a task that never ends and wakes workers by itself. No worker waits for its first list.
    pub fn beside<F: Future<Output = ()> + Send + 'static>(&mut self, task: impl FnOnce(Arc<dyn Wake>) -> F) {
        self.futures.push(Box::pin(task(self.wake.clone())));
    }

    fn add_with<K: Watched>(
        &mut self,
        config: &watcher::Config,
        index: &Index<K>,
        owner: impl Fn(&K) -> Option<NamespacedName> + Send + Sync + 'static,
        cut: fn(&mut K),
    ) {
        let owner: OwnerOf<K> = Arc::new(owner);
        if self.namespaces.is_empty() {
            self.add_in(None, Api::all(self.client.clone()), config.clone(), index, (owner.clone(), cut));
        }
        for namespace in self.namespaces {
            let api = Api::namespaced(self.client.clone(), namespace);
            self.add_in(Some(namespace.clone()), api, config.clone(), index, (owner.clone(), cut));
        }
    }

    /// Futures that never end, and for each a token that is cancelled when its first list is complete.
    pub fn into_parts(self) -> (Vec<BoxFuture<'static, ()>>, Vec<CancellationToken>) {
        (self.futures, self.listed)
    }

    fn add_in<K: Watched>(
        &mut self,
        namespace: Option<String>,
        api: Api<K>,
        config: watcher::Config,
        index: &Index<K>,
        (owner, cut): (OwnerOf<K>, fn(&mut K)),
    ) {
        let listed = CancellationToken::new();
        let (index, wake) = (index.clone(), self.wake.clone());
        let watch = Watch { namespace, index, owner, cut, wake, listed: listed.clone() };
        self.futures.push(Box::pin(watch.follow(api, config.page_size(PAGE))));
        self.listed.push(listed);
    }
}

struct Watch<K> {
    namespace: Option<String>,
    index: Index<K>,
    owner: OwnerOf<K>,
    cut: fn(&mut K),
    wake: Arc<dyn Wake>,
    listed: CancellationToken,
}

impl<K: Watched> Watch<K> {
    async fn follow(self, api: Api<K>, config: watcher::Config) {
        let cut = self.cut;
        let kept = move |object: &mut K| {
            trim(object.meta_mut());
            cut(object);
        };
        let mut events = Box::pin(watch(api, config).default_backoff().modify(kept));
        let mut list = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => list.clear(),
                Ok(Event::InitApply(object)) => {
                    if let Some(root) = (self.owner)(&object) {
                        list.push((root, Arc::new(object)));
                    }
                }
                Ok(Event::InitDone) => {
                    let touched = self.index.replace(self.namespace.as_deref(), &std::mem::take(&mut list));
                    self.listed.cancel();
                    for root in &touched {
                        self.wake.wake(root);
                    }
                }
                Ok(Event::Apply(object)) => self.update(object, Index::apply),
                Ok(Event::Delete(object)) => self.update(object, Index::delete),
                Err(error) => {
                    tracing::warn!(kind = %K::kind(&()), error = %chain(&error), "watch failed; it is retried");
                }
            }
        }
    }

    fn update(&self, object: K, change: impl FnOnce(&Index<K>, &NamespacedName, K)) {
        if let Some(root) = (self.owner)(&object) {
            change(&self.index, &root, object);
            self.wake.wake(&root);
        }
    }
}

/// The owner of a root object: itself.
pub fn itself(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.name.as_ref()?))
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
