//! The figures of a fleet, a column for each size.

use std::collections::BTreeMap;
use std::time::Duration;

use super::latency::{Kind, Latencies};

/// What was measured with one number of clusters.
pub struct Figures {
    pub clusters: usize,
    pub created: Duration,
    pub creator_peak: f64,
    pub start: Duration,
    pub leader: f64,
    pub leader_peak: f64,
    pub standby: f64,
    pub open_files: usize,
    pub file_limit: String,
    pub idle: Idle,
    pub take_over: Duration,
    pub take_over_peak: f64,
    pub latencies: Latencies,
}

/// What an idle fleet costs.
pub struct Idle {
    pub seconds: f64,
    /// Percent of a core.
    pub leader: f64,
    pub standby: f64,
    /// Requests to the API server that change something.
    pub writes: f64,
    /// The most calls of Status in one second.
    pub busiest: u64,
    /// Calls to members, by method.
    pub calls: BTreeMap<String, f64>,
}

/// Prints them.
pub fn print(all: &[Figures]) {
    println!("\nmemory limit of the chart: 512Mi, without a limit of CPU");
    row(all, "clusters of three", |one| one.clusters.to_string());
    row(all, "created, s", |one| format!("{:.0}", one.created.as_secs_f64()));
    row(all, "  peak RSS of that replica, MiB", |one| format!("{:.1}", one.creator_peak));
    row(all, "start to all observed, s", |one| format!("{:.1}", one.start.as_secs_f64()));
    row(all, "take-over to all observed, s", |one| format!("{:.1}", one.take_over.as_secs_f64()));
    row(all, "leader, RSS, MiB", |one| format!("{:.1}", one.leader));
    row(all, "  peak, from its start on", |one| format!("{:.1}", one.leader_peak));
    row(all, "  peak, after a take-over and events", |one| format!("{:.1}", one.take_over_peak));
    row(all, "standby, RSS, MiB", |one| format!("{:.1}", one.standby));
    row(all, "open files of the leader", |one| one.open_files.to_string());
    row(all, "  its soft limit", |one| one.file_limit.clone());
    row(all, "idle, s", |one| format!("{:.0}", one.idle.seconds));
    row(all, "  CPU of the leader, % of a core", |one| format!("{:.1}", one.idle.leader));
    row(all, "  CPU of the standby", |one| format!("{:.1}", one.idle.standby));
    row(all, "  writes to the API server", |one| format!("{:.0}", one.idle.writes));
    row(all, "  most Status calls in a second", |one| one.idle.busiest.to_string());
    let mut methods: Vec<&String> = all.iter().flat_map(|one| one.idle.calls.keys()).collect();
    methods.sort();
    methods.dedup();
    for method in methods {
        row(all, &format!("  {method} calls"), |one| {
            format!("{:.0}", one.idle.calls.get(method).copied().unwrap_or_default())
        });
    }
    let kinds = std::iter::once(None).chain(Kind::ALL.map(Some));
    for kind in kinds {
        let words = kind.map_or("event to first effect", Kind::words);
        row(all, &format!("{words}, p50 p99 max, ms"), |one| {
            let part = |part| {
                let took = one.latencies.quantile(kind, part);
                took.map_or("-".to_owned(), |took| took.as_millis().to_string())
            };
            format!("{} {} {}", part(0.5), part(0.99), part(1.0))
        });
    }
    row(all, "events, without an effect", |one| {
        format!("{}, {}", one.latencies.took.len(), one.latencies.none)
    });
}

fn row(all: &[Figures], words: &str, cell: impl Fn(&Figures) -> String) {
    let cells = all.iter().map(|one| format!("{:>16}", cell(one)));
    println!("{words:40}{}", cells.collect::<String>());
}
