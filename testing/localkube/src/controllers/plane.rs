//! Runs the controllers on a store.

use std::time::Duration;

use quorate_apistore::store::Store;
use tokio::time::Instant;

use super::action::Action;
use super::view::View;
use super::{Controller, jobs};

/// Some controllers wait for time to pass: they run again after this long without a change.
const RECHECK_AFTER: Duration = Duration::from_secs(30);

/// Timestamps are whole seconds: what is due at one may need a moment more.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// More passes than any change needs. Controllers that undo each other's writes are a bug.
const PASSES: usize = 1000;

/// All controllers of one store.
pub struct ControlPlane {
    store: Store,
    view: View,
}

impl ControlPlane {
    /// Reads the store for the first time.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), view: View::of(store) }
    }

    /// Runs every controller once and applies its writes. Returns how many took effect.
    pub fn pass(&mut self) -> usize {
        self.view.catch_up(&self.store);
        Controller::ALL.into_iter().map(|controller| self.step(controller)).sum()
    }

    /// Runs passes until no controller wants a write. Returns how many took effect.
    pub fn settle(&mut self) -> usize {
        let mut writes = 0;
        for _ in 0..PASSES {
            match self.pass() {
                0 => return writes,
                some => writes += some,
            }
        }
        tracing::error!(writes, "the built-in controllers do not settle");
        writes
    }

    fn step(&self, controller: Controller) -> usize {
        let actions = controller.step(&self.view, self.store.now());
        actions.into_iter().filter(|action| self.apply(controller, action)).count()
    }

    fn apply(&self, controller: Controller, action: &Action) -> bool {
        match action.clone().apply(&self.store) {
            Ok(()) => true,
            Err(refusal) => {
                tracing::debug!(?controller, %refusal, "a controller's write was refused");
                false
            }
        }
    }
}

/// Runs the controllers at every change of the store. Never returns while the store exists.
pub async fn run(store: &Store) {
    let mut changed = store.subscribe();
    let mut plane = ControlPlane::new(store);
    loop {
        plane.settle();
        // The controllers' own writes are included in the last pass.
        changed.mark_unchanged();
        let now = store.now();
        let due = jobs::due(&plane.view, now);
        let wait = due.map(|due| due.duration_since(now).unsigned_abs().max(SHORTEST_WAIT));
        // Changes that no controller reads do not put it off.
        let recheck = Instant::now() + wait.map_or(RECHECK_AFTER, |wait| wait.min(RECHECK_AFTER));
        while !plane.view.catch_up(store) {
            match tokio::time::timeout_at(recheck, changed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_gone)) => return,
                Err(_elapsed) => break,
            }
        }
        tokio::task::yield_now().await;
    }
}
