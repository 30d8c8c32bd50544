//! What a kind provides to be run: a controller for the kind, and a worker for each object of it.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::runtime::api_clock::ApiClock;
use crate::runtime::clock::Clock;
use crate::runtime::crash::Hook;
use crate::runtime::events::Events;
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::Metrics;
use crate::runtime::pace::Outcome;
use crate::runtime::watch::{Index, NamespacedName, Watched, Watches};
use crate::runtime::writers::Writers;

/// Runs one root kind. Each object of it gets a worker.
pub(crate) trait Controller: Send + Sync + 'static {
    /// The root kind.
    type Root: Watched;
    /// The worker of one root object.
    type Worker: Worker;
    /// The name of the controller in logs and metrics.
    const NAME: &'static str;

    /// The cached root objects. A worker runs while its object is in here.
    fn roots(&self) -> &Index<Self::Root>;

    /// Adds a watch for the root kind and for each kind that its objects own.
    fn watch(&self, watches: &mut Watches<'_>);

    /// A worker for a root object. It is created again after a panic, and when the object was deleted and created again.
    fn worker(&self, root: &NamespacedName) -> Self::Worker;

    /// Whether nothing is left to do for a root object unless it changes. Such objects are looked at last when an operator begins to lead.
    fn has_ended(&self, _root: &Self::Root) -> bool {
        false
    }

    /// Forgets everything about a root object whose worker has ended.
    fn forget(&self, root: &NamespacedName);
}

/// Works on one root object. Its passes never overlap.
pub(crate) trait Worker: Send + 'static {
    /// Observes, plans and executes once.
    fn pass(&mut self) -> impl Future<Output = Pass> + Send;

    /// Whether the caches hold anything that the last pass has neither seen nor written itself.
    fn has_changes(&mut self) -> bool;
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// The root object does not exist.
    Gone,
    /// The root object exists. The outcome decides when the next pass is due.
    Ended(Outcome),
    /// The root object exists, and nothing is left to do for it. Its worker ends, and the next change starts another one.
    AtRest,
}

/// What every controller and its workers share.
#[derive(Clone)]
pub(crate) struct Runtime {
    /// The Kubernetes API.
    pub(crate) client: kube::Client,
    /// Whether this operator may write.
    pub(crate) leadership: Leadership,
    /// Bounds the writes under way, with a share for each namespace.
    pub(crate) writers: Writers,
    /// Bounds the reads of single objects under way in passes: each has a connection to the API server, which is kept for a while.
    pub(crate) readers: Arc<Semaphore>,
    /// Called at every crash point.
    pub(crate) hook: Arc<dyn Hook>,
    /// The time.
    pub(crate) clock: Clock,
    /// Whether the API server's clock agrees with it.
    pub(crate) api_clock: ApiClock,
    /// What is counted for every controller.
    pub(crate) metrics: Metrics,
    /// Publishes Kubernetes events.
    pub(crate) events: Events,
    /// Asks every worker to end.
    pub(crate) stop: CancellationToken,
}
