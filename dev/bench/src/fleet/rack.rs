//! A rack is lost: a tenth of the nodes is gone. What the operator asks the API server for meanwhile, and whether the clusters that have no
//! member there are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::clusters::Effects;
use super::etcd::Key;
use super::nodes::Nodes;
use super::operator::Operator;
use super::pod::now;
use crate::metrics::{API_REQUESTS, label};

/// Members of a cluster are in different zones.
const ZONES: usize = 3;

/// The racks of a zone. One that is lost is one of its nodes in ten, in each of them: a tenth of all.
const RACKS: usize = 10;

/// How many nodes are reported at a time.
const AT_A_TIME: usize = 8;

/// What a lost rack costs.
pub struct Figures {
    /// How many clusters have a member there.
    pub affected: usize,
    /// Requests to the API server in a minute, by verb and resource.
    pub requests: BTreeMap<String, f64>,
    /// Percent of a core.
    pub cpu: f64,
    pub resident: f64,
    /// How many of the other clusters the operator wrote something for.
    pub disturbed: usize,
    /// From the return of the nodes until all clusters are ready.
    pub recovered: Duration,
}

/// The node of a member: one of its ordinal's zone, the same for each Pod of it.
pub fn node_of((namespace, cluster): &Key, member: &str) -> String {
    let ordinal: usize =
        member.rsplit('-').next().and_then(|ordinal| ordinal.parse().ok()).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (namespace, cluster).hash(&mut hasher);
    // Members of one cluster are in racks of different numbers: no cluster loses two.
    let rack = usize::try_from(hasher.finish() % RACKS as u64).unwrap_or_default() + ordinal;
    node(ordinal % ZONES, rack % RACKS)
}

fn node(zone: usize, rack: usize) -> String {
    format!("node-{zone}-{rack}")
}

/// All nodes, ready.
pub async fn create_nodes(client: &Client) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    for zone in 0..ZONES {
        for rack in 0..RACKS {
            let labels = json!({
                "kubernetes.io/hostname": node(zone, rack), "topology.kubernetes.io/zone": format!("zone-{zone}"),
            });
            let made = json!({"metadata": {"name": node(zone, rack), "labels": labels}});
            nodes.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
        }
    }
    let all: BTreeSet<String> =
        (0..ZONES).flat_map(|zone| (0..RACKS).map(move |rack| node(zone, rack))).collect();
    report(client, &all, true).await
}

/// What the node controller writes: whether these nodes are ready, and the taint of those that do not answer.
async fn report(client: &Client, nodes: &BTreeSet<String>, ready: bool) -> Result<()> {
    let api = Api::<Node>::all(client.clone());
    let (is, reason) = if ready { ("True", "KubeletReady") } else { ("Unknown", "NodeStatusUnknown") };
    let at = now().to_string();
    let status = json!({"status": {"conditions": [{
        "type": "Ready", "status": is, "reason": reason, "message": "", "lastHeartbeatTime": at, "lastTransitionTime": at,
    }]}});
    let taint = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": at}]);
    let spec = json!({"spec": {"taints": if ready { json!(null) } else { taint }}});
    let (api, status, spec) = (&api, &status, &spec);
    let reported = nodes.iter().map(|node| async move {
        api.patch_status(node, &PatchParams::default(), &Patch::Merge(status)).await?;
        api.patch(node, &PatchParams::default(), &Patch::Merge(spec)).await?;
        anyhow::Ok(())
    });
    stream::iter(reported).buffer_unordered(AT_A_TIME).try_collect::<()>().await
}

/// The rack that is lost.
pub struct Rack {
    client: Client,
    nodes: BTreeSet<String>,
    affected: BTreeSet<Key>,
    since: Instant,
}

impl Rack {
    /// Takes it away.
    pub async fn lose(client: Client, pods: &Nodes) -> Result<Self> {
        let since = Instant::now();
        let nodes: BTreeSet<String> = (0..ZONES).map(|zone| node(zone, 0)).collect();
        report(&client, &nodes, false).await?;
        let affected = pods.lose(&nodes).await?;
        Ok(Self { client, nodes, affected, since })
    }

    /// What the leader does for so many seconds. `recovered` is not known yet.
    pub async fn watch(&self, leader: &mut Operator, effects: &Effects, seconds: u64) -> Result<Figures> {
        let before = leader.used().await?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let after = leader.used().await?;
        let took = after.at.duration_since(before.at).as_secs_f64();
        let mut requests = BTreeMap::new();
        for (series, more) in after.counts.since(&before.counts, API_REQUESTS) {
            let of = |name| label(series, name).unwrap_or("other");
            *requests.entry(format!("{} {}", of("verb"), of("kind"))).or_insert(0.0) += more / took * 60.0;
        }
        let touched = effects.since(self.since);
        Ok(Figures {
            affected: self.affected.len(),
            requests,
            cpu: (after.cpu_seconds - before.cpu_seconds) / took * 100.0,
            resident: leader.resident()?,
            disturbed: touched.iter().filter(|key| !self.affected.contains(*key)).count(),
            recovered: Duration::ZERO,
        })
    }

    /// Gives it back.
    pub async fn give_back(self, pods: &Nodes) -> Result<()> {
        report(&self.client, &self.nodes, true).await?;
        pods.find_again(&self.nodes).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_rack_takes_one_member_of_three_clusters_in_ten_and_two_of_none() {
        let lost: BTreeSet<String> = (0..ZONES).map(|zone| node(zone, 0)).collect();
        let lost_of = |number: usize| {
            let key = (format!("tenant-{number}"), "etcd".to_owned());
            (0..3).filter(|ordinal| lost.contains(&node_of(&key, &format!("etcd-{ordinal}")))).count()
        };
        let each: Vec<usize> = (0..1000).map(lost_of).collect();
        assert!(each.iter().all(|lost| *lost <= 1));
        let hit: usize = each.iter().sum();
        assert!((250..350).contains(&hit), "{hit}");
    }
}
