//! What is counted, for Prometheus.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use quorate_model::ClusterRef;

/// All metrics. Clones count into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    api_requests: Family<ApiRequest, Counter>,
    etcd_calls: Family<EtcdCall, Counter>,
    passes: Family<Pass, Counter>,
    pass_seconds: Histogram,
    effects: Family<EffectLabels, Counter>,
    refusals: Family<Refusal, Counter>,
    dropped: Counter,
    events: Family<Outcome, Counter>,
    members: Family<Cluster, Gauge>,
    desired: Family<Cluster, Gauge>,
    ready: Family<Cluster, Gauge>,
    healthy: Family<Cluster, Gauge>,
    leader: Family<Cluster, Gauge>,
    available: Family<Cluster, Gauge>,
}

/// The figures of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Members in etcd's list.
    pub members: usize,
    /// Members desired.
    pub desired: usize,
    /// Members whose Pod is ready.
    pub ready: usize,
    /// Members that answer and follow a leader.
    pub healthy: usize,
    /// Whether a leader is known.
    pub leader: bool,
    /// Whether a quorum was seen.
    pub available: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiRequest {
    verb: String,
    kind: String,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EtcdCall {
    method: String,
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pass {
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EffectLabels {
    step: String,
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Cluster {
    namespace: String,
    name: String,
}

impl Metrics {
    /// The metrics and the registry that shows them.
    pub fn new() -> (Self, Registry) {
        let metrics = Self {
            api_requests: Family::default(),
            etcd_calls: Family::default(),
            passes: Family::default(),
            pass_seconds: Histogram::new([0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]),
            effects: Family::default(),
            refusals: Family::default(),
            dropped: Counter::default(),
            events: Family::default(),
            members: Family::default(),
            desired: Family::default(),
            ready: Family::default(),
            healthy: Family::default(),
            leader: Family::default(),
            available: Family::default(),
        };
        let mut registry = Registry::with_prefix("quorate");
        metrics.register(&mut registry);
        (metrics, registry)
    }

    fn register(&self, to: &mut Registry) {
        to.register("api_requests", "Requests to the Kubernetes API", self.api_requests.clone());
        to.register("etcd_calls", "Calls to members of clusters", self.etcd_calls.clone());
        to.register("reconciles", "Passes over clusters", self.passes.clone());
        to.register("reconcile_seconds", "How long a pass took", self.pass_seconds.clone());
        to.register("effects", "Effects carried out, by protocol step", self.effects.clone());
        to.register(
            "unsafe_refusals",
            "Steps a safety rule forbade when a plan was made",
            self.refusals.clone(),
        );
        to.register(
            "dropped_writes",
            "Writes not sent because leadership was not certain",
            self.dropped.clone(),
        );
        to.register("events", "Kubernetes events published", self.events.clone());
        to.register("cluster_members", "Members in etcd's list", self.members.clone());
        to.register("cluster_wanted", "Members the spec asks for", self.desired.clone());
        to.register("cluster_ready", "Members whose Pod is ready", self.ready.clone());
        to.register("cluster_healthy", "Members that answer and follow a leader", self.healthy.clone());
        to.register("cluster_leader", "Whether a leader is known", self.leader.clone());
        to.register("cluster_available", "Whether a quorum was seen", self.available.clone());
    }

    pub(crate) fn api_request(&self, verb: &str, kind: &str, code: &str) {
        let labels = ApiRequest { verb: verb.to_owned(), kind: kind.to_owned(), code: code.to_owned() };
        self.api_requests.get_or_create(&labels).inc();
    }

    pub(crate) fn etcd_call(&self, method: &str, outcome: &str) {
        let labels = EtcdCall { method: method.to_owned(), outcome: outcome.to_owned() };
        self.etcd_calls.get_or_create(&labels).inc();
    }

    pub(crate) fn pass(&self, outcome: &str, took: Duration) {
        self.passes.get_or_create(&Pass { outcome: outcome.to_owned() }).inc();
        self.pass_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn effect(&self, step: &str, outcome: &str) {
        let labels = EffectLabels { step: step.to_owned(), outcome: outcome.to_owned() };
        self.effects.get_or_create(&labels).inc();
    }

    pub(crate) fn refusal(&self, reason: &str) {
        self.refusals.get_or_create(&Refusal { reason: reason.to_owned() }).inc();
    }

    pub(crate) fn dropped_write(&self) {
        self.dropped.inc();
    }

    pub(crate) fn event(&self, outcome: &str) {
        self.events.get_or_create(&Outcome { outcome: outcome.to_owned() }).inc();
    }

    pub(crate) fn cluster(&self, cluster: &ClusterRef, figures: Figures) {
        let labels = labels(cluster);
        let set = |family: &Family<Cluster, Gauge>, value: usize| {
            family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let Figures { members, desired, ready, healthy, leader, available } = figures;
        set(&self.members, members);
        set(&self.desired, desired);
        set(&self.ready, ready);
        set(&self.healthy, healthy);
        set(&self.leader, usize::from(leader));
        set(&self.available, usize::from(available));
    }

    /// A cluster that is gone has no figures.
    pub(crate) fn forget(&self, cluster: &ClusterRef) {
        let labels = labels(cluster);
        let families =
            [&self.members, &self.desired, &self.ready, &self.healthy, &self.leader, &self.available];
        for family in families {
            family.remove(&labels);
        }
    }
}

fn labels(cluster: &ClusterRef) -> Cluster {
    Cluster { namespace: cluster.namespace.clone(), name: cluster.name.clone() }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_cluster_that_is_gone_leaves_no_figures() {
        let (metrics, registry) = Metrics::new();
        let demo = ClusterRef::new("default", "demo");
        let shown = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        metrics.cluster(&demo, Figures { members: 3, available: true, ..Figures::default() });
        assert!(
            shown().contains(r#"quorate_cluster_members{namespace="default",name="demo"} 3"#),
            "{}",
            shown()
        );
        metrics.forget(&demo);
        assert!(!shown().contains("demo"));
    }
}
