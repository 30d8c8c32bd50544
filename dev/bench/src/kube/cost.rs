//! The operator's cost while one or many clusters are created, and while they are idle: requests, CPU and memory, of the leader
//! and of the standby replica.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use quorate_api::quantity;

use super::super::Create;
use super::super::clusters::{Clusters, Desired};
use super::super::idle::SETTLE;
use super::super::metrics::{API_REQUESTS, ETCD_CALLS, label};
use super::super::turns::word;
use super::PATIENCE;
use super::namespace::Namespace;
use super::operator::{Replica, Role, Used, replicas};
use super::rig::Rig;

/// How many are created at a time. If all were, the API server of a small machine would not answer in time, and the operator
/// would restart.
const AT_A_TIME: usize = 3;

/// The cost over some time, of the leader and of each standby.
struct Span {
    title: String,
    seconds: f64,
    needs: Vec<(Role, Needs)>,
}

/// The cost of one replica.
struct Needs {
    /// By verb; those for the lease are separate.
    requests: BTreeMap<String, f64>,
    lease: f64,
    etcd_calls: f64,
    cpu_seconds: f64,
    resident_mib: f64,
}

/// Fails unless the nodes take as many Pods as there will be.
pub async fn has_room(rig: &Rig, args: &Create) -> Result<()> {
    let nodes = rig.nodes().await?;
    let room = nodes.iter().filter_map(|node| node.status.as_ref()?.allocatable.as_ref()?.get("pods"));
    let room: u64 = room.filter_map(quantity::bytes).sum();
    let pods: Api<Pod> = Api::all(rig.client("default").await?);
    let there = pods.list(&ListParams::default()).await?.items.len() as u64;
    let (clusters, members) = (args.clusters, args.members);
    let needed = u64::from(clusters) * u64::from(members);
    ensure!(
        needed <= room.saturating_sub(there),
        "{clusters} clusters of {members} are {needed} Pods; the nodes take {room} and have {there}: lower --clusters \
         or --members"
    );
    Ok(())
}

/// Measures and prints.
pub async fn measure(rig: &Rig, args: &Create, version: &str) -> Result<()> {
    let tls = args.tls.modes().contains(&true);
    let desired = Desired { size: args.members.into(), version, tls };
    let mut counts = vec![1, args.clusters];
    counts.dedup();
    println!(
        "\nthe operator's cost: clusters of {} (--members), TLS {}, {AT_A_TIME} created at a time, then idle for {} s",
        if args.members == 1 { "one member".to_owned() } else { format!("{} members", args.members) },
        word(tls),
        args.idle,
    );
    let mut spans = Vec::new();
    for count in counts {
        spans.extend(watched(rig, count, desired, Duration::from_secs(args.idle)).await?);
    }
    print(&spans);
    Ok(())
}

/// While this many are created, and while they are idle.
async fn watched(rig: &Rig, count: u32, desired: Desired<'_>, idle: Duration) -> Result<[Span; 2]> {
    let namespace = Namespace::create(rig).await?;
    let clusters = Clusters::new(namespace.client(), PATIENCE);
    let names: Vec<String> = (0..count).map(|n| format!("cost-{n}")).collect();
    let replicas = replicas(rig).await?;
    let before = used(rig, &replicas).await?;
    let creations = names.iter().map(|name| clusters.create(name, desired));
    let mut creations = stream::iter(creations).buffer_unordered(AT_A_TIME);
    while creations.try_next().await?.is_some() {}
    let created = used(rig, &replicas).await?;
    tokio::time::sleep(SETTLE).await;
    let settled = used(rig, &replicas).await?;
    tokio::time::sleep(idle).await;
    let after = used(rig, &replicas).await?;
    namespace.clear().await?;
    Ok([
        Span::between(format!("{count} created"), &replicas, &before, &created)?,
        Span::between(format!("{count} idle"), &replicas, &settled, &after)?,
    ])
}

/// Fails unless the processes and their roles are the same as before, because the counters of a new process begin at zero.
async fn used(rig: &Rig, replicas: &[Replica]) -> Result<Vec<Used>> {
    let still = self::replicas(rig).await?;
    let same = replicas.len() == still.len() && replicas.iter().zip(&still).all(|(one, now)| one.is(now));
    ensure!(
        same,
        "a replica of the operator was restarted or lost its lease meanwhile; on a busy machine it may"
    );
    try_join_all(replicas.iter().map(Replica::used)).await
}

impl Span {
    fn between(title: String, replicas: &[Replica], before: &[Used], after: &[Used]) -> Result<Self> {
        let seconds = after[0].at.duration_since(before[0].at).as_secs_f64();
        let mut needs = Vec::new();
        for ((replica, before), after) in replicas.iter().zip(before).zip(after) {
            match replica.role {
                // A leader has called members, so this fails if the counter has another name.
                Role::Leader => after.counts.demand(ETCD_CALLS)?,
                Role::Standby => {}
            }
            needs.push((replica.role, Needs::between(before, after)));
        }
        Ok(Self { title, seconds, needs })
    }

    /// The figure of a row, if there is such a replica.
    fn cell(&self, role: Role, figure: impl Fn(&Needs) -> String) -> String {
        let of_role = self.needs.iter().find(|(one, _)| *one == role);
        of_role.map_or("-".to_owned(), |(_, needs)| figure(needs))
    }
}

impl Needs {
    fn between(before: &Used, after: &Used) -> Self {
        let mut requests = BTreeMap::new();
        let mut lease = 0.0;
        for (series, more) in after.counts.since(&before.counts, API_REQUESTS) {
            if label(series, "kind") == Some("leases") {
                lease += more;
            } else {
                *requests.entry(label(series, "verb").unwrap_or("other").to_owned()).or_default() += more;
            }
        }
        let etcd_calls =
            after.counts.since(&before.counts, ETCD_CALLS).into_values().fold(0.0, |sum, more| sum + more);
        let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
        Self { requests, lease, etcd_calls, cpu_seconds, resident_mib: after.resident_mib }
    }
}

fn print(spans: &[Span]) {
    row("", spans.iter().map(|span| span.title.clone()));
    row("seconds", spans.iter().map(|span| format!("{:.1}", span.seconds)));
    for (role, name) in [(Role::Leader, "leader"), (Role::Standby, "standby")] {
        println!("{name}");
        let figures = |label: &str, figure: &dyn Fn(&Span, &Needs) -> String| {
            row(label, spans.iter().map(|span| span.cell(role, |needs| figure(span, needs))));
        };
        figures("  API requests", &|_, needs| {
            count(needs.requests.values().fold(0.0, |sum, more| sum + more))
        });
        for verb in verbs(spans, role) {
            let of_verb = |needs: &Needs| needs.requests.get(&verb).copied().unwrap_or_default();
            figures(&format!("    {verb}"), &|_, needs| count(of_verb(needs)));
        }
        figures("  for the lease", &|_, needs| count(needs.lease));
        figures("  etcd calls", &|_, needs| count(needs.etcd_calls));
        figures("  CPU, seconds", &|_, needs| format!("{:.2}", needs.cpu_seconds));
        figures("  CPU, % of a core", &|span, needs| {
            format!("{:.1}", needs.cpu_seconds / span.seconds * 100.0)
        });
        figures("  RSS at the end, MiB", &|_, needs| format!("{:.1}", needs.resident_mib));
    }
}

/// The sum of all series.
fn verbs(spans: &[Span], role: Role) -> Vec<String> {
    let needs = spans.iter().flat_map(|span| &span.needs).filter(|(one, _)| *one == role);
    let mut verbs: Vec<String> = needs.flat_map(|(_, needs)| needs.requests.keys().cloned()).collect();
    verbs.sort();
    verbs.dedup();
    verbs
}

fn row(label: &str, cells: impl Iterator<Item = String>) {
    println!("{}", cells.fold(format!("{label:22}"), |row, cell| format!("{row}  {cell:>12}")));
}

fn count(figure: f64) -> String {
    format!("{figure:.0}")
}
