//! The Node objects.

use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::Shared;
use crate::clock::{now, seconds};

/// The capacity of every node.
const CAPACITY: [(&str, &str); 4] =
    [("cpu", "64"), ("memory", "256Gi"), ("ephemeral-storage", "1Ti"), ("pods", "110")];

/// The taint of a node that is not heard of.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Creates every node and reports that it is ready.
pub(super) async fn register(shared: &Shared) -> anyhow::Result<()> {
    let api: Api<Node> = Api::all(shared.client.clone());
    for number in 1..=shared.nodes {
        let name = name(number);
        if api.get_opt(&name).await?.is_none() {
            api.create(&PostParams::default(), &serde_json::from_value(node(number))?).await?;
        }
        report_ready(shared, &name).await;
    }
    Ok(())
}

/// The address of a node.
pub(super) fn address(shared: &Shared, node: &str) -> Ipv4Addr {
    shared.ledger.node_address(number(node).unwrap_or(1))
}

/// Whether the node exists.
pub(super) fn exists(shared: &Shared, node: &str) -> bool {
    number(node).is_some_and(|number| (1..=shared.nodes).contains(&number))
}

/// Reports what a cluster reports of a node that has not been heard of for a while, without the wait: that nothing is known, that
/// nothing may start there, and that its Pods are not ready.
pub(super) async fn report_lost(shared: &Shared, name: &str, pods: &[Arc<Pod>]) {
    let unknown = condition("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
    write(shared, name, json!({"conditions": [unknown]})).await;
    taint(shared, name, json!([{"key": UNREACHABLE, "effect": "NoSchedule"}])).await;
    for pod in pods {
        let api: Api<Pod> = Api::namespaced(shared.client.clone(), &pod.namespace().unwrap_or_default());
        let at = seconds(now());
        let ready =
            json!({"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": at});
        let patch = Patch::Strategic(json!({"status": {"conditions": [ready]}}));
        if let Err(error) = api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await {
            tracing::warn!(pod = pod.name_any(), %error, "cannot write the status of the Pod");
        }
    }
}

async fn taint(shared: &Shared, name: &str, taints: Value) {
    let api: Api<Node> = Api::all(shared.client.clone());
    let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
    if let Err(error) = api.patch(name, &PatchParams::default(), &patch).await {
        tracing::warn!(node = name, %error, "cannot write the taints of the node");
    }
}

/// Writes the status of a ready node.
pub(super) async fn report_ready(shared: &Shared, name: &str) {
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
    taint(shared, name, Value::Null).await;
}

/// The name of a node, counted from 1.
pub(super) fn name(number: u8) -> String {
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
        tracing::warn!(node = name, %error, "cannot write the status of the node");
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
