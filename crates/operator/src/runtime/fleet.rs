//! One worker for each root object: started when the object is first seen, ended when it is gone or nothing is left to do for it. Workers wait for
//! nothing that they share, except the bound on writes to the Kubernetes API (R14).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::runtime::controller::{Controller, Runtime, Worker as _};
use crate::runtime::pace;
use crate::runtime::watch::{NamespacedName, Wake, Watches};
use crate::runtime::worker;

/// The controllers, each with its watches and workers. Dropping it ends every worker at once, as a crash would.
pub(crate) struct Fleets {
    runtime: Runtime,
    /// In all namespaces if empty.
    namespaces: Vec<String>,
    all: Vec<Box<dyn AnyFleet>>,
    watches: JoinSet<()>,
    listed: Vec<CancellationToken>,
}

/// The workers of one controller.
pub(crate) struct Fleet<C>(Arc<Inner<C>>);

struct Inner<C> {
    runtime: Runtime,
    controller: C,
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    /// Every cache is filled and this operator leads.
    open: bool,
    /// Each is notified of every event.
    by_root: HashMap<NamespacedName, Arc<Notify>>,
    tasks: JoinSet<()>,
}

/// A fleet of any kind.
trait AnyFleet: Send + Sync {
    fn open(&self);
    fn ended(&self) -> BoxFuture<'static, ()>;
    fn abort(&self);
}

impl Fleets {
    /// No controllers yet.
    pub(crate) fn new(runtime: Runtime, namespaces: Vec<String>) -> Self {
        Self { runtime, namespaces, all: Vec::new(), watches: JoinSet::new(), listed: Vec::new() }
    }

    /// What every controller shares.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Adds a controller and starts its watches. Its workers wait for [`Fleets::open`].
    pub(crate) fn add<C: Controller>(&mut self, controller: C) {
        let runtime = self.runtime.clone();
        let fleet = Fleet(Arc::new(Inner { runtime, controller, workers: Mutex::default() }));
        let mut watches = Watches::new(&self.runtime.client, &self.namespaces, Arc::new(fleet.clone()));
        fleet.controller().watch(&mut watches);
        let (futures, listed) = watches.into_parts();
        for watch in futures {
            self.watches.spawn(watch);
        }
        self.listed.extend(listed);
        self.all.push(Box::new(fleet));
    }

    /// For each watch a token that is cancelled when its first list is complete.
    pub(crate) fn listed(&self) -> &[CancellationToken] {
        &self.listed
    }

    /// The watches. They end when this is dropped, and never by themselves.
    pub(crate) fn take_watches(&mut self) -> JoinSet<()> {
        std::mem::take(&mut self.watches)
    }

    /// From now on objects are worked on.
    pub(crate) fn open(&self) {
        for fleet in &self.all {
            fleet.open();
        }
    }

    /// Waits until every worker has ended; `runtime.stop` asks them to.
    pub(crate) async fn ended(&self) {
        join_all(self.all.iter().map(|fleet| fleet.ended())).await;
    }
}

impl Drop for Fleets {
    fn drop(&mut self) {
        for fleet in &self.all {
            fleet.abort();
        }
    }
}

impl<C: Controller> Fleet<C> {
    /// The controller that the workers are of.
    pub(crate) fn controller(&self) -> &C {
        &self.0.controller
    }

    /// What every controller shares.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.0.runtime
    }

    /// How many objects have a worker.
    pub(crate) fn len(&self) -> usize {
        self.workers().by_root.len()
    }

    /// Ends the worker of an object for which nothing is left to do. False if the object has changed since its last pass.
    pub(crate) fn rest(&self, root: &NamespacedName, worker: &mut C::Worker) -> bool {
        // A change is in the cache before its event takes this lock: either it is seen here, or the event starts another worker.
        let mut workers = self.workers();
        if worker.has_changes() {
            return false;
        }
        workers.by_root.remove(root);
        true
    }

    /// Ends the worker of an object that is gone. False if the object was created again meanwhile.
    pub(crate) fn retire(&self, root: &NamespacedName) -> bool {
        let mut workers = self.workers();
        if self.controller().roots().contains(root) {
            return false;
        }
        workers.by_root.remove(root);
        true
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.0.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Controller> AnyFleet for Fleet<C> {
    fn open(&self) {
        self.workers().open = true;
        let controller = self.controller();
        let has_ended = |root: &NamespacedName| {
            let named = controller.roots().get(root).objects.remove(&root.name);
            named.is_some_and(|object| controller.has_ended(&object))
        };
        let (ended, others): (Vec<_>, Vec<_>) = controller.roots().roots().into_iter().partition(has_ended);
        for root in &others {
            self.begin(root, pace::first(root, others.len()));
        }
        for root in &ended {
            self.begin(root, Some(pace::first_of_ended(root, ended.len())));
        }
    }

    fn ended(&self) -> BoxFuture<'static, ()> {
        let mut tasks = std::mem::take(&mut self.workers().tasks);
        Box::pin(async move { while tasks.join_next().await.is_some() {} })
    }

    fn abort(&self) {
        self.workers().tasks.abort_all();
    }
}

impl<C: Controller> Wake for Fleet<C> {
    fn wake(&self, root: &NamespacedName) {
        self.begin(root, None);
    }
}

impl<C: Controller> Fleet<C> {
    /// Notifies the worker of an object, or starts it. Its first pass may wait so long.
    fn begin(&self, root: &NamespacedName, first: Option<Duration>) {
        let mut workers = self.workers();
        if let Some(events) = workers.by_root.get(root) {
            events.notify_one();
            return;
        }
        let exists = self.controller().roots().contains(root);
        if workers.open && !exists {
            // Its worker has ended when nothing was left to do.
            self.controller().forget(root);
        }
        if workers.open && exists && !self.runtime().stop.is_cancelled() {
            let events = Arc::new(Notify::new());
            workers.by_root.insert(root.clone(), events.clone());
            while workers.tasks.try_join_next().is_some() {}
            let (fleet, root) = (self.clone(), root.clone());
            let span = tracing::info_span!("worker", controller = C::NAME, object = %root);
            workers
                .tasks
                .spawn(async move { worker::work(fleet, &root, &events, first).await }.instrument(span));
        }
    }
}

impl<C> Clone for Fleet<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
