//! PodDisruptionBudgets, and who evicts beside the operator: the disruption controller writes their status, a person drains nodes.

use std::sync::Arc;

use quorate_apistore::disruption::{self, Expected};
use quorate_apistore::fields::{deleting, integer, name, namespace, uid};
use quorate_apistore::selectors::selects;
use quorate_apistore::store::{DeleteOptions, Part, Propagation};
use quorate_apistore::{ApiError, ObjectKey};
use quorate_manifests::Kind;
use serde_json::{Value, json};

use super::World;
use super::objects::{key, resource};
use crate::oracle::{Property, Truth};

/// The name of an unmanaged budget that selects the same Pods.
const SECOND: &str = "somebody-elses";

impl World {
    /// Evicts a Pod through its budget, as the API server does.
    pub(super) fn evict(&self, pod: &ObjectKey, options: DeleteOptions) -> Result<Option<Value>, ApiError> {
        let options = DeleteOptions { propagation: Propagation::Background, ..options };
        match disruption::evict(&self.store, pod, &options)? {
            quorate_apistore::store::Deleted::Gone(_) => Ok(None),
            quorate_apistore::store::Deleted::Marked(pod) => Ok(Some(pod)),
        }
    }

    /// Writes the status of every budget, unless the disruption controller is behind.
    pub(super) fn write_budget_statuses(&self) -> bool {
        if self.faults.budgets_behind {
            return false;
        }
        let pods = self.member_pods();
        let mut any = false;
        for budget in self.objects(Kind::Budget).iter().filter(|budget| !deleting(budget)) {
            let selected: Vec<&Value> = pods
                .iter()
                .map(Arc::as_ref)
                .filter(|pod| namespace(pod) == namespace(budget))
                .filter(|pod| selects(budget.pointer("/spec/selector"), pod))
                .collect();
            let next =
                disruption::counted(budget, &selected, expected(budget, selected.len()), self.store.now());
            if next != **budget {
                let at = ObjectKey::new(resource(Kind::Budget), namespace(budget), name(budget));
                any |= self.change(&at, Part::Status, |old| old["status"] = next["status"].clone()).is_ok();
            }
        }
        any
    }

    /// Somebody begins to drain the node of a Pod: the Pod is to be evicted as soon as its budget admits it.
    pub(super) fn drain(&mut self, member: &str) -> bool {
        let pod = self.object(Kind::Pod, member).filter(|pod| self.pods.contains_key(uid(pod)));
        pod.is_some_and(|pod| self.faults.drained.insert(uid(&pod).to_owned()))
    }

    /// The drains try again.
    pub(super) fn drain_on(&mut self) -> bool {
        let pods = self.member_pods();
        let waits = |drained: &String| pods.iter().find(|pod| uid(pod) == drained && !deleting(pod));
        let mut any = false;
        for pod in self.faults.drained.iter().filter_map(waits).cloned().collect::<Vec<_>>() {
            let at = ObjectKey::new(resource(Kind::Pod), namespace(&pod), name(&pod));
            let before = Truth::of(self);
            if self.evict(&at, DeleteOptions::default()).is_ok() {
                any = true;
                self.note_memory_lost_with(&pod);
                self.judge_drain(&before, &pod);
            }
        }
        let exists = |drained: &String| pods.iter().any(|pod| uid(pod) == drained);
        self.faults.drained.retain(exists);
        any
    }

    /// A budget that the operator keeps does not let a drain take what the quorum needs, once the operator has seen the cluster as it
    /// is.
    fn judge_drain(&mut self, before: &Truth, pod: &Value) {
        let Some(left) = before.left_without(uid(pod)).filter(|_| self.rested_before_nodes) else { return };
        let how = format!("a drain takes Pod {}, and only {left} healthy voters are left", name(pod));
        self.oracle.add_violation(Property::QuorumStays, how);
    }

    /// Somebody creates a budget of their own for the same Pods: an eviction is refused with 500 then.
    pub(super) fn add_second_budget(&self) -> bool {
        let selector = json!({ "matchLabels": { quorate_api::keys::CLUSTER: self.at.name } });
        let object = json!({
            "metadata": { "name": SECOND, "namespace": self.at.namespace },
            "spec": { "minAvailable": 0, "selector": selector },
        });
        self.store.create(&resource(Kind::Budget), &self.at.namespace, object, false).is_ok()
    }

    /// Its owner deletes it again. `false` if there is none.
    pub(super) fn remove_second_budget(&self) -> bool {
        let options = DeleteOptions::default();
        self.store.delete(&key(Kind::Budget, &self.at, SECOND), &options).is_ok()
    }
}

/// What a budget expects. The Pods' owner has its scale for a budget with `maxUnavailable`; the operator's have none.
fn expected(budget: &Value, pods: usize) -> Result<Expected, &'static str> {
    let healthy = integer(budget, "/spec/minAvailable").ok_or("it has no integer minAvailable")?;
    Ok(Expected { pods: i64::try_from(pods).unwrap_or(i64::MAX), healthy })
}
