//! The peer Service, which gives members their DNS names, and the client Service.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use quorate_api::EtcdCluster;
use quorate_model::ClusterRef;
use serde_json::{Value, json};

use crate::{diff, labels};

/// Where members serve clients.
pub const CLIENT_PORT: u16 = 2379;
/// Where members serve each other.
pub const PEER_PORT: u16 = 2380;
/// Where etcd serves its metrics.
pub const METRICS_PORT: u16 = 2381;
/// Where the probe answers the kubelet.
pub const PROBE_PORT: u16 = 9980;

/// The name of the client Service.
pub fn client_name(at: &ClusterRef) -> String {
    format!("{}-client", at.name)
}

/// The headless Service of the cluster's name. Its names resolve before any Pod is ready: otherwise peers with
/// TLS could not connect.
pub fn peer(cluster: &EtcdCluster, at: &ClusterRef) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": labels::owned(cluster, at, at.name.clone()),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": true,
            "selector": of_incarnation(cluster, labels::selector(at)),
            "ports": [
                port("client", CLIENT_PORT),
                port("peer", PEER_PORT),
                port("metrics", METRICS_PORT),
            ],
        },
    })
}

/// The Service for clients. It selects ready Pods that are labelled joined and serving. A Pod is ready only while its member is a started
/// voter, is labelled joined only once that member was observed in this cluster, and serving while the operator knows nothing that
/// keeps it from serving (R24).
pub fn client(cluster: &EtcdCluster, at: &ClusterRef) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": labels::owned(cluster, at, client_name(at)),
        "spec": {
            "type": "ClusterIP",
            "selector": of_incarnation(cluster, labels::of_serving(at)),
            "ports": [port("client", CLIENT_PORT)],
        },
    })
}

/// Whether a Service has its desired form. Its selector has nothing else: a key more would leave Pods out.
pub(crate) fn matches(seen: &Service, desired: &Value) -> bool {
    let selector = seen.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    diff::matches(seen, desired) && json!(selector) == desired["spec"]["selector"]
}

/// The merge patch from an observed Service to its desired form.
pub(crate) fn merge_patch(seen: &Service, desired: &Value) -> Value {
    let mut patch = diff::merge_patch(&seen.metadata, desired);
    let selected = seen.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    for key in selected.into_iter().flat_map(BTreeMap::keys) {
        if desired["spec"]["selector"].get(key).is_none() {
            patch["spec"]["selector"][key] = Value::Null;
        }
    }
    patch
}

/// The selector of the present incarnation's Pods.
fn of_incarnation(cluster: &EtcdCluster, mut selector: BTreeMap<String, String>) -> BTreeMap<String, String> {
    selector.extend(labels::of_incarnation(cluster));
    selector
}

fn port(name: &str, port: u16) -> Value {
    json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"})
}
