//! Which clusters take new defaults of the operator now, by what the watches have of all of them. Nobody waits in here: the answer is an
//! input of a pass.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use quorate_api::cluster::OperatorDefaults;
use quorate_api::{ConditionType, EtcdCluster};
use quorate_manifests::{Defaults, data_store, record, resolve};
use quorate_model::quorum::has_quorum;
use quorate_model::record::Turn;
use quorate_model::snapshot::DefaultsTurn;
use quorate_model::{ClusterRef, Instant, Span};
use quorate_planner::fleet::{Limit, Rolling, is_parked, turn};
use quorate_reconcile::ReadCluster;

use crate::runtime::api_clock::ApiClock;
use crate::runtime::watch::{Index, NamespacedName};

/// How long a turn counts that was given and that status does not record yet.
const GIVEN_FOR: Span = Span::seconds(60);

/// How long a cluster that did not use its turn lets the others go first: what keeps it from writing its status may last.
const PASSED_FOR: Span = Span::seconds(600);

/// How long a cluster may be degraded while it takes new defaults. Each of its Pods is away for some seconds.
const STUCK_AFTER: Span = Span::seconds(180);

/// The turns of all clusters.
#[derive(Debug)]
pub(crate) struct Waves {
    limit: Limit,
    /// Turns that were given and that no status that the watches have shows yet. Without them, clusters that look at the same time would
    /// all find a free place.
    given: Mutex<BTreeMap<NamespacedName, Instant>>,
}

impl Waves {
    /// So many clusters at a time.
    pub(crate) fn new(limit: Limit) -> Self {
        Self { limit, given: Mutex::default() }
    }

    /// Whether it is a cluster's turn. One that needs nothing takes no place.
    pub(crate) fn turn(
        &self,
        clusters: &Index<ReadCluster>,
        defaults: &Defaults,
        own: &ClusterRef,
        now: Instant,
    ) -> DefaultsTurn {
        let own_root = NamespacedName::from(own);
        let read = |root: &NamespacedName| clusters.get(root).objects.into_values().next();
        let needs = read(&own_root)
            .is_some_and(|read| read.0.as_ref().is_ok_and(|cluster| needs_defaults(cluster, defaults)));
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|_, at| *at <= now && now - *at <= PASSED_FOR);
        if !needs {
            given.remove(&own_root);
            return DefaultsTurn::Now;
        }
        let unwell = read(&own_root).and_then(|read| read.0.as_ref().ok().and_then(unwell));
        if unwell.is_some() {
            // A turn that it did not use goes to another one at once.
            given.remove(&own_root);
        }
        let roots = clusters.roots();
        let mut rolling: BTreeMap<NamespacedName, Option<String>> = BTreeMap::new();
        for root in &roots {
            let Some(read) = read(root) else { continue };
            let Ok(cluster) = &read.0 else { continue };
            let Some(turn) = turn_of(cluster) else { continue };
            given.remove(root);
            let stuck = stuck(cluster, turn, now);
            if stuck.is_some() || !is_parked(turn, now) || *root == own_root {
                rolling.insert(root.clone(), stuck);
            }
        }
        if given.get(&own_root).is_some_and(|at| now - *at > GIVEN_FOR) {
            return DefaultsTurn::After("the operator's new defaults wait: it was this cluster's turn, and they could not be committed. \
                Other clusters go first".to_owned());
        }
        for (root, _) in given.iter().filter(|(_, at)| now - **at <= GIVEN_FOR) {
            rolling.entry(root.clone()).or_default();
        }
        let one = |root: &NamespacedName, stuck: Option<String>| Rolling {
            name: root.to_string(),
            interrupted: read(root).is_some_and(|read| read.0.as_ref().is_ok_and(is_interrupted)),
            stuck,
            unwell: None,
        };
        let rolling: Vec<Rolling> = rolling.into_iter().map(|(root, stuck)| one(&root, stuck)).collect();
        let own = Rolling { unwell, ..one(&own_root, None) };
        let turn = turn(&own, &rolling, roots.len(), self.limit);
        if turn == DefaultsTurn::Now {
            given.entry(own_root).or_insert(now);
        }
        turn
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
        let all = || all.iter().filter_map(|read| read.0.as_ref().ok());
        let now = self.clock.present().earliest;
        let turns = || all().filter_map(|cluster| Some((cluster, turn_of(cluster)?)));
        let is_stuck = turns().any(|(cluster, turn)| stuck(cluster, turn, now).is_some());
        let others_wait =
            all().any(|cluster| turn_of(cluster).is_none() && needs_defaults(cluster, &self.defaults));
        (is_stuck && others_wait, turns().filter(|(_, turn)| is_parked(*turn, now)).count())
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

/// Whether the operator would build other Pods than the committed ones from the same spec, and may replace them by itself.
fn needs_defaults(cluster: &EtcdCluster, defaults: &Defaults) -> bool {
    let follows = cluster.spec.updates.operator_defaults == OperatorDefaults::Rolling && may_roll(cluster);
    let committed = cluster.status.as_ref().and_then(|status| status.target.as_ref()).filter(|_| follows);
    let Some((committed, desired)) = committed.zip(resolve(cluster, defaults).ok()) else { return false };
    committed.version == desired.version.to_string()
        && committed.pod.template == desired.pod.content
        && committed.pod.revision != desired.pod.revision.0
}

/// Whether it cannot serve while a member restarts, once it has the size of its spec.
fn is_interrupted(cluster: &EtcdCluster) -> bool {
    let size = cluster.spec.size as usize;
    !has_quorum(size.saturating_sub(1), size)
}

/// Whether its members run and may be restarted.
fn may_roll(cluster: &EtcdCluster) -> bool {
    !cluster.spec.paused && cluster.spec.size > 0 && !data_store::ends(cluster)
}

/// Its turn, if it is on its way. One that is paused or stopped is not, and keeps nobody from being next.
fn turn_of(cluster: &EtcdCluster) -> Option<Turn> {
    record::turn(cluster.status.as_ref()?).filter(|_| may_roll(cluster))
}

/// Why it is not well, by its last status: a member that is not healthy or has no Pod, or no quorum.
fn unwell(cluster: &EtcdCluster) -> Option<String> {
    let conditions = &cluster.status.as_ref()?.conditions;
    let is = |type_: ConditionType, status: &str| {
        conditions.iter().find(|one| one.type_ == type_.as_str() && one.status == status)
    };
    let wrong =
        is(ConditionType::Degraded, "True").or_else(|| is(ConditionType::QuorumAvailable, "False"))?;
    Some(wrong.message.clone())
}

/// Why it does not get ready, if a member was restarted with the new defaults. It was well when it began, so what its condition says came after
/// that.
fn stuck(cluster: &EtcdCluster, turn: Turn, now: Instant) -> Option<String> {
    let conditions = &cluster.status.as_ref()?.conditions;
    let degraded = conditions.iter().find(|one| one.type_ == ConditionType::Degraded.as_str())?;
    let since = Instant(degraded.last_transition_time.0.as_millisecond());
    (turn.restarted > 0 && degraded.status == "True" && now - since > STUCK_AFTER)
        .then(|| degraded.message.clone())
}

#[cfg(test)]
mod tests {
    use quorate_api::keys;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_whose_deletion_waits_for_tenants_of_kamaji_takes_new_defaults() {
        let deleted = |finalizers: &[&str]| {
            serde_json::from_value(json!({
                "apiVersion": "operator.etcd.io/v1alpha1", "kind": "EtcdCluster",
                "metadata": {
                    "name": "demo", "namespace": "default", "deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": finalizers,
                },
                "spec": { "size": 3, "version": "3.6.16" },
            }))
            .unwrap()
        };
        assert!(may_roll(&deleted(&[keys::FINALIZER, keys::DATA_STORE_FINALIZER])));
        assert!(!may_roll(&deleted(&[keys::FINALIZER])));
    }
}
