//! Which clusters take new defaults of the operator now, by what the watches have of all of them. Nobody waits in here: the answer is an
//! input of a pass. What is read of an EtcdCluster is decided in `manifests`, whose turn it is in the planner.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use quorate_api::EtcdCluster;
use quorate_manifests::{Defaults, fleet};
use quorate_model::fleet::{Takes, Wants};
use quorate_model::snapshot::DefaultsTurn;
use quorate_model::{ClusterRef, Instant};
use quorate_planner::fleet::{Limit, Turns, progress};
use quorate_reconcile::ReadCluster;

use crate::runtime::api_clock::ApiClock;
use crate::runtime::watch::{Index, NamespacedName};

/// The turns of all clusters.
#[derive(Debug)]
pub(crate) struct Waves(Mutex<Turns>);

/// Whether a cluster is to take new defaults, by its EtcdCluster. It is found out again when that is another one: the defaults are those of
/// this process.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    read: Option<Arc<ReadCluster>>,
    wants: Option<Wants>,
}

impl Wanted {
    fn of(
        &mut self,
        read: Option<Arc<ReadCluster>>,
        own: &ClusterRef,
        defaults: &Defaults,
    ) -> Option<&Wants> {
        let is_same = match (&self.read, &read) {
            (Some(known), Some(read)) => Arc::ptr_eq(known, read),
            (_, _) => false,
        };
        if !is_same {
            let cluster = read.as_ref().and_then(|read| read.0.as_ref().ok());
            self.wants = cluster.and_then(|cluster| fleet::wants(cluster, own, defaults));
            self.read = read;
        }
        self.wants.as_ref()
    }
}

impl Waves {
    /// So many clusters at a time.
    pub(crate) fn new(limit: Limit) -> Self {
        Self(Mutex::new(Turns::new(limit)))
    }

    /// Whether it is a cluster's turn. One that needs nothing takes no place.
    pub(crate) fn turn(
        &self,
        clusters: &Index<ReadCluster>,
        defaults: &Defaults,
        (own, wanted): (&ClusterRef, &mut Wanted),
        now: Instant,
    ) -> DefaultsTurn {
        let read = |root: &NamespacedName| clusters.get(root).objects.into_values().next();
        let wants = wanted.of(read(&NamespacedName::from(own)), own, defaults);
        // Locked before the others are read: a turn that is given meanwhile would be in neither.
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(wants) = wants else {
            turns.none_for(own);
            return DefaultsTurn::Now;
        };
        let roots = clusters.roots();
        let all = roots.iter().filter_map(read);
        turns.turn_of(wants, &taking(all), roots.len(), now)
    }
}

/// Shows whether a wave of new defaults has stopped. It is decided by the caches when it is read.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// The cache of EtcdClusters.
    pub(crate) clusters: Index<ReadCluster>,
    /// What specs may leave out.
    pub(crate) defaults: Arc<Defaults>,
    /// The time, by both clocks.
    pub(crate) clock: ApiClock,
}

impl Stopped {
    /// Whether a cluster that took new defaults does not get ready, and others wait for it; and how many lost their place, since nothing of
    /// them could be restarted.
    fn count(&self) -> (bool, usize) {
        let all = self.clusters.all();
        let progress = progress(&taking(all.iter().cloned()), self.clock.present().earliest);
        let waits = |cluster: &EtcdCluster| {
            fleet::takes(cluster, &at(cluster)).is_none() && fleet::needs_defaults(cluster, &self.defaults)
        };
        let others_wait = || all.iter().filter_map(|read| read.0.as_ref().ok()).any(waits);
        (progress.stuck && others_wait(), progress.parked)
    }
}

impl Collector for Stopped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (is_stopped, parked) = self.count();
        let gauge = ConstGauge::<i64>::new(i64::from(is_stopped));
        let help =
            "Whether new defaults of the operator wait for a cluster that took them and does not get ready";
        gauge.encode(encoder.encode_descriptor("wave_stopped", help, None, gauge.metric_type())?)?;
        let gauge = ConstGauge::<i64>::new(i64::try_from(parked).unwrap_or(i64::MAX));
        let help = "EtcdClusters that are to take new defaults of the operator and restarted no member for more than ten minutes";
        gauge.encode(encoder.encode_descriptor("wave_parked", help, None, gauge.metric_type())?)
    }
}

/// Those whose status records that they take new defaults.
fn taking(all: impl Iterator<Item = Arc<ReadCluster>>) -> Vec<Takes> {
    let takes = |read: Arc<ReadCluster>| {
        let cluster = read.0.as_ref().ok()?;
        fleet::takes(cluster, &at(cluster))
    };
    all.filter_map(takes).collect()
}

fn at(cluster: &EtcdCluster) -> ClusterRef {
    let meta = &cluster.metadata;
    ClusterRef::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
