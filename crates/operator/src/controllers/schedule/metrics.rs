//! The Prometheus metrics of schedules.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use quorate_api::EtcdBackupSchedule;

use crate::runtime::watch::NamespacedName;

/// The metrics of all schedules. Clones count into the same ones.
#[derive(Clone, Debug)]
pub(super) struct ScheduleMetrics {
    last_success: Family<Labels, Gauge>,
    failures: Family<Labels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    schedule: String,
}

impl ScheduleMetrics {
    /// Registers the metrics.
    pub(super) fn new(to: &mut Registry) -> Self {
        let metrics = Self { last_success: Family::default(), failures: Family::default() };
        let Self { last_success, failures } = metrics.clone();
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
        metrics
    }

    /// Sets the figures of a schedule, from its status.
    pub(super) fn show(&self, root: &NamespacedName, schedule: &EtcdBackupSchedule) {
        let Some(status) = &schedule.status else { return };
        let labels = labels(root);
        if let Some(success) = &status.last_success {
            self.last_success.get_or_create(&labels).set(success.0.as_second());
        }
        self.failures.get_or_create(&labels).set(i64::from(status.consecutive_failures));
    }

    /// Forgets a schedule.
    pub(super) fn forget(&self, root: &NamespacedName) {
        self.last_success.remove(&labels(root));
        self.failures.remove(&labels(root));
    }
}

fn labels(root: &NamespacedName) -> Labels {
    Labels { namespace: root.namespace.clone(), schedule: root.name.clone() }
}
