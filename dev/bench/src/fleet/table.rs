//! The figures of a fleet, a column for each size.

use std::collections::BTreeMap;
use std::time::Duration;

use super::latency::{Kind, Latencies};
use super::{hang, rack, relist};

/// What was measured with one number of clusters.
pub struct Figures {
    pub clusters: usize,
    /// How many of them share a namespace with others.
    pub shared: usize,
    /// EtcdBackups that have ended.
    pub backups: usize,
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
    pub hang: Option<hang::Figures>,
    pub rack: Option<rack::Figures>,
    pub relist: Option<relist::Figures>,
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
    println!("\nmemory limit of the chart: 768Mi, without a limit of CPU");
    row(all, "clusters of three", |one| one.clusters.to_string());
    row(all, "  in a namespace with others", |one| one.shared.to_string());
    row(all, "EtcdBackups that have ended", |one| one.backups.to_string());
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
        row(all, &format!("{words}, p50 p99 max, ms"), |one| one.latencies.summary(kind));
    }
    row(all, "events, without an effect", |one| one.latencies.counts());
    hanging(all);
    lost_rack(all);
    listed_again(all);
}

fn hanging(all: &[Figures]) {
    if all.iter().all(|one| one.hang.is_none()) {
        return;
    }
    let of = |one: &Figures, cell: &dyn Fn(&hang::Figures) -> String| {
        one.hang.as_ref().map_or("-".to_owned(), cell)
    };
    println!("while a webhook hangs for the writes in one namespace");
    row(all, "  clusters there", |one| of(one, &|hang| hang.clusters.to_string()));
    row(all, "  requests that hung", |one| of(one, &|hang| hang.hung.to_string()));
    row(all, "  others: p50 p99 max, ms", |one| of(one, &|hang| hang.latencies.summary(None)));
    row(all, "  events, without an effect", |one| of(one, &|hang| hang.latencies.counts()));
    row(all, "  those there are ready after, s", |one| of(one, &|hang| seconds(hang.recovered)));
}

fn lost_rack(all: &[Figures]) {
    if all.iter().all(|one| one.rack.is_none()) {
        return;
    }
    let of = |one: &Figures, cell: &dyn Fn(&rack::Figures) -> String| {
        one.rack.as_ref().map_or("-".to_owned(), cell)
    };
    println!("while a tenth of the nodes is gone");
    row(all, "  clusters with a member there", |one| of(one, &|rack| rack.affected.to_string()));
    row(all, "  other clusters with a write", |one| of(one, &|rack| rack.disturbed.to_string()));
    row(all, "  CPU of the leader, % of a core", |one| of(one, &|rack| format!("{:.1}", rack.cpu)));
    row(all, "  leader, RSS, MiB", |one| of(one, &|rack| format!("{:.1}", rack.resident)));
    let mut kinds: Vec<&String> =
        all.iter().flat_map(|one| &one.rack).flat_map(|rack| rack.requests.keys()).collect();
    kinds.sort();
    kinds.dedup();
    for kind in kinds {
        row(all, &format!("  {kind}, in a minute"), |one| {
            of(one, &|rack| format!("{:.0}", rack.requests.get(kind).copied().unwrap_or_default()))
        });
    }
    row(all, "  all are ready after its return, s", |one| of(one, &|rack| seconds(rack.recovered)));
}

fn listed_again(all: &[Figures]) {
    if all.iter().all(|one| one.relist.is_none()) {
        return;
    }
    let of = |one: &Figures, cell: &dyn Fn(&relist::Figures) -> String| {
        one.relist.as_ref().map_or("-".to_owned(), cell)
    };
    println!("when the API server is restarted");
    row(all, "  away, s", |one| of(one, &|relist| seconds(relist.away)));
    row(all, "  its return to the effect of an edit, s", |one| of(one, &|relist| seconds(relist.effect)));
    row(all, "  its return to the last list, s", |one| of(one, &|relist| seconds(relist.watches)));
    row(all, "  lists of both replicas, in pages", |one| of(one, &|relist| format!("{:.0}", relist.lists)));
    row(all, "  its end to all observed, s", |one| of(one, &|relist| seconds(relist.observed)));
    row(all, "  leader, peak RSS, MiB", |one| of(one, &|relist| format!("{:.1}", relist.leader_peak)));
    row(all, "  standby, peak RSS, MiB", |one| of(one, &|relist| format!("{:.1}", relist.standby_peak)));
    row(all, "  replicas that ended", |one| of(one, &|relist| relist.ended.to_string()));
}

fn seconds(took: Duration) -> String {
    format!("{:.1}", took.as_secs_f64())
}

fn row(all: &[Figures], words: &str, cell: impl Fn(&Figures) -> String) {
    let cells = all.iter().map(|one| format!("{:>16}", cell(one)));
    println!("{words:44}{}", cells.collect::<String>());
}
