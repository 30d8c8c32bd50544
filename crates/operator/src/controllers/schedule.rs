//! The controller of EtcdBackupSchedules. Each pass: observe -> decide -> one act -> status.
//!
//! What is next is decided by [`quorate_orders::schedule`]. `pass`: the worker, which reads and writes; `metrics`.

mod metrics;
mod pass;

use std::sync::Arc;

use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use prometheus_client::registry::Registry;
use quorate_api::{EtcdBackupSchedule, keys};
use quorate_manifests::Defaults;

use crate::controllers::Kinds;
use crate::controllers::backup::ReadBackup;
use crate::controllers::desk::{Owned, by_label};
use crate::runtime::controller::{Controller, Runtime};
use crate::runtime::watch::{Index, NamespacedName, Watches, itself};
use metrics::ScheduleMetrics;
#[cfg(test)]
pub(super) use metrics::example as example_metrics;
use pass::ScheduleWorker;

/// An EtcdBackupSchedule, or why it cannot be read.
pub(crate) type ReadSchedule = DeserializeGuard<EtcdBackupSchedule>;

/// The controller of EtcdBackupSchedules.
#[derive(Clone)]
pub(crate) struct ScheduleController {
    runtime: Runtime,
    defaults: Arc<Defaults>,
    metrics: ScheduleMetrics,
    kinds: Kinds,
    /// Its own.
    backups: Index<ReadBackup>,
    owned: Owned,
}

impl ScheduleController {
    /// The controller, its metrics registered.
    pub(crate) fn new(
        runtime: &Runtime,
        registry: &mut Registry,
        defaults: Arc<Defaults>,
        kinds: Kinds,
    ) -> Self {
        let (metrics, backups, owned) = (ScheduleMetrics::new(registry), Index::default(), Owned::default());
        Self { runtime: runtime.clone(), defaults, metrics, kinds, backups, owned }
    }
}

impl Controller for ScheduleController {
    type Root = ReadSchedule;
    type Worker = ScheduleWorker;
    const NAME: &'static str = "schedule";

    fn roots(&self) -> &Index<ReadSchedule> {
        &self.kinds.schedules
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        watches.add(&Config::default(), &self.kinds.schedules, itself);
        watches.follow(&self.kinds.backups, &self.backups, |backup| by_label(backup.meta(), keys::SCHEDULE));
        self.owned.watch(watches, keys::SCHEDULE);
    }

    fn worker(&self, root: &NamespacedName) -> ScheduleWorker {
        ScheduleWorker::new(self.clone(), root)
    }

    fn forget(&self, root: &NamespacedName) {
        self.metrics.forget(root);
        self.kinds.schedules.remove_if_empty(root);
        self.backups.remove_if_empty(root);
        self.owned.remove_if_empty(root);
    }
}
