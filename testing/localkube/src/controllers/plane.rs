//! Runs the controllers on a store.

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

/// Some controllers wait for time to pass: they run again after this long without a change.
const RECHECK_AFTER: Duration = Duration::from_secs(30);

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
        while !plane.view.catch_up(store) {
            match tokio::time::timeout(RECHECK_AFTER, changed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_gone)) => return,
                Err(_elapsed) => break,
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Admits the eviction of a Pod or refuses it. It takes one disruption from the budget and sets the Pod's
/// `DisruptionTarget` condition; a dry run only decides. The caller deletes the Pod.
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
                    // The budget has changed in between: decide again.
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
