//! The Prometheus metrics of clusters.

mod figures;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use quorate_api::EtcdClusterStatus;
use quorate_model::{ClusterRef, Instant};

use crate::runtime::metrics::SECONDS;
pub use figures::{Figures, MemberFigures};
use figures::{Kept, Reported};

/// The metrics of all clusters. Clones count into the same ones.
#[derive(Clone, Debug)]
pub struct ClusterMetrics {
    etcd_calls: Family<EtcdCall, Counter>,
    effects: Family<EffectLabels, Counter>,
    effect_seconds: Family<Step, Histogram>,
    refusals: Family<Refusal, Counter>,
    clusters: Arc<Mutex<BTreeMap<ClusterRef, Kept>>>,
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
struct Step {
    step: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refusal {
    reason: String,
}

impl ClusterMetrics {
    /// Registers the metrics.
    pub fn new(to: &mut Registry) -> Self {
        let metrics = Self {
            etcd_calls: Family::default(),
            effects: Family::default(),
            effect_seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            refusals: Family::default(),
            clusters: Arc::default(),
        };
        let Self { etcd_calls, effects, effect_seconds, refusals, clusters: _ } = metrics.clone();
        to.register("etcd_calls", "Calls to members of clusters", etcd_calls);
        to.register("effects", "Effects carried out, by protocol step", effects);
        let help = "How long the request of an effect took, by protocol step";
        to.register("effect_seconds", help, effect_seconds);
        to.register("unsafe_refusals", "Steps that a safety rule refused when a plan was made", refusals);
        to.register_collector(Box::new(metrics.clone()));
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

    pub(crate) fn effect_took(&self, step: &str, time: Duration) {
        self.effect_seconds.get_or_create(&Step { step: step.to_owned() }).observe(time.as_secs_f64());
    }

    pub(crate) fn refusal(&self, reason: &str) {
        self.refusals.get_or_create(&Refusal { reason: reason.to_owned() }).inc();
    }

    /// Sets the figures of a cluster.
    pub(crate) fn cluster(&self, cluster: &ClusterRef, figures: Figures) {
        self.kept().entry(cluster.clone()).or_default().see(figures);
    }

    /// A pass has observed a cluster, and this is the status that goes with it.
    pub(crate) fn looked_at(&self, cluster: &ClusterRef, status: &EtcdClusterStatus, at: Instant) {
        self.kept().entry(cluster.clone()).or_default().report(Reported::of(status, at));
    }

    /// A step of a cluster was recorded, or an effect carried out.
    pub(crate) fn acted(&self, cluster: &ClusterRef, at: Instant) {
        self.kept().entry(cluster.clone()).or_default().act(at);
    }

    /// Removes the figures of a deleted cluster.
    pub(crate) fn forget(&self, cluster: &ClusterRef) {
        self.kept().remove(cluster);
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<ClusterRef, Kept>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registry of these metrics with a series of each.
#[cfg(test)]
pub(super) fn example(registry: &mut Registry) {
    let metrics = ClusterMetrics::new(registry);
    metrics.etcd_call("status", "ok");
    metrics.effect("B1", "ok");
    metrics.effect_took("B1", Duration::ZERO);
    metrics.refusal("R1");
    let demo = ClusterRef::new("default", "demo");
    metrics.cluster(&demo, tests::figures());
    let status = serde_json::json!({ "phase": "Running", "conditions": [{
        "type": "Available", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2027-01-01T00:00:00Z",
    }] });
    metrics.looked_at(&demo, &serde_json::from_value(status).unwrap(), Instant(0));
    metrics.acted(&demo, Instant(0));
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use quorate_api::status::Phase;
    use quorate_model::MemberId;
    use quorate_model::snapshot::AlarmKind;

    use super::*;

    fn world() -> (Registry, ClusterMetrics, ClusterRef) {
        let mut registry = Registry::with_prefix("quorate");
        let metrics = ClusterMetrics::new(&mut registry);
        (registry, metrics, ClusterRef::new("default", "demo"))
    }

    fn shown(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    pub(super) fn figures() -> Figures {
        let member = MemberFigures {
            healthy: true,
            voter: true,
            db: Some(200),
            db_in_use: Some(50),
            quota: Some(1000),
            lag: Some(7),
        };
        Figures {
            members: 3,
            available: true,
            leader: Some(MemberId(1)),
            alarms: [AlarmKind::NoSpace].into(),
            certificate_expiry: Some(1_800_000_000),
            certificate_overdue: Some(false),
            clients_cut_off: Some(1_700_000_000),
            backup_healthy: Some(false),
            of_members: [("demo-0".to_owned(), member), ("demo-1".to_owned(), MemberFigures::default())]
                .into(),
            ..Figures::default()
        }
    }

    #[test]
    fn a_cluster_that_is_gone_leaves_no_figures() {
        let (registry, metrics, demo) = world();
        metrics.cluster(&demo, figures());
        let at = Instant(1_800_000_000_999);
        metrics.looked_at(
            &demo,
            &EtcdClusterStatus { phase: Some(Phase::Running), ..Default::default() },
            at,
        );
        metrics.acted(&demo, at);
        let text = shown(&registry);
        let of = r#"{namespace="default",name="demo"}"#;
        for line in [
            format!("quorate_cluster_certificate_expiry_timestamp_seconds{of} 1800000000"),
            format!("quorate_cluster_clients_cut_off_timestamp_seconds{of} 1700000000"),
            format!("quorate_cluster_members{of} 3"),
            format!("quorate_cluster_leader_changes_total{of} 0"),
            format!("quorate_cluster_looked_at_timestamp_seconds{of} 1800000000"),
            format!("quorate_cluster_acted_at_timestamp_seconds{of} 1800000000"),
            r#"quorate_cluster_phase{namespace="default",name="demo",phase="Running"} 1"#.to_owned(),
            r#"quorate_cluster_alarm{namespace="default",name="demo",kind="NOSPACE"} 1"#.to_owned(),
            r#"quorate_cluster_alarm{namespace="default",name="demo",kind="CORRUPT"} 0"#.to_owned(),
            r#"quorate_member_quota_bytes{namespace="default",name="demo",member="demo-0"} 1000"#.to_owned(),
            r#"quorate_member_healthy{namespace="default",name="demo",member="demo-1"} 0"#.to_owned(),
            r#"quorate_member_voter{namespace="default",name="demo",member="demo-0"} 1"#.to_owned(),
            r#"quorate_member_voter{namespace="default",name="demo",member="demo-1"} 0"#.to_owned(),
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
        assert!(
            !text.contains(r#"quorate_member_db_bytes{namespace="default",name="demo",member="demo-1"}"#)
        );
        metrics.forget(&demo);
        assert!(!shown(&registry).contains("demo"));
    }

    #[test]
    fn a_cluster_that_waits_for_its_turn_is_told_from_one_that_is_stuck() {
        let (registry, metrics, demo) = world();
        for (reason, value) in [("WaitingForWave", 1), ("SpecPending", 0)] {
            let status = serde_json::json!({ "conditions": [{
                "type": "UpToDate", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": "2027-01-01T00:00:00Z",
            }] });
            metrics.looked_at(&demo, &serde_json::from_value(status).unwrap(), Instant(0));
            let text = shown(&registry);
            let line =
                format!("quorate_cluster_waits_for_wave{{namespace=\"default\",name=\"demo\"}} {value}\n");
            assert!(text.contains(&line), "{reason}: {text}");
        }
    }

    #[test]
    fn a_member_and_a_condition_that_are_gone_leave_no_series() {
        let (registry, metrics, demo) = world();
        let condition = |type_: &str, status: &str| {
            serde_json::from_value(serde_json::json!({
                "type": type_, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2027-01-01T00:00:00Z",
            }))
            .unwrap()
        };
        let status = |conditions| EtcdClusterStatus { conditions, ..EtcdClusterStatus::default() };
        metrics.cluster(&demo, figures());
        let before = [
            condition("Available", "True"),
            condition("Degraded", "False"),
            condition("UpToDate", "Unknown"),
        ];
        metrics.looked_at(&demo, &status(before.into()), Instant(0));
        let text = shown(&registry);
        assert!(text.contains(r#"type="Available"} 1"#) && text.contains(r#"type="Degraded"} 0"#), "{text}");
        assert!(!text.contains("UpToDate"), "nobody knows: {text}");
        metrics.looked_at(&demo, &status(vec![condition("Available", "False")]), Instant(0));
        let mut after = figures();
        after.of_members.remove("demo-0");
        metrics.cluster(&demo, after);
        let text = shown(&registry);
        assert!(text.contains(r#"type="Available"} 0"#), "{text}");
        assert!(!text.contains("Degraded") && !text.contains("demo-0"), "{text}");
    }

    #[test]
    fn a_leader_that_is_not_known_for_a_while_is_no_change() {
        let (registry, metrics, demo) = world();
        let led = |leader: Option<u64>| {
            metrics.cluster(&demo, Figures { leader: leader.map(MemberId), ..Figures::default() });
            let text = shown(&registry);
            let (_, rest) =
                text.split_once("leader_changes_total{namespace=\"default\",name=\"demo\"} ").unwrap();
            rest.lines().next().unwrap().to_owned()
        };
        assert_eq!([Some(1), Some(1), None, Some(1)].map(led), ["0"; 4]);
        assert_eq!([Some(2), None, Some(3)].map(led), ["1", "1", "2"]);
    }
}
