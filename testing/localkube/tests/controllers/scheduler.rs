use std::collections::BTreeSet;

use quorate_apistore::fields::text;
use serde_json::{Value, json};

use super::cluster::{Cluster, condition};

fn anti_affinity(kind: &str, term: &Value) -> Value {
    json!({ "spec": { "affinity": { "podAntiAffinity": { kind: [term] } } } })
}

fn one_per_node() -> Value {
    let term = json!({ "labelSelector": { "matchLabels": { "app": "demo" } }, "topologyKey": "kubernetes.io/hostname" });
    anti_affinity("requiredDuringSchedulingIgnoredDuringExecution", &term)
}

#[test]
fn a_pod_is_bound_with_an_event_and_a_condition() {
    let mut cluster = Cluster::with_nodes(1);
    let pod = cluster.pod("demo-0", &json!({}));
    cluster.settle();
    assert_eq!(cluster.node_of("demo-0"), "node-1");
    assert_eq!(condition(&cluster.get("pods", "demo-0"), "PodScheduled")["status"], "True");
    let reported = cluster.events_of(&pod);
    assert_eq!(reported, [("Scheduled: Successfully assigned default/demo-0 to node-1".to_owned(), 1)]);
}

#[test]
fn a_gated_pod_is_bound_when_its_last_gate_is_removed() {
    let mut cluster = Cluster::with_nodes(1);
    let gates = json!([{ "name": "example.org/a" }, { "name": "example.org/b" }]);
    let pod = cluster.pod("demo-0", &json!({ "spec": { "schedulingGates": gates } }));
    let reported = condition(&pod, "PodScheduled");
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("False"), &json!("SchedulingGated")));
    for left in [json!([{ "name": "example.org/b" }]), Value::Null] {
        cluster.settle();
        assert_eq!(cluster.node_of("demo-0"), "");
        cluster.edit("pods", "demo-0", &json!({ "spec": { "schedulingGates": left } }));
    }
    cluster.settle();
    assert_eq!(cluster.node_of("demo-0"), "node-1");
    let reported = condition(&cluster.get("pods", "demo-0"), "PodScheduled");
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("True"), &Value::Null));
}

#[test]
fn a_gated_pod_cannot_be_bound_and_no_gate_can_be_added_later() {
    let cluster = Cluster::with_nodes(1);
    let gated = json!({ "spec": { "schedulingGates": [{ "name": "example.org/a" }] } });
    cluster.pod("demo-0", &gated);
    let refused = cluster.bind("demo-0", "node-1").unwrap_err();
    assert!(refused.to_string().contains("has non-empty .spec.schedulingGates"), "{refused}");
    cluster.pod("demo-1", &json!({}));
    let refused = cluster.try_edit("pods", "demo-1", &gated).unwrap_err();
    assert!(refused.to_string().contains("only deletion is allowed"), "{refused}");
}

#[test]
fn pods_of_one_service_are_spread_over_the_nodes() {
    let mut cluster = Cluster::with_nodes(3);
    cluster.create(
        "services",
        json!({ "metadata": { "name": "demo" }, "spec": { "selector": { "app": "demo" }, "ports": [{ "port": 2379 }] } }),
    );
    for number in 0..6 {
        cluster.pod(&format!("demo-{number}"), &json!({}));
    }
    cluster.settle();
    for node in ["node-1", "node-2", "node-3"] {
        let there = cluster.all("pods").iter().filter(|pod| text(pod, "/spec/nodeName") == node).count();
        assert_eq!(there, 2, "{node}");
    }
}

#[test]
fn required_anti_affinity_leaves_a_pod_without_a_node_pending() {
    let mut cluster = Cluster::with_nodes(2);
    for number in 0..3 {
        cluster.pod(&format!("demo-{number}"), &one_per_node());
    }
    cluster.settle();
    let placed: BTreeSet<String> = ["demo-0", "demo-1"].map(|pod| cluster.node_of(pod)).into();
    assert_eq!(placed.len(), 2);
    let pending = cluster.get("pods", "demo-2");
    let reported = condition(&pending, "PodScheduled");
    let message = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. preemption: 0/2 nodes are \
                   available: 2 No preemption victims found for incoming pod.";
    assert_eq!((&reported["reason"], &reported["message"]), (&json!("Unschedulable"), &json!(message)));
    assert_eq!(cluster.events_of(&pending), [(format!("FailedScheduling: {message}"), 1)]);
}

#[test]
fn a_pending_pod_is_bound_when_a_node_is_added() {
    let mut cluster = Cluster::with_nodes(0);
    let pod = cluster.pod("demo-0", &json!({}));
    cluster.settle();
    assert_eq!(cluster.events_of(&pod)[0].0, "FailedScheduling: no nodes available to schedule pods");
    cluster.node("node-1");
    cluster.settle();
    assert_eq!(cluster.node_of("demo-0"), "node-1");
}

#[test]
fn a_preference_is_followed_while_it_is_possible() {
    let term = json!({ "weight": 100, "podAffinityTerm": {
        "labelSelector": { "matchLabels": { "app": "demo" } }, "topologyKey": "kubernetes.io/hostname" } });
    let apart = anti_affinity("preferredDuringSchedulingIgnoredDuringExecution", &term);
    let mut cluster = Cluster::with_nodes(2);
    for number in 0..3 {
        cluster.pod(&format!("demo-{number}"), &apart);
    }
    cluster.settle();
    assert_ne!(cluster.node_of("demo-0"), cluster.node_of("demo-1"));
    assert_ne!(cluster.node_of("demo-2"), "", "a preference rules nothing out");
}

#[test]
fn a_hard_topology_spread_is_enforced_and_a_soft_one_is_not() {
    let spread = |how: &str| {
        json!({ "spec": { "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": how, "labelSelector": { "matchLabels": { "app": "demo" } } }] } })
    };
    let mut cluster = Cluster::with_nodes(2);
    cluster.edit("nodes", "node-2", &json!({ "spec": { "unschedulable": true } }));
    cluster.pod("demo-0", &spread("DoNotSchedule"));
    cluster.pod("demo-1", &spread("DoNotSchedule"));
    cluster.pod("demo-2", &spread("ScheduleAnyway"));
    cluster.settle();
    assert_eq!(["demo-0", "demo-1", "demo-2"].map(|pod| cluster.node_of(pod)), ["node-1", "", "node-1"]);
}

#[test]
fn cordoned_tainted_unready_and_unselected_nodes_are_each_named() {
    let mut cluster = Cluster::with_nodes(5);
    cluster.edit("nodes", "node-1", &json!({ "spec": { "unschedulable": true } }));
    let taint = json!([{ "key": "dedicated", "value": "db", "effect": "NoSchedule" }]);
    cluster.edit("nodes", "node-2", &json!({ "spec": { "taints": taint } }));
    cluster.set_status("nodes", "node-3", json!({ "conditions": [{ "type": "Ready", "status": "False" }] }));
    cluster.edit("nodes", "node-4", &json!({ "metadata": { "labels": { "disk": "ssd" } } }));
    let wants = json!({ "disk": "ssd" });
    let containers =
        json!([{ "name": "etcd", "image": "etcd", "resources": { "requests": { "cpu": "64" } } }]);
    let pod = cluster.pod("demo-0", &json!({ "spec": { "nodeSelector": wants, "containers": containers } }));
    cluster.settle();
    assert_eq!(
        cluster.events_of(&pod)[0].0,
        "FailedScheduling: 0/5 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node \
         affinity/selector, 1 node(s) had untolerated taint {dedicated: db}, 1 node(s) had untolerated taint \
         {node.kubernetes.io/not-ready: }, 1 node(s) were unschedulable. preemption: 0/5 nodes are available: \
         5 Preemption is not helpful for scheduling."
    );
}

#[test]
fn a_tolerated_taint_does_not_keep_a_pod_away() {
    let mut cluster = Cluster::with_nodes(1);
    let taint = json!([{ "key": "dedicated", "value": "db", "effect": "NoSchedule" }]);
    cluster.edit("nodes", "node-1", &json!({ "spec": { "taints": taint } }));
    let tolerations =
        json!([{ "key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule" }]);
    cluster.pod("demo-0", &json!({ "spec": { "tolerations": tolerations } }));
    cluster.settle();
    assert_eq!(cluster.node_of("demo-0"), "node-1");
}

#[test]
fn requests_of_running_and_of_just_bound_pods_count() {
    let half = json!({ "spec": { "containers": [{ "name": "etcd", "image": "etcd",
        "resources": { "requests": { "memory": "5Gi" } } }] } });
    let mut cluster = Cluster::with_nodes(2);
    for number in 0..3 {
        cluster.pod(&format!("demo-{number}"), &half);
    }
    cluster.settle();
    assert_ne!(cluster.node_of("demo-0"), cluster.node_of("demo-1"));
    assert_eq!(cluster.node_of("demo-2"), "");
    cluster.delete("pods", "demo-0");
    cluster.settle();
    assert_eq!(cluster.node_of("demo-2"), "", "a Pod that is stopping still takes its room");
    cluster.remove_pod("demo-0");
    cluster.settle();
    assert_ne!(cluster.node_of("demo-2"), "");
}

#[test]
fn a_claim_gets_its_node_first_and_its_pod_always_runs_there() {
    let mut cluster = Cluster::with_nodes(3);
    for number in 0..3 {
        cluster.claim(&format!("demo-{number}"), None);
        cluster.pod_with_claim(&format!("demo-{number}"));
    }
    cluster.settle();
    let nodes = ["demo-0", "demo-1", "demo-2"].map(|pod| cluster.node_of(pod));
    assert_eq!(BTreeSet::from(nodes.clone()).len(), 3, "{nodes:?}");
    cluster.delete("pods", "demo-1");
    cluster.remove_pod("demo-1");
    cluster.pod_with_claim("demo-1");
    cluster.settle();
    assert_eq!(cluster.node_of("demo-1"), nodes[1], "the data are on that node");
    cluster.delete("pods", "demo-1");
    cluster.remove_pod("demo-1");
    cluster.delete("nodes", &nodes[1]);
    let pod = cluster.pod_with_claim("demo-1");
    cluster.settle();
    assert_eq!(cluster.node_of("demo-1"), "");
    assert!(cluster.events_of(&pod)[0].0.contains("2 node(s) had volume node affinity conflict"));
}

#[test]
fn a_pod_without_its_claim_reports_it() {
    let mut cluster = Cluster::with_nodes(1);
    let pod = cluster.pod_with_claim("demo-0");
    cluster.settle();
    let reported = &cluster.events_of(&pod)[0].0;
    assert!(
        reported.contains("0/1 nodes are available: persistentvolumeclaim \"demo-0\" not found."),
        "{reported}"
    );
    cluster.claim("demo-0", None);
    cluster.settle();
    assert_eq!(cluster.node_of("demo-0"), "node-1");
}

#[test]
fn pods_of_another_scheduler_are_left_alone() {
    let mut cluster = Cluster::with_nodes(1);
    let pod = cluster.pod("demo-0", &json!({ "spec": { "schedulerName": "my-own" } }));
    cluster.settle();
    assert_eq!(cluster.node_of("demo-0"), "");
    assert!(cluster.events_of(&pod).is_empty());
}

#[test]
fn a_pod_with_a_claim_of_the_default_class_is_bound_without_a_warning() {
    let mut cluster = Cluster::with_nodes(1);
    cluster.claim("demo-0", None);
    let pod = cluster.pod_with_claim("demo-0");
    cluster.settle();
    let reported: Vec<String> = cluster.events_of(&pod).into_iter().map(|(reported, _)| reported).collect();
    assert_eq!(reported, ["Scheduled: Successfully assigned default/demo-0 to node-1"]);
}

#[test]
fn the_selected_node_of_a_claim_is_kept_although_a_better_one_is_added() {
    let mut cluster = Cluster::with_nodes(1);
    let mut class = cluster.get("storageclasses", "standard");
    class["metadata"] = json!({ "name": "slow" });
    class["provisioner"] = json!("example.org/slow");
    cluster.create("storageclasses", class);
    cluster.claim("demo-0", Some("slow"));
    cluster.pod_with_claim("demo-0");
    cluster.pod("demo-1", &json!({}));
    cluster.settle();
    cluster.node("node-0");
    cluster.settle();
    let annotations = &cluster.get("persistentvolumeclaims", "demo-0")["metadata"]["annotations"];
    assert_eq!(
        annotations["volume.kubernetes.io/selected-node"], "node-1",
        "the provisioner is already at work there"
    );
    assert_eq!(cluster.node_of("demo-0"), "");
}
