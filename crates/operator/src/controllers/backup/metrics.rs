//! The Prometheus metrics of EtcdBackups, counted when they are read.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use quorate_api::backup::{BackupCondition, BackupPhase, EtcdBackupStatus};
use quorate_api::{Reason, conditions};
use quorate_model::Instant;

use super::ReadBackup;
use crate::runtime::watch::Index;

/// How long backups take. Clones count into the same one.
#[derive(Clone, Debug)]
pub(super) struct Durations(Histogram);

impl Durations {
    /// Registers the metric.
    pub(super) fn new(to: &mut Registry) -> Self {
        let seconds = Histogram::new([1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0]);
        let help = "Time from the first attempt of an EtcdBackup until it was complete";
        to.register("backup_duration_seconds", help, seconds.clone());
        Self(seconds)
    }

    /// A status was written in place of another one.
    pub(super) fn see(&self, before: Option<&EtcdBackupStatus>, after: &EtcdBackupStatus, now: Instant) {
        let is_complete = |status: &EtcdBackupStatus| status.phase == Some(BackupPhase::Complete);
        if let Some(started) = &after.started
            && is_complete(after)
            && !before.is_some_and(is_complete)
        {
            let began = Instant(started.0.as_millisecond());
            self.0.observe(std::time::Duration::from_millis((now - began).0).as_secs_f64());
        }
    }
}

/// How many EtcdBackups run, and how many wait for others.
#[derive(Debug)]
pub(super) struct Counts(pub(super) Index<ReadBackup>);

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (mut running, mut waiting) = (0, 0);
        for backup in self.0.all() {
            let taken = backup.0.as_ref().ok().filter(|backup| backup.spec.existing.is_none());
            let Some(status) = taken.and_then(|backup| backup.status.as_ref()) else {
                continue;
            };
            if status.phase == Some(BackupPhase::Running) {
                running += 1;
            }
            let reasons = [Reason::BackupQueued.as_str(), Reason::BackupLimitReached.as_str()];
            let pending = conditions::find_true(&status.conditions, BackupCondition::Pending.as_str());
            waiting += i64::from(pending.is_some_and(|one| reasons.contains(&one.reason.as_str())));
        }
        let mut show = |name, help, count| {
            let gauge = ConstGauge::<i64>::new(count);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        show("backups_running", "EtcdBackups that a Job takes now", running)?;
        show("backups_waiting", "EtcdBackups that wait for other backups", waiting)
    }
}

/// A registry of these metrics with a series of each.
#[cfg(test)]
pub(in crate::controllers) fn example(registry: &mut Registry) {
    Durations::new(registry).0.observe(1.0);
    registry.register_collector(Box::new(Counts(Index::default())));
}
