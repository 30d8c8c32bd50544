//! The loop of one worker: pass after pass, started by an event, by time, or by what the last pass did.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::runtime::controller::{Controller, Pass, Runtime, Worker};
use crate::runtime::fleet::Fleet;
use crate::runtime::metrics::Metrics;
use crate::runtime::pace::{Outcome, Pace};
use crate::runtime::watch::NamespacedName;

/// Works on one root object until it is gone, nothing is left to do for it, or `runtime.stop` is cancelled. Its first pass may wait.
pub(crate) async fn work<C: Controller>(
    fleet: Fleet<C>,
    root: &NamespacedName,
    events: &Notify,
    first: Option<Duration>,
) {
    let controller = fleet.controller();
    let Runtime { metrics, stop, .. } = fleet.runtime();
    let mut worker = controller.worker(root);
    let mut pace = Pace::of(root);
    if let Some(first) = first {
        tokio::select! {
            () = stop.cancelled() => {}
            () = sleep(first) => {}
            // Something happens to it.
            () = events.notified() => {}
        }
    }
    while !stop.is_cancelled() {
        // On the heap only while it lasts: most of the time thousands of workers wait.
        let outcome = match Box::pin(counted_pass(&mut worker, C::NAME, metrics)).await {
            Some(Pass::Gone) if fleet.retire(root) => break,
            // It was created again under the same name: another object.
            Some(Pass::Gone) => {
                worker = controller.worker(root);
                Outcome::Acted
            }
            Some(Pass::AtRest) if fleet.rest(root, &mut worker) => return,
            // It has changed meanwhile.
            Some(Pass::AtRest) => Outcome::Acted,
            Some(Pass::Ended(outcome)) => outcome,
            // What it kept in memory cannot be trusted any more.
            None => {
                worker = controller.worker(root);
                Outcome::Failed
            }
        };
        pace.among(fleet.len());
        let due = Instant::now() + pace.after(outcome);
        tokio::select! {
            () = stop.cancelled() => {}
            () = sleep_until(due) => {}
            () = news(events, &mut worker), if outcome.ends_by_event() => pace.reset_backoff(),
        }
    }
    controller.forget(root);
}

/// One pass. `None` if it panicked.
async fn counted_pass(worker: &mut impl Worker, controller: &'static str, metrics: &Metrics) -> Option<Pass> {
    #[cfg(feature = "mutants")]
    let _turn = one_after_the_other().await;
    let started = Instant::now();
    let pass = AssertUnwindSafe(worker.pass()).catch_unwind().await;
    let outcome = match &pass {
        Ok(Pass::Gone) => "gone",
        Ok(Pass::AtRest) => "at_rest",
        Ok(Pass::Ended(outcome)) => outcome.as_label(),
        Err(_) => "panicked",
    };
    metrics.pass(controller, outcome, started.elapsed());
    pass.inspect_err(|panic| {
        tracing::error!(panic = message(panic.as_ref()), "a pass panicked; it is retried");
    })
    .ok()
}

/// What R14 forbids: workers that wait for each other.
#[cfg(feature = "mutants")]
async fn one_after_the_other() -> Option<tokio::sync::MutexGuard<'static, ()>> {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    if quorate_planner::safety::mutants::is_broken(quorate_planner::safety::mutants::Rule::R14) {
        Some(TURN.lock().await)
    } else {
        None
    }
}

/// Waits for an event that brings news. The events of the worker's own writes bring none.
async fn news(events: &Notify, worker: &mut impl Worker) {
    loop {
        events.notified().await;
        if worker.has_changes() {
            return;
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
