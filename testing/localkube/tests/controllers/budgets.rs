use quorate_apistore::ApiError;
use quorate_apistore::disruption::admit;
use serde_json::{Value, json};

use super::cluster::{Cluster, condition, owned_by};

/// Three ready Pods and a budget over them.
fn guarded(bound: &Value, pod: &Value) -> (Cluster, Value) {
    let mut cluster = Cluster::with_nodes(3);
    for number in 0..3 {
        cluster.pod(&format!("demo-{number}"), pod);
    }
    cluster.settle();
    for number in 0..3 {
        cluster.run_pod(&format!("demo-{number}"), &format!("127.0.0.{number}"), true);
    }
    let mut spec = json!({ "selector": { "matchLabels": { "app": "demo" } } });
    spec.as_object_mut().unwrap().extend(bound.as_object().unwrap().clone());
    let budget =
        cluster.create("poddisruptionbudgets", json!({ "metadata": { "name": "demo" }, "spec": spec }));
    cluster.settle();
    (cluster, budget)
}

fn evict(cluster: &Cluster, pod: &str) -> Result<(), ApiError> {
    admit(&cluster.store, &cluster.get("pods", pod), false)
}

fn figures(cluster: &Cluster) -> [i64; 4] {
    let budget = cluster.get("poddisruptionbudgets", "demo");
    ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
        .map(|figure| budget["status"][figure].as_i64().unwrap())
}

#[test]
fn an_integer_minimum_works_for_pods_without_a_controller() {
    let (mut cluster, _) = guarded(&json!({ "minAvailable": 2 }), &json!({}));
    assert_eq!(figures(&cluster), [3, 3, 2, 1]);
    let reported = condition(&cluster.get("poddisruptionbudgets", "demo"), "DisruptionAllowed");
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("True"), &json!("SufficientPods")));
    cluster.run_pod("demo-0", "127.0.0.1", false);
    cluster.settle();
    assert_eq!(figures(&cluster), [3, 2, 2, 0]);
    let reported = condition(&cluster.get("poddisruptionbudgets", "demo"), "DisruptionAllowed");
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("False"), &json!("InsufficientPods")));
}

#[test]
fn percentages_and_max_unavailable_allow_nothing_without_a_controller_and_report_why() {
    for bound in [json!({ "maxUnavailable": 1 }), json!({ "minAvailable": "50%" })] {
        let (cluster, budget) = guarded(&bound, &json!({}));
        assert_eq!(figures(&cluster), [0, 3, 0, 0], "{bound}");
        let reported = &cluster.events_of(&budget)[0].0;
        let start = "UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: \
                     &LabelSelector{MatchLabels:map[string]string{app: demo,},MatchExpressions:[]LabelSelectorRequirement{},}) \
                     were found to be unmanaged.";
        assert!(reported.starts_with(start), "{reported}");
    }
}

#[test]
fn percentages_work_with_the_scale_of_the_controller() {
    for (bound, expected) in [
        (json!({ "maxUnavailable": 1 }), [3, 3, 2, 1]),
        (json!({ "maxUnavailable": "34%" }), [3, 3, 1, 2]),
        (json!({ "minAvailable": "50%" }), [3, 3, 2, 1]),
    ] {
        let (mut cluster, _) = guarded(&bound, &json!({}));
        cluster.create("customresourcedefinitions", definition());
        let owner =
            cluster.create("etcdclusters", json!({ "metadata": { "name": "demo" }, "spec": { "size": 3 } }));
        for number in 0..3 {
            let owned = json!({ "metadata": { "ownerReferences": owned_by(&owner) } });
            cluster.edit("pods", &format!("demo-{number}"), &owned);
        }
        cluster.settle();
        assert_eq!(figures(&cluster), expected, "{bound}");
    }
}

#[test]
fn a_controller_without_scale_is_an_error_that_allows_nothing() {
    let mut cluster = Cluster::with_nodes(1);
    let owner = cluster.create("configmaps", json!({ "metadata": { "name": "owner" } }));
    cluster.pod("demo-0", &json!({ "metadata": { "ownerReferences": owned_by(&owner) } }));
    let spec = json!({ "maxUnavailable": 1, "selector": { "matchLabels": { "app": "demo" } } });
    let budget =
        cluster.create("poddisruptionbudgets", json!({ "metadata": { "name": "demo" }, "spec": spec }));
    cluster.settle();
    let reported = condition(&cluster.get("poddisruptionbudgets", "demo"), "DisruptionAllowed");
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("False"), &json!("SyncFailed")));
    assert!(cluster.events_of(&budget)[0].0.starts_with("CalculateExpectedPodCountFailed: "));
}

#[test]
fn evictions_are_admitted_while_the_budget_allows() {
    let (mut cluster, _) = guarded(&json!({ "minAvailable": 2 }), &json!({}));
    evict(&cluster, "demo-0").unwrap();
    assert_eq!(figures(&cluster)[3], 0, "decremented by the eviction itself");
    let evicted = condition(&cluster.get("pods", "demo-0"), "DisruptionTarget");
    assert_eq!(evicted["reason"], "EvictionByEvictionAPI");
    cluster.delete("pods", "demo-0");
    cluster.settle();
    let refusal = evict(&cluster, "demo-1").unwrap_err();
    assert_eq!((refusal.code, refusal.reason), (429, "TooManyRequests"));
    assert_eq!(refusal.message, "Cannot evict pod as it would violate the pod's disruption budget.");
    let cause = json!({ "reason": "DisruptionBudget",
        "message": "The disruption budget demo needs 2 healthy pods and has 2 currently" });
    assert_eq!(refusal.details["causes"], json!([cause]));
}

#[test]
fn a_dry_run_of_an_eviction_does_not_change_the_budget() {
    let (cluster, _) = guarded(&json!({ "minAvailable": 2 }), &json!({}));
    let version = cluster.store.version();
    admit(&cluster.store, &cluster.get("pods", "demo-0"), true).unwrap();
    assert_eq!((figures(&cluster)[3], cluster.store.version()), (1, version));
}

#[test]
fn an_eviction_without_deletion_stops_counting_after_two_minutes() {
    let (mut cluster, _) = guarded(&json!({ "minAvailable": 2 }), &json!({}));
    evict(&cluster, "demo-0").unwrap();
    cluster.settle();
    assert_eq!(figures(&cluster), [3, 2, 2, 0]);
    cluster.pass_seconds(121);
    cluster.settle();
    assert_eq!(figures(&cluster), [3, 3, 2, 1]);
}

#[test]
fn an_unhealthy_pod_may_be_evicted_while_the_budget_is_met_without_it() {
    let (mut cluster, _) = guarded(&json!({ "minAvailable": 2 }), &json!({}));
    cluster.run_pod("demo-0", "127.0.0.1", false);
    cluster.settle();
    assert!(evict(&cluster, "demo-1").is_err());
    evict(&cluster, "demo-0").unwrap();
    cluster.run_pod("demo-1", "127.0.0.2", false);
    cluster.settle();
    assert!(evict(&cluster, "demo-0").is_err(), "too few are healthy");
    cluster.edit(
        "poddisruptionbudgets",
        "demo",
        &json!({ "spec": { "unhealthyPodEvictionPolicy": "AlwaysAllow" } }),
    );
    evict(&cluster, "demo-0").unwrap();
}

#[test]
fn a_budget_without_current_status_refuses_evictions() {
    let (cluster, _) = guarded(&json!({ "minAvailable": 1 }), &json!({}));
    cluster.edit("poddisruptionbudgets", "demo", &json!({ "spec": { "minAvailable": 3 } }));
    let refusal = evict(&cluster, "demo-0").unwrap_err();
    assert_eq!(refusal.details["retryAfterSeconds"], 10);
}

#[test]
fn two_budgets_over_one_pod_are_an_error() {
    let (mut cluster, _) = guarded(&json!({ "minAvailable": 1 }), &json!({}));
    let spec = json!({ "minAvailable": 1, "selector": { "matchLabels": { "app": "demo" } } });
    cluster.create("poddisruptionbudgets", json!({ "metadata": { "name": "other" }, "spec": spec }));
    cluster.settle();
    assert_eq!(evict(&cluster, "demo-0").unwrap_err().code, 500);
}

fn definition() -> Value {
    json!({
        "metadata": { "name": "etcdclusters.operator.etcd.io" },
        "spec": {
            "group": "operator.etcd.io",
            "names": { "kind": "EtcdCluster", "plural": "etcdclusters", "singular": "etcdcluster" },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                "subresources": { "scale": { "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size" } },
            }],
        },
    })
}
