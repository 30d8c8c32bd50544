use quorate_apistore::fields::{deleting, text, uid};
use serde_json::json;

use super::cluster::Cluster;

#[test]
fn a_claim_waits_for_its_first_consumer_and_reports_it_once() {
    let mut cluster = Cluster::with_nodes(1);
    let claim = cluster.claim("demo-0", None);
    cluster.settle();
    let waiting = cluster.get("persistentvolumeclaims", "demo-0");
    assert_eq!(text(&waiting, "/spec/storageClassName"), "standard", "the default class");
    assert_eq!(text(&waiting, "/status/phase"), "Pending");
    let reported = "WaitForFirstConsumer: waiting for first consumer to be created before binding";
    assert_eq!(cluster.events_of(&claim), [(reported.to_owned(), 1)]);
}

#[test]
fn a_bound_claim_has_a_directory_on_its_pods_node() {
    let mut cluster = Cluster::with_nodes(2);
    let claim = cluster.claim("demo-0", None);
    cluster.pod_with_claim("demo-0");
    cluster.settle();
    let bound = cluster.get("persistentvolumeclaims", "demo-0");
    assert_eq!((text(&bound, "/status/phase"), text(&bound, "/status/capacity/storage")), ("Bound", "1Gi"));
    let name = format!("pvc-{}", uid(&claim));
    assert_eq!(text(&bound, "/spec/volumeName"), name);
    let volume = cluster.get("persistentvolumes", &name);
    assert_eq!(text(&volume, "/status/phase"), "Bound");
    assert_eq!(text(&volume, "/spec/local/path"), format!("/volumes/{name}_default_demo-0"));
    let terms = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0/values/0";
    assert_eq!(text(&volume, terms), cluster.node_of("demo-0"));
}

#[test]
fn a_shared_claim_is_reached_from_every_node() {
    let mut cluster = Cluster::with_nodes(2);
    cluster.create(
        "persistentvolumeclaims",
        json!({
            "metadata": { "name": "store" },
            "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } } },
        }),
    );
    for node in ["node-1", "node-2"] {
        let name = format!("on-{node}");
        let volumes = json!([{ "name": "store", "persistentVolumeClaim": { "claimName": "store" } }]);
        let spec = json!({ "volumes": volumes, "nodeSelector": { "kubernetes.io/hostname": node } });
        cluster.pod(&name, &json!({ "spec": spec }));
        cluster.settle();
        assert_eq!(cluster.node_of(&name), node);
    }
}

#[test]
fn a_class_that_does_not_exist_leaves_the_claim_pending() {
    let mut cluster = Cluster::with_nodes(1);
    let claim = cluster.claim("demo-0", Some("fast"));
    cluster.pod_with_claim("demo-0");
    cluster.settle();
    assert_eq!(text(&cluster.get("persistentvolumeclaims", "demo-0"), "/status/phase"), "Pending");
    let reported = "ProvisioningFailed: storageclass.storage.k8s.io \"fast\" not found";
    assert_eq!(cluster.events_of(&claim), [(reported.to_owned(), 1)]);
    assert_eq!(cluster.node_of("demo-0"), "");
}

#[test]
fn an_immediate_class_binds_without_a_consumer() {
    let mut cluster = Cluster::with_nodes(1);
    let mut class = cluster.get("storageclasses", "standard");
    class["metadata"] = json!({ "name": "now" });
    class["volumeBindingMode"] = json!("Immediate");
    cluster.create("storageclasses", class);
    cluster.claim("demo-0", Some("now"));
    cluster.settle();
    assert_eq!(text(&cluster.get("persistentvolumeclaims", "demo-0"), "/status/phase"), "Bound");
}

#[test]
fn an_expanded_claim_expands_its_volume() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.claim("demo-0", None);
    cluster.pod_with_claim("demo-0");
    cluster.settle();
    let grow = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
    cluster.edit("persistentvolumeclaims", "demo-0", &grow);
    cluster.settle();
    let grown = cluster.get("persistentvolumeclaims", "demo-0");
    assert_eq!(text(&grown, "/status/capacity/storage"), "2Gi");
    let volume = cluster.get("persistentvolumes", text(&grown, "/spec/volumeName"));
    assert_eq!(text(&volume, "/spec/capacity/storage"), "2Gi");
}

#[test]
fn a_claim_in_use_is_kept_until_its_pod_is_gone_and_then_deleted_with_its_volume() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.claim("demo-0", None);
    cluster.pod_with_claim("demo-0");
    cluster.settle();
    cluster.delete("persistentvolumeclaims", "demo-0");
    cluster.settle();
    assert!(deleting(&cluster.get("persistentvolumeclaims", "demo-0")), "protected by its Pod");
    assert_eq!(cluster.all("persistentvolumes").len(), 1);
    cluster.remove_pod("demo-0");
    cluster.settle();
    assert!(cluster.all("persistentvolumeclaims").is_empty() && cluster.all("persistentvolumes").is_empty());
}

#[test]
fn a_retained_volume_is_kept_and_can_be_bound_again() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.claim("demo-0", None);
    cluster.pod_with_claim("demo-0");
    cluster.settle();
    let name = cluster.names("persistentvolumes")[0].clone();
    let retain = json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } });
    cluster.edit("persistentvolumes", &name, &retain);
    cluster.remove_pod("demo-0");
    cluster.delete("persistentvolumeclaims", "demo-0");
    cluster.settle();
    assert_eq!(text(&cluster.get("persistentvolumes", &name), "/status/phase"), "Released");
    let next = json!({ "namespace": "default", "name": "demo-9", "uid": null });
    cluster.edit("persistentvolumes", &name, &json!({ "spec": { "claimRef": next } }));
    cluster.settle();
    assert_eq!(text(&cluster.get("persistentvolumes", &name), "/status/phase"), "Available");
    cluster.claim("demo-9", None);
    cluster.settle();
    let bound = cluster.get("persistentvolumeclaims", "demo-9");
    assert_eq!((text(&bound, "/spec/volumeName"), text(&bound, "/status/phase")), (name.as_str(), "Bound"));
}

#[test]
fn a_claim_whose_volume_was_deleted_is_lost() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.claim("demo-0", None);
    cluster.pod_with_claim("demo-0");
    cluster.settle();
    let name = cluster.names("persistentvolumes")[0].clone();
    cluster.delete("persistentvolumes", &name);
    cluster.settle();
    assert!(deleting(&cluster.get("persistentvolumes", &name)), "protected by its claim");
    cluster.edit("persistentvolumes", &name, &json!({ "metadata": { "finalizers": [] } }));
    cluster.settle();
    assert_eq!(text(&cluster.get("persistentvolumeclaims", "demo-0"), "/status/phase"), "Lost");
}
