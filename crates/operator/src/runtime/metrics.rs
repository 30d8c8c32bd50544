//! The Prometheus metrics of every controller.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::runtime::lease::Leadership;

/// The buckets of what takes from some milliseconds to half a minute, in seconds: passes and their requests.
pub(crate) const SECONDS: [f64; 9] = [0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// The metrics of the runtime. Clones count into the same ones.
#[derive(Clone, Debug)]
pub struct Metrics {
    api_requests: Family<ApiRequest, Counter>,
    passes: Family<Pass, Counter>,
    pass_seconds: Histogram,
    dropped: Counter,
    events: Family<Outcome, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiRequest {
    verb: String,
    kind: String,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pass {
    controller: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    commit: &'static str,
}

impl Build {
    /// Who builds a release sets the commit. It is not asked of git: every commit would then be another program.
    const THIS: Self = Self {
        version: env!("CARGO_PKG_VERSION"),
        commit: match option_env!("QUORATE_COMMIT") {
            Some(commit) => commit,
            None => "unknown",
        },
    };
}

/// Shows whether this replica acts.
#[derive(Debug)]
pub struct Leads(pub Leadership);

impl Collector for Leads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauge = ConstGauge::<i64>::new(i64::from(self.0.may_act()));
        let help = "Whether this replica acts; of all replicas one does";
        gauge.encode(encoder.encode_descriptor("leader", help, None, gauge.metric_type())?)
    }
}

impl Metrics {
    /// Registers the metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            api_requests: Family::default(),
            passes: Family::default(),
            pass_seconds: Histogram::new(SECONDS),
            dropped: Counter::default(),
            events: Family::default(),
        };
        let Self { api_requests, passes, pass_seconds, dropped, events } = metrics.clone();
        registry.register("api_requests", "Requests to the Kubernetes API", api_requests);
        registry.register("reconciles", "Passes, by controller and outcome", passes);
        registry.register("reconcile_seconds", "Duration of a pass", pass_seconds);
        registry.register("dropped_writes", "Writes not sent because leadership was not certain", dropped);
        registry.register("events", "Kubernetes events published", events);
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build::THIS).set(1);
        registry.register("build_info", "1, with what the operator was built from", build);
        metrics
    }

    pub(crate) fn api_request(&self, verb: &str, kind: &str, code: &str) {
        let labels = ApiRequest { verb: verb.to_owned(), kind: kind.to_owned(), code: code.to_owned() };
        self.api_requests.get_or_create(&labels).inc();
    }

    pub(crate) fn pass(&self, controller: &'static str, outcome: &'static str, took: Duration) {
        self.passes.get_or_create(&Pass { controller, outcome }).inc();
        self.pass_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn dropped_write(&self) {
        self.dropped.inc();
    }

    pub(crate) fn event(&self, outcome: &'static str) {
        self.events.get_or_create(&Outcome { outcome }).inc();
    }
}

/// A registry of these metrics with a series of each.
#[cfg(test)]
pub(crate) fn example(registry: &mut Registry) {
    let metrics = Metrics::new(registry);
    metrics.api_request("get", "pods", "200");
    metrics.pass("cluster", "calm", Duration::ZERO);
    metrics.event("ok");
    registry.register_collector(Box::new(Leads(Leadership::endless())));
    registry.register_collector(Box::new(crate::runtime::files::OpenFiles));
}
