//! The live table of members: in place on a terminal, else whenever it changes.

use std::time::Duration;

use comfy_table::{Table, presets};
use quorate_localkube::fields::{flag, items, name, namespace, text};
use quorate_localkube::{LocalKube, ResourceKey};
use serde_json::Value;

use crate::home::Home;

/// Shows the table for as long as it is polled.
pub(super) async fn live(kube: &LocalKube, home: &Home, terminal: bool) {
    let mut changed = kube.store().subscribe();
    let mut shown = String::new();
    loop {
        let (clusters, _) = kube.store().list(&ResourceKey::new("operator.etcd.io", "etcdclusters"), None);
        let text = super::status::told(&clusters, home);
        if text != shown {
            if terminal {
                let lines = shown.lines().count();
                if lines > 0 {
                    // Up to where the last one began, and everything below is cleared.
                    print!("\x1b[{lines}A\x1b[J");
                }
            }
            println!("{text}");
            shown = text;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// The members of all clusters.
pub(super) fn members(clusters: &[Value]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["CLUSTER", "MEMBER", "ID", "ROLE", "LEADER", "VERSION", "HEALTHY", "NODE", "WHY"]);
    for cluster in clusters {
        for member in items(cluster, "/status/members") {
            let yes = |pointer: &str| if flag(member, pointer) { "yes" } else { "no" };
            table.add_row([
                format!("{}/{}", namespace(cluster), name(cluster)),
                text(member, "/name").to_owned(),
                text(member, "/id").to_owned(),
                text(member, "/role").to_owned(),
                if flag(member, "/isLeader") { "leader".to_owned() } else { String::new() },
                text(member, "/version").to_owned(),
                yes("/healthy").to_owned(),
                text(member, "/nodeName").to_owned(),
                text(member, "/reason").to_owned(),
            ]);
        }
    }
    table
}
