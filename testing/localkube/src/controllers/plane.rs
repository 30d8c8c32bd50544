//! Lets the controllers do their work on a store.

use std::time::Duration;

use quorate_apistore::ApiError;
use quorate_apistore::fields::{name, namespace, set_condition};
use quorate_apistore::store::{Part, Store};
use quorate_apistore::{ObjectKey, ResourceKey};
use serde_json::{Value, json};

use super::Controller;
use super::action::Action;
use super::disruption::{Eviction, Refusal, evict};
use super::view::{View, kinds};

/// Some of what controllers wait for is time: they look again after this long without a change.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// More passes than any change can need: controllers that undo each other's work are a fault, not a state.
const PASSES: usize = 1000;

/// All controllers, at work on one store.
pub struct ControlPlane {
    store: Store,
    view: View,
}

impl ControlPlane {
    /// Looks at a store for the first time.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), view: View::of(store) }
    }

    /// Asks every controller once and does what they want. Gives back how many writes took effect.
    pub fn pass(&mut self) -> usize {
        self.view.catch_up(&self.store);
        Controller::ALL.into_iter().map(|controller| self.step(controller)).sum()
    }

    /// Passes until nothing is left to do. Gives back how many writes took effect.
    pub fn settle(&mut self) -> usize {
        let mut writes = 0;
        for _ in 0..PASSES {
            match self.pass() {
                0 => return writes,
                some => writes += some,
            }
        }
        tracing::error!(writes, "the built-in controllers do not come to rest");
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

/// Does the controllers' work at every change of the store, for ever.
pub async fn run(store: &Store) {
    let mut changed = store.subscribe();
    let mut plane = ControlPlane::new(store);
    loop {
        plane.settle();
        // What the controllers themselves wrote is behind them.
        changed.mark_unchanged();
        while !plane.view.catch_up(store) {
            match tokio::time::timeout(LOOK_AGAIN, changed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_gone)) => return,
                Err(_elapsed) => break,
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Admits the eviction of a Pod or says why not; what the budget allows is taken from it, and the Pod's status tells
/// that it is evicted; a dry run only decides. The deletion itself is the caller's.
pub fn admit_eviction(store: &Store, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
    let budgets = ResourceKey::from(kinds::BUDGETS);
    loop {
        let (guards, _) = store.list(&budgets, Some(namespace(pod)));
        match evict(&guards, pod, store.now()) {
            Ok(Eviction::Free) => break,
            Ok(Eviction::Spend(budget)) => {
                let key = ObjectKey::new(budgets.clone(), namespace(&budget), name(&budget));
                match store.update(&key, Part::Status, *budget, dry_run) {
                    Ok(_) => break,
                    // Somebody else spent, or the count was brought up to date: decide again.
                    Err(error) if error.code == 409 => {}
                    Err(error) => return Err(error),
                }
            }
            Err(refusal) => return Err(refused(&refusal)),
        }
    }
    let key = ObjectKey::new(kinds::PODS.into(), namespace(pod), name(pod));
    let now = store.now();
    let evicted = |pod: &Value| {
        let mut pod = pod.clone();
        let message = "Eviction API: evicting";
        set_condition(&mut pod, "DisruptionTarget", "True", "EvictionByEvictionAPI", message, now);
        Ok(pod)
    };
    store.modify(&key, Part::Status, dry_run, evicted).map(drop)
}

fn refused(refusal: &Refusal) -> ApiError {
    let message = refusal.to_string();
    match refusal {
        Refusal::Budget { cause, retry_after_seconds } => {
            let mut details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": cause }] });
            if *retry_after_seconds > 0 {
                details["retryAfterSeconds"] = json!(retry_after_seconds);
            }
            ApiError::too_many_requests(message, details)
        }
        Refusal::Ambiguous => ApiError { code: 500, reason: "", message, details: Value::Null },
    }
}
