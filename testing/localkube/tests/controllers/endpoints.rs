use quorate_apistore::fields::{items, text};
use serde_json::{Value, json};

use super::cluster::Cluster;

fn service(cluster: &Cluster, more: &Value) {
    let mut spec = json!({ "clusterIP": "None", "selector": { "app": "demo" },
        "ports": [{ "name": "client", "port": 2379 }] });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    cluster.create("services", json!({ "metadata": { "name": "demo" }, "spec": spec }));
}

fn addresses(cluster: &Cluster, field: &str) -> Vec<String> {
    let endpoints = cluster.get("endpoints", "demo");
    let subsets = items(&endpoints, "/subsets").iter();
    subsets.flat_map(|subset| items(subset, field)).map(|address| text(address, "/ip").to_owned()).collect()
}

fn slice(cluster: &Cluster) -> Value {
    let slices = cluster.all("endpointslices");
    assert_eq!(slices.len(), 1);
    slices[0].clone()
}

#[test]
fn ready_and_not_ready_pods_are_listed_separately() {
    let mut cluster = Cluster::with_nodes(1);
    service(&cluster, &json!({}));
    cluster.pod("demo-0", &json!({ "spec": { "hostname": "demo-0", "subdomain": "demo" } }));
    cluster.pod("demo-1", &json!({}));
    cluster.pod("demo-2", &json!({}));
    cluster.settle();
    assert!(addresses(&cluster, "/addresses").is_empty(), "no Pod has an address yet");
    cluster.run_pod("demo-0", "127.0.0.10", true);
    cluster.run_pod("demo-1", "127.0.0.11", false);
    cluster.settle();
    assert_eq!(addresses(&cluster, "/addresses"), ["127.0.0.10"]);
    assert_eq!(addresses(&cluster, "/notReadyAddresses"), ["127.0.0.11"]);
    let endpoints = cluster.get("endpoints", "demo");
    let first = &endpoints["subsets"][0];
    assert_eq!(first["ports"], json!([{ "name": "client", "port": 2379, "protocol": "TCP" }]));
    assert_eq!(text(first, "/addresses/0/hostname"), "demo-0");
    assert_eq!(text(first, "/addresses/0/targetRef/name"), "demo-0");
    let slice = slice(&cluster);
    assert_eq!(items(&slice, "/endpoints").len(), 2);
    assert_eq!(
        slice["endpoints"][1]["conditions"],
        json!({ "ready": false, "serving": false, "terminating": false })
    );
}

#[test]
fn a_service_that_publishes_not_ready_addresses_lists_all_pods() {
    let mut cluster = Cluster::with_nodes(1);
    service(&cluster, &json!({ "publishNotReadyAddresses": true }));
    cluster.pod("demo-0", &json!({}));
    cluster.settle();
    cluster.run_pod("demo-0", "127.0.0.10", false);
    cluster.delete("pods", "demo-0");
    cluster.settle();
    assert_eq!(addresses(&cluster, "/addresses"), ["127.0.0.10"]);
    assert_eq!(
        slice(&cluster)["endpoints"][0]["conditions"],
        json!({ "ready": true, "serving": false, "terminating": true })
    );
}

#[test]
fn a_terminating_pod_is_not_served() {
    let mut cluster = Cluster::with_nodes(1);
    service(&cluster, &json!({}));
    cluster.pod("demo-0", &json!({}));
    cluster.settle();
    cluster.run_pod("demo-0", "127.0.0.10", true);
    cluster.delete("pods", "demo-0");
    cluster.settle();
    assert!(items(&cluster.get("endpoints", "demo"), "/subsets").is_empty());
    assert_eq!(
        slice(&cluster)["endpoints"][0]["conditions"],
        json!({ "ready": false, "serving": true, "terminating": true })
    );
}

#[test]
fn pods_with_different_numbers_behind_a_named_port_are_grouped() {
    let mut cluster = Cluster::with_nodes(1);
    service(&cluster, &json!({ "ports": [{ "port": 80, "targetPort": "web" }] }));
    for (pod, port) in [("demo-0", 8080), ("demo-1", 9090)] {
        let containers =
            json!([{ "name": "web", "image": "web", "ports": [{ "name": "web", "containerPort": port }] }]);
        cluster.pod(pod, &json!({ "spec": { "containers": containers } }));
    }
    cluster.settle();
    cluster.run_pod("demo-0", "127.0.0.10", true);
    cluster.run_pod("demo-1", "127.0.0.11", true);
    cluster.settle();
    let endpoints = cluster.get("endpoints", "demo");
    let ports: Vec<&Value> =
        items(&endpoints, "/subsets").iter().map(|subset| &subset["ports"][0]["port"]).collect();
    assert_eq!(ports, [8080, 9090]);
    assert_eq!(cluster.all("endpointslices").len(), 2);
}

#[test]
fn endpoints_are_deleted_with_their_service() {
    let mut cluster = Cluster::with_nodes(0);
    service(&cluster, &json!({}));
    cluster.settle();
    assert_eq!((cluster.all("endpoints").len(), cluster.all("endpointslices").len()), (1, 1));
    cluster.delete("services", "demo");
    cluster.settle();
    assert_eq!((cluster.all("endpoints").len(), cluster.all("endpointslices").len()), (0, 0));
}

#[test]
fn endpoints_of_a_service_without_selector_are_left_alone() {
    let mut cluster = Cluster::with_nodes(0);
    cluster.create("endpoints", json!({ "metadata": { "name": "mine" }, "subsets": [] }));
    cluster.settle();
    assert!(cluster.find("endpoints", "mine").is_some());
}
