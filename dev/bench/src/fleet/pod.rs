//! What a kubelet reads of a member's Pod, and reports of it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::etcd::Launch;

/// What the arguments of a Pod say about its member.
pub fn launch(pod: &Pod) -> Option<Launch> {
    let container = pod.spec.as_ref()?.containers.iter().find(|container| container.name == "etcd")?;
    let args = container.args.as_ref()?;
    let flags: BTreeMap<&str, &str> = args.iter().filter_map(|arg| arg.split_once('=')).collect();
    let peers = flags.get("--initial-cluster")?.split(',').filter_map(|peer| peer.split_once('='));
    let tag = container.image.as_ref()?.rsplit_once(':')?.1;
    Some(Launch {
        token: (*flags.get("--initial-cluster-token")?).to_owned(),
        version: tag.trim_start_matches('v').to_owned(),
        peers: peers.map(|(name, url)| (name.to_owned(), url.to_owned())).collect(),
    })
}

/// The time on the node.
#[expect(clippy::disallowed_methods, reason = "a kubelet has a clock of its own")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// As a kubelet writes them.
pub fn conditions(ready: bool) -> Value {
    let at = now().to_string();
    let one = |type_: &str, is: bool| {
        let status = if is { "True" } else { "False" };
        json!({"type": type_, "status": status, "lastProbeTime": null, "lastTransitionTime": at, "observedGeneration": 1})
    };
    json!([
        one("PodReadyToStartContainers", true),
        one("Initialized", true),
        one("Ready", ready),
        one("ContainersReady", ready),
        one("PodScheduled", true),
    ])
}

/// The status of its container.
pub fn container(ready: bool) -> Value {
    let digest = "0".repeat(64);
    json!({
        "name": "etcd", "image": "gcr.io/etcd-development/etcd:v3.6.16",
        "imageID": format!("gcr.io/etcd-development/etcd@sha256:{digest}"),
        "containerID": format!("containerd://{digest}"),
        "ready": ready, "started": true, "restartCount": 0,
        "state": {"running": {"startedAt": now().to_string()}}, "lastState": {},
    })
}
