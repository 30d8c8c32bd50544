//! The Node objects.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Shared;
use crate::clock::{now, seconds};

/// There is no node of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no node {0:?}; `kubectl get nodes` lists them")]
pub struct NoSuchNode(String);

/// How much every node has: enough for whatever people try.
const CAPACITY: [(&str, &str); 4] =
    [("cpu", "64"), ("memory", "256Gi"), ("ephemeral-storage", "1Ti"), ("pods", "110")];

/// Makes every node and says that it is ready.
pub(super) async fn register(shared: &Shared) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(shared.client.clone());
    for number in 1..=shared.nodes {
        let name = name(number);
        if api.get_opt(&name).await?.is_none() {
            api.create(&PostParams::default(), &serde_json::from_value(node(number))?).await?;
        }
        found(shared, &name).await;
    }
    Ok(())
}

/// The address of a node.
pub(super) fn address(shared: &Shared, node: &str) -> Ipv4Addr {
    shared.ledger.node_address(number(node).unwrap_or(1))
}

/// Whether there is such a node.
pub(super) fn exists(shared: &Shared, node: &str) -> Result<(), NoSuchNode> {
    match number(node) {
        Some(number) if (1..=shared.nodes).contains(&number) => Ok(()),
        Some(_) | None => Err(NoSuchNode(node.to_owned())),
    }
}

/// A node is there.
pub(super) async fn found(shared: &Shared, name: &str) {
    let ready = condition("True", "KubeletReady", "kubelet is posting ready status");
    let ip = address(shared, name).to_string();
    let capacity: serde_json::Map<String, Value> =
        CAPACITY.iter().map(|(resource, amount)| ((*resource).to_owned(), json!(amount))).collect();
    let status = json!({
        "capacity": capacity, "allocatable": capacity,
        "addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": name}],
        "conditions": [ready],
        "nodeInfo": {
            "kubeletVersion": concat!("v1.33.0-playground.", env!("CARGO_PKG_VERSION")), "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": architecture(), "osImage": "Quorate playground",
            "kernelVersion": kernel(), "containerRuntimeVersion": "playground://1", "machineID": "", "systemUUID": "",
            "bootID": "",
        },
    });
    write(shared, name, status).await;
    taint(shared, name, json!([])).await;
}

/// A node does not answer any more: what Kubernetes' node controller says then.
pub(super) async fn lost(shared: &Shared, name: &str) {
    let unknown = condition("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    write(shared, name, json!({"conditions": [unknown]})).await;
    let key = "node.kubernetes.io/unreachable";
    let at = seconds(now());
    let taints = json!([
        {"key": key, "effect": "NoSchedule", "timeAdded": at}, {"key": key, "effect": "NoExecute", "timeAdded": at},
    ]);
    taint(shared, name, taints).await;
    if let Err(error) = unready(shared, name).await {
        tracing::warn!(node = name, %error, "the Pods of a lost node were not told of");
    }
}

/// Pods of a lost node are not ready.
async fn unready(shared: &Shared, node: &str) -> kube::Result<()> {
    let all: Api<Pod> = Api::all(shared.client.clone());
    for pod in all.list(&ListParams::default().fields(&format!("spec.nodeName={node}"))).await? {
        let mut conditions =
            json!(pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default());
        for one in conditions.as_array_mut().into_iter().flatten().filter(|one| one["type"] == "Ready") {
            one["status"] = json!("False");
            one["lastTransitionTime"] = json!(seconds(now()));
        }
        let api: Api<Pod> = Api::namespaced(shared.client.clone(), &pod.namespace().unwrap_or_default());
        let patch = json!({"status": {"conditions": conditions}});
        api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}

fn name(number: u8) -> String {
    format!("node-{number}")
}

fn number(name: &str) -> Option<u8> {
    name.strip_prefix("node-")?.parse().ok()
}

fn node(number: u8) -> Value {
    let name = name(number);
    // Three zones, as most regions have.
    let zone = format!("zone-{}", char::from(b'a' + (number - 1) % 3));
    json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture(),
            "topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "playground",
        }},
    })
}

fn condition(status: &str, reason: &str, message: &str) -> Value {
    let at = seconds(now());
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": message, "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    })
}

async fn write(shared: &Shared, name: &str, status: Value) {
    let api: Api<Node> = Api::all(shared.client.clone());
    let patch = Patch::Merge(json!({"status": status}));
    if let Err(error) = api.patch_status(name, &PatchParams::default(), &patch).await {
        tracing::warn!(node = name, %error, "a node's status was not written");
    }
}

async fn taint(shared: &Shared, name: &str, taints: Value) {
    let api: Api<Node> = Api::all(shared.client.clone());
    if let Err(error) =
        api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": {"taints": taints}}))).await
    {
        tracing::warn!(node = name, %error, "a node was not tainted");
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}
