//! The worker of one cluster: pass after pass, woken by events, by the time, or by what the pass before has done. Passes of
//! one cluster never overlap; those of different clusters never wait for each other.

mod execute;
mod look;
mod observe;
mod pass;
pub(crate) mod report;
mod tls;
mod written;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use quorate_etcd::Transport;
use quorate_manifests::Defaults;
use quorate_model::ClusterRef;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::controllers::cluster::report::Events;
use crate::runtime::clock::Clock;
use crate::runtime::crash::Hook;
use crate::runtime::fleet::Fleet;
use crate::runtime::lease::Leadership;
use crate::runtime::metrics::Metrics;
use crate::runtime::pace::{Outcome, Pace};
use crate::runtime::watch::Indexes;
use pass::{Passed, Worker};

/// What all workers share.
#[derive(Clone)]
pub struct Shared {
    /// The Kubernetes API.
    pub client: kube::Client,
    /// What is watched.
    pub indexes: Indexes,
    /// What specs may leave out.
    pub defaults: Arc<Defaults>,
    /// Whether we may write.
    pub leadership: Leadership,
    /// Bounds the writes under way.
    pub writers: Arc<Semaphore>,
    /// Told of crash points.
    pub hook: Arc<dyn Hook>,
    /// The time.
    pub clock: Clock,
    /// What connections to members run over.
    pub transport: Transport,
    /// What is counted.
    pub metrics: Metrics,
    /// What is told.
    pub events: Events,
    /// Asks everybody to end.
    pub stop: CancellationToken,
}

/// Works on one cluster until it is gone or `shared.stop`.
pub(crate) async fn work(fleet: Fleet, shared: Shared, cluster: ClusterRef, bell: Arc<Notify>) {
    let span = tracing::info_span!("cluster", cluster = %cluster);
    let work = async move {
        let mut worker = Worker::new(shared.clone(), cluster.clone());
        let mut pace = Pace::default();
        while !shared.stop.is_cancelled() {
            let ended = match guarded(&mut worker, &shared).await {
                Some(Passed::Gone) if fleet.retire(&cluster) => break,
                // It came back under the same name: another cluster.
                Some(Passed::Gone) => {
                    worker = Worker::new(shared.clone(), cluster.clone());
                    Outcome::Acted
                }
                Some(Passed::Outcome(ended)) => ended,
                None => {
                    worker = Worker::new(shared.clone(), cluster.clone());
                    Outcome::Failed
                }
            };
            let due = Instant::now() + pace.after(ended);
            tokio::select! {
                () = shared.stop.cancelled() => {}
                () = sleep_until(due) => {}
                () = news(&bell, &mut worker) => pace.reset_backoff(),
            }
        }
        shared.metrics.forget(&cluster);
        shared.indexes.tidy(&cluster);
    };
    work.instrument(span).await;
}

/// One pass, counted. `None` if it panicked: what it held in memory is not to be trusted any more.
async fn guarded(worker: &mut Worker, shared: &Shared) -> Option<Passed> {
    #[cfg(feature = "mutants")]
    let _turn = one_after_the_other().await;
    let began = Instant::now();
    let passed = AssertUnwindSafe(worker.pass()).catch_unwind().await;
    let outcome = match &passed {
        Ok(Passed::Gone) => "gone",
        Ok(Passed::Outcome(ended)) => ended.as_label(),
        Err(_) => "panicked",
    };
    shared.metrics.pass(outcome, began.elapsed());
    passed
        .inspect_err(|panic| {
            tracing::error!(panic = said(panic.as_ref()), "a pass panicked; it is tried again");
        })
        .ok()
}

/// What R14 forbids: clusters that wait for each other.
#[cfg(feature = "mutants")]
async fn one_after_the_other() -> Option<tokio::sync::MutexGuard<'static, ()>> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    if quorate_planner::safety::mutants::is_broken("R14") { Some(TURN.lock().await) } else { None }
}

/// Waits until something has happened that the pass has not seen. The echo of its own writes is no news.
async fn news(bell: &Notify, worker: &mut Worker) {
    loop {
        bell.notified().await;
        if worker.has_news() {
            return;
        }
    }
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}
