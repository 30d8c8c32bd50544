//! What a person sees of a cluster while something happens to it, second by second: its conditions, its members' Pods, and the nodes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use tokio::task::JoinHandle;

use crate::{NamespaceClient, is_ready, report};

/// How often it looks.
const PACE: Duration = Duration::from_millis(200);

/// The conditions that are followed.
const CONDITIONS: [&str; 3] = ["Ready", "Available", "Degraded"];

/// Reports each change from now on, until it is dropped.
#[must_use = "it ends when this is dropped"]
pub struct Timeline(JoinHandle<()>);

impl Timeline {
    /// Of this cluster, under this heading.
    pub fn of(world: &NamespaceClient, cluster: &str, heading: &str) -> Self {
        report(&format!("timeline: {heading}"));
        let (world, cluster) = (world.clone(), cluster.to_owned());
        Self(tokio::spawn(async move {
            let began = Instant::now();
            let mut shown = BTreeMap::new();
            loop {
                // What cannot be read now is read the next time.
                let seen = seen(&world, &cluster).await.unwrap_or_else(|_| shown.clone());
                for line in changes(&shown, &seen) {
                    report(&format!("timeline: {:6.1} s  {line}", began.elapsed().as_secs_f64()));
                }
                shown = seen;
                tokio::time::sleep(PACE).await;
            }
        }))
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Seen = BTreeMap<String, String>;

fn changes(before: &Seen, now: &Seen) -> Vec<String> {
    let gone = before.keys().filter(|name| !now.contains_key(*name)).map(|name| format!("{name}: gone"));
    let new = now.iter().filter(|(name, state)| before.get(*name) != Some(state));
    gone.chain(new.map(|(name, state)| format!("{name}: {state}"))).collect()
}

async fn seen(world: &NamespaceClient, cluster: &str) -> anyhow::Result<Seen> {
    let mut seen = Seen::new();
    let status = world.clusters().get(cluster).await?.status.unwrap_or_default();
    for condition in status.conditions.iter().filter(|one| CONDITIONS.contains(&&*one.type_)) {
        let state = format!("{} ({}: {})", condition.status, condition.reason, condition.message);
        seen.insert(condition.type_.clone(), state);
    }
    for pod in world.pods_of(cluster).await? {
        seen.insert(format!("Pod {}", pod.name_any()), of_pod(&pod));
    }
    for node in nodes(world.client.clone()).await? {
        seen.insert(format!("Node {}", node.name_any()), of_node(&node).to_owned());
    }
    Ok(seen)
}

async fn nodes(client: Client) -> kube::Result<Vec<Node>> {
    Ok(Api::<Node>::all(client).list(&ListParams::default()).await?.items)
}

fn of_pod(pod: &Pod) -> String {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("no node");
    let state = if pod.metadata.deletion_timestamp.is_some() {
        "is terminating"
    } else if is_ready(pod) {
        "ready"
    } else {
        "not ready"
    };
    format!("{state}, {node}")
}

fn of_node(node: &Node) -> &'static str {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready =
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    match (is_ready, is_cordoned) {
        (true, false) => "ready",
        (true, true) => "ready, cordoned",
        (false, _) => "not ready",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_told() {
        let of = |all: &[(&str, &str)]| -> Seen {
            all.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
        };
        let before = of(&[("Pod a", "ready"), ("Pod b", "ready"), ("Node n", "ready")]);
        let now = of(&[("Pod b", "not ready"), ("Node n", "ready"), ("Pod c", "ready")]);
        assert_eq!(changes(&before, &now), ["Pod a: gone", "Pod b: not ready", "Pod c: ready"]);
    }
}
