//! What a Pod has of `podTemplate`, `placement` and the operator's defaults, and what of it rolls the Pods.

use std::collections::BTreeSet;

use crate::world::{World, plain};
use quorate_manifests::Kind;
use quorate_manifests::budget::budget;
use quorate_model::ClusterRef;
use serde_json::{Value, json};

/// The Pod of a cluster of one with these fields in its spec.
fn pod(fields: &Value) -> Value {
    let mut world = World::new(&spec(fields));
    world.settle();
    world.objects[&(Kind::Pod, "demo-0".to_owned())].clone()
}

fn spec(fields: &Value) -> Value {
    let mut spec = plain(1);
    for (field, value) in fields.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    spec
}

fn of_template(fields: &Value) -> Value {
    json!({ "podTemplate": { "spec": fields } })
}

fn revision(pod: &Value) -> String {
    pod["metadata"]["annotations"]["operator.etcd.io/revision"].as_str().expect("a revision").to_owned()
}

fn env(pod: &Value, name: &str) -> Option<String> {
    let env = pod["spec"]["containers"][0]["env"].as_array().expect("an environment");
    let variable = env.iter().find(|variable| variable["name"] == name)?;
    Some(variable["value"].as_str().expect("a text").to_owned())
}

#[test]
fn every_field_of_the_template_is_in_the_pod_and_a_change_of_it_rolls() {
    let anti_affinity =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "rack" }] });
    let table = [
        (
            json!({ "affinity": { "podAntiAffinity": anti_affinity } }),
            "/spec/affinity/podAntiAffinity",
            anti_affinity,
        ),
        (json!({ "nodeSelector": { "disk": "fast" } }), "/spec/nodeSelector/disk", json!("fast")),
        (json!({ "tolerations": [{ "key": "dedicated" }] }), "/spec/tolerations/0/key", json!("dedicated")),
        (
            json!({ "topologySpreadConstraints": [{ "topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" }] }),
            "/spec/topologySpreadConstraints/0/topologyKey",
            json!("rack"),
        ),
        (json!({ "priorityClassName": "important" }), "/spec/priorityClassName", json!("important")),
        (
            json!({ "resources": { "requests": { "cpu": "2" } } }),
            "/spec/containers/0/resources/requests/cpu",
            json!("2"),
        ),
        (json!({ "securityContext": { "fsGroup": 2000 } }), "/spec/securityContext/fsGroup", json!(2000)),
        (json!({ "serviceAccountName": "etcd" }), "/spec/serviceAccountName", json!("etcd")),
        (json!({ "terminationGracePeriodSeconds": 60 }), "/spec/terminationGracePeriodSeconds", json!(60)),
        (json!({ "schedulerName": "packing" }), "/spec/schedulerName", json!("packing")),
        (json!({ "runtimeClassName": "kata" }), "/spec/runtimeClassName", json!("kata")),
    ];
    // A field that is added to the template is added here.
    let schema =
        serde_json::to_value(quorate_api::crd("EtcdCluster").expect("it is defined")).expect("plain data");
    let fields = &schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["podTemplate"]["properties"]["spec"]["properties"];
    let defined: BTreeSet<&String> = fields.as_object().expect("its fields").keys().collect();
    let tested: BTreeSet<&String> =
        table.iter().flat_map(|(given, ..)| given.as_object().unwrap().keys()).collect();
    assert_eq!(tested, defined);

    let plain = revision(&pod(&json!({})));
    let mut revisions = BTreeSet::from([plain]);
    for (given, pointer, value) in table {
        let pod = pod(&of_template(&given));
        assert_eq!(pod.pointer(pointer), Some(&value), "{given}");
        assert!(revisions.insert(revision(&pod)), "{given} changes no revision");
    }
}

#[test]
fn members_are_apart_by_preference_or_by_force_unless_the_template_has_its_own_anti_affinity() {
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": { "matchLabels": { "operator.etcd.io/cluster": "demo" } },
    });
    let preferred = json!({
        "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "podAffinityTerm": term }],
    });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let apart = |fields: &Value| pod(fields)["spec"]["affinity"]["podAntiAffinity"].clone();
    assert_eq!(apart(&json!({})), preferred);
    assert_eq!(apart(&json!({ "placement": { "oneMemberPerNode": "Required" } })), required);
    let nodes = json!({ "affinity": { "nodeAffinity": {} } });
    assert_eq!(apart(&of_template(&nodes)), preferred, "who chooses nodes still wants members apart");
    assert_eq!(apart(&of_template(&json!({ "affinity": { "podAntiAffinity": {} } }))), json!({}));
}

#[test]
fn members_are_spread_over_zones_unless_zones_are_ignored_or_the_template_says_how() {
    let spread = |fields: &Value| pod(fields)["spec"].get("topologySpreadConstraints").cloned();
    let by_default = spread(&json!({})).expect("a constraint");
    assert_eq!(by_default[0]["topologyKey"], "topology.kubernetes.io/zone");
    assert_eq!(by_default[0]["whenUnsatisfiable"], "ScheduleAnyway", "a zone that fails stops no restart");
    assert_eq!(spread(&json!({ "placement": { "zones": "Ignored" } })), None);
    assert_eq!(spread(&of_template(&json!({ "topologySpreadConstraints": [] }))), Some(json!([])));
}

#[test]
fn the_default_placement_changes_no_revision_and_another_one_rolls() {
    let of = |placement: Value| revision(&pod(&json!({ "placement": placement })));
    let absent = revision(&pod(&json!({})));
    assert_eq!(of(json!({})), absent);
    assert_eq!(of(json!({ "oneMemberPerNode": "Preferred", "zones": "Preferred" })), absent);
    let changed = [of(json!({ "oneMemberPerNode": "Required" })), of(json!({ "zones": "Ignored" }))];
    assert!(!changed.contains(&absent) && changed[0] != changed[1], "{changed:?}");
}

#[test]
fn members_that_share_a_node_are_named() {
    let mut world = World::running(3);
    let message = world.condition("Available").2;
    assert!(!message.contains("node-"), "{message}");
    world.edit(Kind::Pod, "demo-1", |pod| pod["spec"]["nodeName"] = json!("node-0"));
    let message = world.condition("Available").2;
    assert!(message.contains("demo-0 and demo-1 share node node-0"), "{message}");
}

#[test]
fn the_users_part_of_the_security_context_replaces_the_operators_field_by_field() {
    let context = |given: Value| {
        pod(&of_template(&json!({ "securityContext": given })))["spec"]["securityContext"].clone()
    };
    let default = json!({
        "runAsNonRoot": true, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001,
        "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": { "type": "RuntimeDefault" },
    });
    assert_eq!(context(json!({})), default);
    let own = context(json!({
        "runAsUser": 1_000_680_000, "fsGroup": 1_000_680_000, "supplementalGroups": [7],
        "seccompProfile": { "type": "Localhost", "localhostProfile": "etcd.json" },
    }));
    assert_eq!(
        own,
        json!({
            "runAsNonRoot": true, "runAsUser": 1_000_680_000, "runAsGroup": 10001, "fsGroup": 1_000_680_000,
            "fsGroupChangePolicy": "OnRootMismatch", "supplementalGroups": [7],
            "seccompProfile": { "type": "Localhost", "localhostProfile": "etcd.json" },
        })
    );
}

#[test]
fn a_member_requests_a_little_where_the_user_gives_neither_a_request_nor_a_limit() {
    let requests = |resources: Value| {
        let pod = pod(&of_template(&json!({ "resources": resources })));
        pod["spec"]["containers"][0]["resources"]["requests"].clone()
    };
    assert_eq!(requests(json!({})), json!({ "cpu": "50m", "memory": "100Mi" }));
    assert_eq!(requests(json!({ "requests": { "cpu": "1" } })), json!({ "cpu": "1", "memory": "100Mi" }));
    // Kubernetes makes a limit the request.
    assert_eq!(requests(json!({ "limits": { "memory": "64Mi" } })), json!({ "cpu": "50m" }));
}

#[test]
fn go_is_told_nine_tenths_of_the_memory_limit_and_the_processors_rounded_up() {
    let go = |spec: Value| {
        let pod = pod(&spec);
        (env(&pod, "GOMEMLIMIT"), env(&pod, "GOMAXPROCS"))
    };
    let some = |text: &str| Some(text.to_owned());
    let limits = |limits: Value| of_template(&json!({ "resources": { "limits": limits } }));
    assert_eq!(go(json!({})), (None, None));
    assert_eq!(go(limits(json!({ "memory": "1000Mi", "cpu": "1500m" }))), (some("943718400"), some("2")));
    assert_eq!(go(limits(json!({ "memory": "2G", "cpu": "100m" }))), (some("1800000000"), some("1")));
    assert_eq!(go(limits(json!({ "cpu": 4 }))), (None, some("4")));
    assert_eq!(go(of_template(&json!({ "resources": { "requests": { "memory": "1Gi" } } }))), (None, None));

    let mut in_memory = limits(json!({ "memory": "1100Mi" }));
    in_memory["storageSpec"] = json!({ "medium": "Memory", "volumeSizeRequest": "100Mi" });
    assert_eq!(go(in_memory), (some("943718400"), None), "files in memory count as memory of the container");
    let mut too_small = limits(json!({ "memory": "100Mi" }));
    too_small["storageSpec"] = json!({ "medium": "Memory", "volumeSizeRequest": "100Mi" });
    assert_eq!(go(too_small), (None, None));
}

#[test]
fn a_pod_has_the_operators_priority_class_unless_the_template_names_one() {
    let class = |world: &World| {
        world.objects[&(Kind::Pod, "demo-0".to_owned())]["spec"].get("priorityClassName").cloned()
    };
    let made = |default: Option<&str>, fields: &Value| {
        let mut world = World::new(&spec(fields));
        world.defaults.priority_class = default.map(str::to_owned);
        world.settle();
        world
    };
    let revision_of = |world: &World| revision(&world.objects[&(Kind::Pod, "demo-0".to_owned())]);
    let by_default = made(Some("critical"), &json!({}));
    assert_eq!(class(&by_default), Some(json!("critical")));
    let without = made(None, &json!({}));
    assert_eq!(class(&without), None);
    assert_eq!(revision_of(&without), revision_of(&by_default), "it is no part of the revision");
    let own = of_template(&json!({ "priorityClassName": "mine" }));
    assert_eq!(class(&made(Some("critical"), &own)), Some(json!("mine")));
}

#[test]
fn whatever_the_policy_a_pod_that_is_not_ready_may_be_evicted() {
    let mut world = World::running(3);
    for policy in ["OneAtATime", "Quorum"] {
        world.edit(Kind::Cluster, "demo", |cluster| {
            cluster["spec"]["disruption"] = json!({ "podDisruptionBudget": policy });
        });
        world.settle();
        let budget = budget(&world.cluster(), &ClusterRef::new("default", "demo"), 2, None);
        assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow", "{policy}");
        let applied = &world.objects[&(Kind::Budget, "demo".to_owned())]["spec"];
        assert_eq!(applied["unhealthyPodEvictionPolicy"], "AlwaysAllow", "{policy}");
    }
}

#[test]
fn m22_the_autoscaler_is_told_which_empty_directories_it_need_not_keep_and_no_pod_rolls_for_it() {
    const SAFE: &str = "/metadata/annotations/cluster-autoscaler.kubernetes.io~1safe-to-evict-local-volumes";
    let on_disk = pod(&json!({}));
    assert_eq!(on_disk.pointer(SAFE), Some(&json!("agent,seen")));
    // The data of a member in memory are in an empty directory, too.
    let in_memory = pod(&json!({ "storageSpec": { "medium": "Memory", "volumeSizeRequest": "1Gi" } }));
    assert_eq!(in_memory.pointer(SAFE), Some(&json!("agent,seen")));
    let named = json!({ "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "" });
    let by_user = pod(&json!({ "podTemplate": { "metadata": { "annotations": named } } }));
    assert_eq!(by_user.pointer(SAFE), Some(&json!("")), "what the user gives stays");
}
