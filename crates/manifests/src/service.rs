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

/// Items of the annotation that lists what comes from the spec: an annotation, a label, and the one field that may be left out again.
const ANNOTATION: &str = "annotation:";
const LABEL: &str = "label:";
const TRAFFIC: &str = "trafficDistribution";

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
    let given = cluster.spec.service.clone().unwrap_or_default();
    let ServiceSpec { service_type, annotations, labels: further, load_balancer_class, traffic_distribution } =
        given;
    let mut metadata = labels::owned(cluster, at, client_name(at));
    let own = metadata.labels.get_or_insert_default();
    for (key, value) in &further {
        own.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let mut from_spec: Vec<String> = annotations.keys().map(|key| format!("{ANNOTATION}{key}")).collect();
    from_spec.extend(further.keys().map(|key| format!("{LABEL}{key}")));
    from_spec.extend(traffic_distribution.map(|_| TRAFFIC.to_owned()));
    if !from_spec.is_empty() {
        let mut annotations = annotations;
        annotations.insert(keys::FROM_SPEC.to_owned(), from_spec.join(","));
        metadata.annotations = Some(annotations);
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
        service["spec"]["trafficDistribution"] = json!(distribution.as_str());
    }
    service
}

/// Whether a Service has its desired form. Its selector has nothing else: a key more would leave Pods out. Nothing is left on it that
/// was in the spec before.
pub(crate) fn matches(seen: &Service, desired: &Value) -> bool {
    let selector = seen.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let mut wanted = desired.clone();
    // An API server that does not know the field drops it, however often it is sent.
    let has_none = seen.spec.as_ref().is_some_and(|spec| spec.traffic_distribution.is_none());
    if has_none && from_spec(&seen.metadata).any(|item| item == TRAFFIC) {
        wanted["spec"].as_object_mut().map(|spec| spec.remove("trafficDistribution"));
    }
    diff::matches(seen, &wanted)
        && json!(selector) == desired["spec"]["selector"]
        && seen.metadata.annotations.as_ref().and_then(|all| all.get(keys::FROM_SPEC)).map(String::as_str)
            == desired.pointer("/metadata/annotations").and_then(|all| all.get(keys::FROM_SPEC)?.as_str())
}

/// The merge patch from an observed Service to its desired form. What others own stays: ports of nodes, addresses, annotations of a cloud.
pub(crate) fn merge_patch(seen: &Service, desired: &Value) -> Value {
    let mut patch = diff::merge_patch(&seen.metadata, desired);
    let spec = seen.spec.as_ref();
    let selected = spec.and_then(|spec| spec.selector.as_ref());
    for key in selected.into_iter().flat_map(BTreeMap::keys) {
        if desired["spec"]["selector"].get(key).is_none() {
            patch["spec"]["selector"][key] = Value::Null;
        }
    }
    keep_node_ports(spec, &mut patch["spec"]);
    if patch["spec"]["type"] != "LoadBalancer" && spec.is_some_and(|spec| spec.load_balancer_class.is_some())
    {
        patch["spec"]["loadBalancerClass"] = Value::Null;
    }
    if let Some(annotations) = desired["metadata"].get("annotations") {
        patch["metadata"]["annotations"] = annotations.clone();
    }
    for item in from_spec(&seen.metadata) {
        let (place, key) = if let Some(key) = item.strip_prefix(ANNOTATION) {
            (&mut patch["metadata"]["annotations"], key)
        } else if let Some(key) = item.strip_prefix(LABEL) {
            (&mut patch["metadata"]["labels"], key)
        } else if item == TRAFFIC {
            (&mut patch["spec"], TRAFFIC)
        } else {
            continue;
        };
        if place.get(key).is_none() {
            place[key] = Value::Null;
        }
    }
    let is_listed = seen.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(keys::FROM_SPEC));
    if is_listed && patch["metadata"]["annotations"].get(keys::FROM_SPEC).is_none() {
        patch["metadata"]["annotations"][keys::FROM_SPEC] = Value::Null;
    }
    patch
}

/// What of an observed Service comes from the spec, by the annotation.
fn from_spec(seen: &ObjectMeta) -> impl Iterator<Item = &str> {
    let listed = seen.annotations.as_ref().and_then(|all| all.get(keys::FROM_SPEC));
    listed.map_or("", String::as_str).split(',').filter(|item| !item.is_empty())
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
