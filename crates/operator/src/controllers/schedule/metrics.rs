//! The Prometheus metrics of schedules.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use quorate_api::schedule::ScheduleCondition;
use quorate_api::{EtcdBackupSchedule, conditions};

use crate::runtime::watch::NamespacedName;

/// The metrics of all schedules. Clones count into the same ones.
#[derive(Clone, Debug)]
pub(super) struct ScheduleMetrics {
    last_success: Family<Labels, Gauge>,
    failures: Family<Labels, Gauge>,
    conditions: Family<OfType, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    schedule: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfType {
    namespace: String,
    schedule: String,
    r#type: &'static str,
}

impl ScheduleMetrics {
    /// Registers the metrics.
    pub(super) fn new(to: &mut Registry) -> Self {
        let metrics = Self {
            last_success: Family::default(),
            failures: Family::default(),
            conditions: Family::default(),
        };
        let Self { last_success, failures, conditions } = metrics.clone();
        to.register(
            "backup_last_success_timestamp_seconds",
            "When the last good backup of a schedule was complete",
            last_success,
        );
        to.register(
            "backup_consecutive_failures",
            "Backups of a schedule that failed since the last good one",
            failures,
        );
        to.register(
            "backup_schedule_condition",
            "For each condition of a schedule's status, whether it is True; absent while it is Unknown",
            conditions,
        );
        metrics
    }

    /// Sets the figures of a schedule, from its status.
    pub(super) fn show(&self, root: &NamespacedName, schedule: &EtcdBackupSchedule) {
        let Some(status) = &schedule.status else { return };
        let labels = labels(root);
        match &status.last_success {
            Some(success) => {
                self.last_success.get_or_create(&labels).set(success.0.as_second());
            }
            // It is not in the store any more, and no other is.
            None => {
                self.last_success.remove(&labels);
            }
        }
        self.failures.get_or_create(&labels).set(i64::from(status.consecutive_failures));
        for type_ in ScheduleCondition::ALL {
            let condition = conditions::find(&status.conditions, type_.as_str());
            let labels = of_type(root, type_);
            match condition.and_then(conditions::holds) {
                Some(holds) => {
                    self.conditions.get_or_create(&labels).set(i64::from(holds));
                }
                None => {
                    self.conditions.remove(&labels);
                }
            }
        }
    }

    /// Forgets a schedule.
    pub(super) fn forget(&self, root: &NamespacedName) {
        self.last_success.remove(&labels(root));
        self.failures.remove(&labels(root));
        for type_ in ScheduleCondition::ALL {
            self.conditions.remove(&of_type(root, type_));
        }
    }
}

fn labels(root: &NamespacedName) -> Labels {
    Labels { namespace: root.namespace.clone(), schedule: root.name.clone() }
}

fn of_type(root: &NamespacedName, type_: ScheduleCondition) -> OfType {
    OfType { namespace: root.namespace.clone(), schedule: root.name.clone(), r#type: type_.as_str() }
}

/// A registry of these metrics with a series of each.
#[cfg(test)]
pub(in crate::controllers) fn example(registry: &mut Registry) {
    let schedule = serde_json::json!({
        "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdBackupSchedule", "metadata": {"name": "nightly"},
        "spec": {"schedule": "@daily", "backupTemplate": {"spec": {
            "source": {"cluster": "demo"}, "destination": {"pvc": {"claimName": "backups"}},
        }}},
    });
    let mut schedule: EtcdBackupSchedule = serde_json::from_value(schedule).unwrap();
    let status = serde_json::json!({ "lastSuccess": "2027-01-01T00:00:00Z", "conditions": [{
        "type": "Ready", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2027-01-01T00:00:00Z",
    }] });
    schedule.status = Some(serde_json::from_value(status).unwrap());
    ScheduleMetrics::new(registry).show(&NamespacedName::new("default", "nightly"), &schedule);
}
