//! The live table of members: updated in place on a terminal, otherwise printed again when it changes.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use comfy_table::{Table, presets};
use quorate_apistore::ResourceKey;
use quorate_apistore::fields::{condition, flag, items, name, namespace, text, uid};
use quorate_localkube::LocalKube;
use serde_json::Value;

use super::revisions::{self, Revisions};
use super::{print_line, status};
use crate::home::Home;

/// How old the revisions in it may be.
const REFRESH: Duration = Duration::from_secs(1);

/// The least time between two updates.
const PACE: Duration = Duration::from_millis(200);

/// Shows the table while this future is polled.
pub(super) async fn live(kube: &LocalKube, home: &Home, terminal: bool) {
    let client = kube::Client::new(kube.service(), "default");
    let mut changed = kube.store().subscribe();
    let (mut shown, mut introduced) = (String::new(), BTreeSet::new());
    loop {
        changed.mark_unchanged();
        let (clusters, _) = kube.store().list(&ResourceKey::new("operator.etcd.io", "etcdclusters"), None);
        let (pods, _) = kube.store().list(&ResourceKey::new("", "pods"), None);
        let revisions = if terminal {
            revisions::of(&pods).await
        } else {
            // In a log the revisions would print a new table with every write.
            Revisions::new()
        };
        let text = status::overview(&clusters, &pods, &revisions, home);
        let lines = connect_commands(&client, &clusters, home, &mut introduced).await;
        if text != shown || !lines.is_empty() {
            if terminal && !shown.is_empty() {
                // Moves to the start of the last table and clears everything below.
                let _ = write!(std::io::stdout(), "\x1b[{}A\x1b[J", shown.lines().count());
            }
            for line in lines {
                print_line(format_args!("  {line}\n"));
            }
            print_line(&text);
            shown = text;
        }
        tokio::time::sleep(PACE).await;
        // The end of the watch is no error; the table runs until it is dropped.
        let _ = tokio::time::timeout(REFRESH, changed.changed()).await;
    }
}

/// A command to copy for every cluster that is available for the first time.
async fn connect_commands(
    client: &kube::Client,
    clusters: &[Value],
    home: &Home,
    introduced: &mut BTreeSet<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for cluster in clusters.iter().filter(|cluster| condition(cluster, "Available") == "True") {
        if introduced.contains(uid(cluster)) {
            continue;
        }
        if let Some(line) = status::etcdctl(client, home, cluster).await {
            introduced.insert(uid(cluster).to_owned());
            lines.push(line);
        }
    }
    lines
}

/// The members of all clusters.
pub(super) fn members(clusters: &[Value], revisions: &Revisions) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "CLUSTER", "MEMBER", "ID", "ROLE", "LEADER", "VERSION", "HEALTHY", "REVISION", "NODE", "REASON",
    ]);
    for cluster in clusters {
        for member in items(cluster, "/status/members") {
            let yes = |pointer: &str| if flag(member, pointer) { "yes" } else { "no" };
            let pod = (namespace(cluster).to_owned(), text(member, "/name").to_owned());
            table.add_row([
                format!("{}/{}", namespace(cluster), name(cluster)),
                text(member, "/name").to_owned(),
                text(member, "/id").to_owned(),
                text(member, "/role").to_owned(),
                if flag(member, "/isLeader") { "leader".to_owned() } else { String::new() },
                text(member, "/version").to_owned(),
                yes("/healthy").to_owned(),
                revisions.get(&pod).map(u64::to_string).unwrap_or_default(),
                text(member, "/nodeName").to_owned(),
                text(member, "/reason").to_owned(),
            ]);
        }
    }
    table
}
