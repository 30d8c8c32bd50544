use quorate_apistore::ObjectKey;
use quorate_apistore::fields::{deleting, text};
use serde_json::json;

use super::cluster::{Cluster, key};

#[test]
fn the_namespaces_of_every_cluster_are_active() {
    let mut cluster = Cluster::with_nodes(0);
    cluster.settle();
    for name in ["default", "kube-system", "kube-node-lease", "quorate-system"] {
        assert_eq!(text(&cluster.get("namespaces", name), "/status/phase"), "Active", "{name}");
    }
}

#[test]
fn a_namespace_is_emptied_of_its_pods_first_before_it_is_removed() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.create("namespaces", json!({ "metadata": { "name": "team" } }));
    let inside = |plural: &str| ObjectKey { namespace: "team".into(), ..key(plural, "thing") };
    let pod =
        json!({ "metadata": { "name": "thing" }, "spec": { "containers": [{ "name": "a", "image": "a" }] } });
    cluster.store.create(&inside("pods").resource, "team", pod, false).unwrap();
    let secret = json!({ "metadata": { "name": "thing" } });
    cluster.store.create(&inside("secrets").resource, "team", secret, false).unwrap();
    cluster.settle();
    cluster.delete("namespaces", "team");
    cluster.settle();
    assert_eq!(text(&cluster.get("namespaces", "team"), "/status/phase"), "Terminating");
    assert!(deleting(&cluster.store.get(&inside("pods")).unwrap()), "a Pod has time to stop");
    let secret = cluster.store.get(&inside("secrets"));
    assert!(!deleting(&secret.unwrap()), "everything else stays until the last Pod is gone");
    let gone = quorate_apistore::store::DeleteOptions { grace_period: Some(0), ..Default::default() };
    cluster.store.delete(&inside("pods"), &gone).unwrap();
    cluster.settle();
    assert!(cluster.store.get(&inside("secrets")).is_none());
    assert!(cluster.find("namespaces", "team").is_none());
}

#[test]
fn an_empty_namespace_is_removed_immediately() {
    let mut cluster = Cluster::with_nodes(0);
    cluster.create("namespaces", json!({ "metadata": { "name": "team" } }));
    cluster.settle();
    cluster.delete("namespaces", "team");
    cluster.settle();
    assert!(cluster.find("namespaces", "team").is_none());
}
