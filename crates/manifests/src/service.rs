//! The peer Service, which gives members their DNS names, and the client Service.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServiceSpec as ServiceSpecSeen};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::cluster::{ServiceSpec, ServiceType};
use quorate_api::{EtcdCluster, keys};
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

/// What the annotation [`keys::FROM_SPEC`] lists: the one field that may be left out again.
const TRAFFIC: &str = "trafficDistribution";

/// The type that alone admits a class and source ranges.
const BALANCED: &str = "LoadBalancer";

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
/// keeps it from serving (R24). Labels and annotations of the spec are those of `metadata`.
pub fn client(cluster: &EtcdCluster, at: &ClusterRef) -> Value {
    let given = cluster.spec.service.clone().unwrap_or_default();
    let ServiceSpec { service_type, annotations: _, labels: _, load_balancer_class, traffic_distribution } =
        given;
    let mut metadata = labels::owned(cluster, at, client_name(at));
    if traffic_distribution.is_some() {
        metadata.annotations = Some(BTreeMap::from([(keys::FROM_SPEC.to_owned(), TRAFFIC.to_owned())]));
    }
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": service_type.as_str(),
            "selector": of_incarnation(cluster, labels::of_serving(at)),
            "ports": [port("client", CLIENT_PORT)],
        },
    });
    if let Some(class) = load_balancer_class.filter(|_| service_type == ServiceType::LoadBalancer) {
        service["spec"]["loadBalancerClass"] = json!(class);
    }
    if let Some(distribution) = traffic_distribution {
        service["spec"][TRAFFIC] = json!(distribution.as_str());
    }
    service
}

/// Whether a Service has its desired form. Nothing is left on it that was in the spec before.
pub(crate) fn matches(seen: &Service, desired: &Value) -> bool {
    let mut wanted = desired.clone();
    // An API server that does not know the field drops it, however often it is sent.
    let has_none = seen.spec.as_ref().is_some_and(|spec| spec.traffic_distribution.is_none());
    if has_none && from_spec(&seen.metadata) == Some(TRAFFIC) {
        wanted["spec"].as_object_mut().map(|spec| spec.remove(TRAFFIC));
    }
    let listed = desired.pointer("/metadata/annotations").and_then(|all| all.get(keys::FROM_SPEC)?.as_str());
    diff::matches(seen, &wanted) && !selects_others(seen, desired) && from_spec(&seen.metadata) == listed
}

/// Whether the selector is not the desired one. A key more would leave Pods out.
pub(crate) fn selects_others(seen: &Service, desired: &Value) -> bool {
    let selector = seen.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    json!(selector) != desired["spec"]["selector"]
}

/// The merge patch that puts right whom a Service leads to, and by which ports; `None` where it does. The API server may refuse the rest of
/// the form, and then it would refuse this with it.
pub(crate) fn lead_patch(seen: &Service, desired: &Value) -> Option<Value> {
    let spec = seen.spec.as_ref();
    let ports = json!({ "spec": { "ports": desired["spec"]["ports"] } });
    let has_ports = diff::matches(seen, &ports);
    if has_ports && !selects_others(seen, desired) {
        return None;
    }
    let mut patch = json!({
        "metadata": { "uid": seen.metadata.uid, "resourceVersion": seen.metadata.resource_version },
        "spec": { "selector": selector(spec, desired) },
    });
    if !has_ports {
        let mut form = desired["spec"].clone();
        form["type"] = json!(spec.and_then(|spec| spec.type_.as_ref()));
        keep_node_ports(spec, &mut form);
        patch["spec"]["ports"] = form["ports"].take();
    }
    Some(patch)
}

/// The merge patch from an observed Service to its desired form. What others own stays: ports of nodes, addresses, annotations of a cloud.
/// Another class takes two patches: the API server admits one only when the type becomes that of a load balancer.
pub(crate) fn merge_patch(seen: &Service, desired: &Value) -> Value {
    let mut patch = diff::merge_patch(&seen.metadata, desired);
    let spec = seen.spec.as_ref();
    patch["spec"]["selector"] = selector(spec, desired);
    let was_balanced = spec.is_some_and(|spec| spec.type_.as_deref() == Some(BALANCED));
    let class = patch["spec"].get("loadBalancerClass").and_then(Value::as_str);
    if was_balanced
        && class.is_some_and(|class| spec.and_then(|spec| spec.load_balancer_class.as_deref()) != Some(class))
    {
        patch["spec"]["type"] = json!("ClusterIP");
    }
    keep_node_ports(spec, &mut patch["spec"]);
    if patch["spec"]["type"] != BALANCED {
        for field in ["loadBalancerClass", "loadBalancerSourceRanges"] {
            patch["spec"][field] = Value::Null;
        }
    }
    let listed = desired.pointer("/metadata/annotations").and_then(|all| all.get(keys::FROM_SPEC));
    if listed.is_none() && from_spec(&seen.metadata) == Some(TRAFFIC) {
        patch["spec"][TRAFFIC] = Value::Null;
    }
    if listed.is_some() || from_spec(&seen.metadata).is_some() {
        patch["metadata"]["annotations"][keys::FROM_SPEC] = json!(listed);
    }
    patch
}

/// The desired selector, and a null for every key that is to go.
fn selector(seen: Option<&ServiceSpecSeen>, desired: &Value) -> Value {
    let mut selector = desired["spec"]["selector"].clone();
    let selected = seen.and_then(|spec| spec.selector.as_ref());
    for key in selected.into_iter().flat_map(BTreeMap::keys) {
        if selector.get(key).is_none() {
            selector[key] = Value::Null;
        }
    }
    selector
}

/// What of an observed Service comes from the spec, by the annotation.
fn from_spec(seen: &ObjectMeta) -> Option<&str> {
    seen.annotations.as_ref()?.get(keys::FROM_SPEC).map(String::as_str)
}

/// A merge patch replaces the whole list of ports. Clients outside know the port of the nodes, so it stays as long as there is one.
fn keep_node_ports(seen: Option<&ServiceSpecSeen>, spec: &mut Value) {
    if spec["type"] == "ClusterIP" {
        return;
    }
    let ports = seen.and_then(|seen| seen.ports.as_ref()).into_iter().flatten();
    for seen in ports {
        let desired = spec["ports"].as_array_mut().into_iter().flatten();
        for port in desired.filter(|port| port["name"].as_str() == seen.name.as_deref()) {
            if let Some(node_port) = seen.node_port {
                port["nodePort"] = json!(node_port);
            }
        }
    }
}

/// The selector of the present incarnation's Pods.
fn of_incarnation(cluster: &EtcdCluster, mut selector: BTreeMap<String, String>) -> BTreeMap<String, String> {
    selector.extend(labels::of_incarnation(cluster));
    selector
}

fn port(name: &str, port: u16) -> Value {
    json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"})
}
