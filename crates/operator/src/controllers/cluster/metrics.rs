//! The Prometheus metrics of clusters.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use quorate_model::ClusterRef;

/// The metrics of all clusters. Clones count into the same ones.
#[derive(Clone, Debug)]
pub struct ClusterMetrics {
    etcd_calls: Family<EtcdCall, Counter>,
    effects: Family<EffectLabels, Counter>,
    refusals: Family<Refusal, Counter>,
    members: Family<Cluster, Gauge>,
    desired: Family<Cluster, Gauge>,
    ready: Family<Cluster, Gauge>,
    healthy: Family<Cluster, Gauge>,
    leader: Family<Cluster, Gauge>,
    available: Family<Cluster, Gauge>,
    certificate_expiry: Family<Cluster, Gauge>,
    backup_healthy: Family<Cluster, Gauge>,
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
    /// Members that are healthy.
    pub healthy: usize,
    /// Whether a leader is known.
    pub leader: bool,
    /// Whether a quorum answered.
    pub available: bool,
    /// When the first certificate ends, in seconds since the Unix epoch; `None` without TLS.
    pub certificate_expiry: Option<i64>,
    /// Whether the backups of its schedules come about; `None` if no schedule names it, or that is not known yet.
    pub backup_healthy: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EtcdCall {
    method: String,
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
struct Cluster {
    namespace: String,
    name: String,
}

impl ClusterMetrics {
    /// Registers the metrics.
    pub fn new(to: &mut Registry) -> Self {
        let metrics = Self {
            etcd_calls: Family::default(),
            effects: Family::default(),
            refusals: Family::default(),
            members: Family::default(),
            desired: Family::default(),
            ready: Family::default(),
            healthy: Family::default(),
            leader: Family::default(),
            available: Family::default(),
            certificate_expiry: Family::default(),
            backup_healthy: Family::default(),
        };
        let Self {
            etcd_calls,
            effects,
            refusals,
            members,
            desired,
            ready,
            healthy,
            leader,
            available,
            certificate_expiry,
            backup_healthy,
        } = metrics.clone();
        to.register("etcd_calls", "Calls to members of clusters", etcd_calls);
        to.register("effects", "Effects carried out, by protocol step", effects);
        to.register("unsafe_refusals", "Steps that a safety rule refused when a plan was made", refusals);
        to.register("cluster_members", "Members in etcd's list", members);
        to.register("cluster_desired", "Members that the spec asks for", desired);
        to.register("cluster_ready", "Members whose Pod is ready", ready);
        to.register("cluster_healthy", "Members that are healthy", healthy);
        to.register("cluster_leader", "Whether a leader is known", leader);
        to.register(
            "cluster_available",
            "Whether a client that connects through the client Service can read and write",
            available,
        );
        to.register(
            "cluster_certificate_expiry_timestamp_seconds",
            "When the first certificate ends, the authority included",
            certificate_expiry,
        );
        to.register(
            "cluster_backup_healthy",
            "Whether the backups of the schedules that name the cluster come about",
            backup_healthy,
        );
        metrics
    }

    pub(crate) fn etcd_call(&self, method: &str, outcome: &str) {
        let labels = EtcdCall { method: method.to_owned(), outcome: outcome.to_owned() };
        self.etcd_calls.get_or_create(&labels).inc();
    }

    pub(crate) fn effect(&self, step: &str, outcome: &str) {
        let labels = EffectLabels { step: step.to_owned(), outcome: outcome.to_owned() };
        self.effects.get_or_create(&labels).inc();
    }

    pub(crate) fn refusal(&self, reason: &str) {
        self.refusals.get_or_create(&Refusal { reason: reason.to_owned() }).inc();
    }

    pub(crate) fn cluster(&self, cluster: &ClusterRef, figures: Figures) {
        let labels = labels(cluster);
        let set = |family: &Family<Cluster, Gauge>, value: usize| {
            family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        let Figures {
            members,
            desired,
            ready,
            healthy,
            leader,
            available,
            certificate_expiry,
            backup_healthy,
        } = figures;
        set(&self.members, members);
        set(&self.desired, desired);
        set(&self.ready, ready);
        set(&self.healthy, healthy);
        set(&self.leader, usize::from(leader));
        set(&self.available, usize::from(available));
        match certificate_expiry {
            Some(at) => drop(self.certificate_expiry.get_or_create(&labels).set(at)),
            None => drop(self.certificate_expiry.remove(&labels)),
        }
        match backup_healthy {
            Some(healthy) => drop(self.backup_healthy.get_or_create(&labels).set(i64::from(healthy))),
            None => drop(self.backup_healthy.remove(&labels)),
        }
    }

    /// Removes the figures of a deleted cluster.
    pub(crate) fn forget(&self, cluster: &ClusterRef) {
        let labels = labels(cluster);
        let families = [
            &self.members,
            &self.desired,
            &self.ready,
            &self.healthy,
            &self.leader,
            &self.available,
            &self.certificate_expiry,
            &self.backup_healthy,
        ];
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
        let mut registry = Registry::with_prefix("quorate");
        let metrics = ClusterMetrics::new(&mut registry);
        let demo = ClusterRef::new("default", "demo");
        let shown = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let figures = Figures {
            members: 3,
            available: true,
            certificate_expiry: Some(1_800_000_000),
            backup_healthy: Some(false),
            ..Figures::default()
        };
        metrics.cluster(&demo, figures);
        let expiry = r#"quorate_cluster_certificate_expiry_timestamp_seconds{namespace="default",name="demo"} 1800000000"#;
        assert!(shown().contains(expiry), "{}", shown());
        assert!(
            shown().contains(r#"quorate_cluster_members{namespace="default",name="demo"} 3"#),
            "{}",
            shown()
        );
        metrics.forget(&demo);
        assert!(!shown().contains("demo"));
    }
}
