//! The controller of EtcdBackupSchedules. Each pass: observe -> decide -> one act -> status.
//!
//! What is next is decided by [`quorate_orders::schedule`]. `pass`: the worker, which reads and writes; `metrics`.

mod metrics;
mod pass;

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::Config;
use prometheus_client::registry::Registry;
use quorate_api::{EtcdBackupSchedule, keys};
use quorate_manifests::Defaults;
use quorate_reconcile::ReadCluster;

use crate::controllers::backup::ReadBackup;
use crate::controllers::restore::ReadRestore;
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
    schedules: Index<ReadSchedule>,
    /// Its own.
    backups: Index<ReadBackup>,
    /// All of them.
    all_backups: Index<ReadBackup>,
    jobs: Index<Job>,
    pods: Index<Pod>,
    clusters: Index<ReadCluster>,
    restores: Index<ReadRestore>,
}

impl ScheduleController {
    /// The controller, its metrics registered. It fills `schedules`; `clusters` is the cache of EtcdClusters that their own controller
    /// fills, `all_backups` that of EtcdBackups, and `restores` that of EtcdRestores.
    pub(crate) fn new(
        runtime: &Runtime,
        registry: &mut Registry,
        defaults: Arc<Defaults>,
        schedules: Index<ReadSchedule>,
        clusters: Index<ReadCluster>,
        restores: Index<ReadRestore>,
        all_backups: Index<ReadBackup>,
    ) -> Self {
        Self {
            runtime: runtime.clone(),
            defaults,
            metrics: ScheduleMetrics::new(registry),
            schedules,
            backups: Index::default(),
            all_backups,
            jobs: Index::default(),
            pods: Index::default(),
            clusters,
            restores,
        }
    }
}

impl Controller for ScheduleController {
    type Root = ReadSchedule;
    type Worker = ScheduleWorker;
    const NAME: &'static str = "schedule";

    fn roots(&self) -> &Index<ReadSchedule> {
        &self.schedules
    }

    fn watch(&self, watches: &mut Watches<'_>) {
        let labelled = Config::default().labels(keys::SCHEDULE);
        watches.add(&Config::default(), &self.schedules, itself);
        watches.follow(&self.all_backups, &self.backups, |backup| by_label(backup.meta()));
        watches.add(&labelled, &self.jobs, by_label);
        watches.add(&labelled, &self.pods, by_label);
    }

    fn worker(&self, root: &NamespacedName) -> ScheduleWorker {
        ScheduleWorker::new(self.clone(), root.clone())
    }

    fn forget(&self, root: &NamespacedName) {
        self.metrics.forget(root);
        self.schedules.remove_if_empty(root);
        self.backups.remove_if_empty(root);
        self.jobs.remove_if_empty(root);
        self.pods.remove_if_empty(root);
    }
}

fn by_label(meta: &ObjectMeta) -> Option<NamespacedName> {
    Some(NamespacedName::new(meta.namespace.as_ref()?, meta.labels.as_ref()?.get(keys::SCHEDULE)?))
}
