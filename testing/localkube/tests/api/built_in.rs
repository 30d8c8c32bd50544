//! Built-in kinds: defaults, immutable fields, refusals.

use serde_json::{Value, json};

use super::world::World;

const STRATEGIC: &str = "application/strategic-merge-patch+json";
const MERGE: &str = "application/merge-patch+json";

fn path(plural: &str, name: &str) -> String {
    let group = match plural {
        "leases" => "/apis/coordination.k8s.io/v1",
        "poddisruptionbudgets" => "/apis/policy/v1",
        "storageclasses" => return format!("/apis/storage.k8s.io/v1/storageclasses/{name}"),
        _ => "/api/v1",
    };
    format!("{group}/namespaces/default/{plural}/{name}").trim_end_matches('/').to_owned()
}

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "etcd", "image": "etcd:v3.6.1"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    pod
}

async fn create(world: &World, plural: &str, object: &Value) -> Result<Value, String> {
    world.send("POST", &path(plural, ""), object).await.map_err(|refusal| refusal.message)
}

async fn patch(world: &World, plural: &str, name: &str, patch: &Value) -> Result<Value, String> {
    let patched = world.send_as("PATCH", &path(plural, name), STRATEGIC, patch).await;
    patched.map_err(|refusal| refusal.message)
}

#[tokio::test]
async fn a_pod_gets_its_defaults() {
    let world = World::new();
    let probe = json!({"httpGet": {"port": 9980}, "periodSeconds": 1});
    let containers = json!([{
        "name": "etcd", "image": "etcd", "startupProbe": probe, "ports": [{"containerPort": 2379}],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "resources": {"limits": {"memory": "1Gi"}},
    }]);
    let volumes = json!([{"name": "tls", "secret": {"secretName": "s"}}, {"name": "scratch"}]);
    let made = create(&world, "pods", &pod("a", &json!({"containers": containers, "volumes": volumes})))
        .await
        .unwrap();
    for (pointer, expected) in [
        ("/spec/restartPolicy", json!("Always")),
        ("/spec/terminationGracePeriodSeconds", json!(30)),
        ("/spec/serviceAccountName", json!("default")),
        ("/spec/tolerations/1/tolerationSeconds", json!(300)),
        ("/spec/containers/0/imagePullPolicy", json!("Always")),
        ("/spec/containers/0/ports/0/protocol", json!("TCP")),
        ("/spec/containers/0/env/0/valueFrom/fieldRef/apiVersion", json!("v1")),
        ("/spec/containers/0/resources/requests/memory", json!("1Gi")),
        ("/spec/containers/0/startupProbe/failureThreshold", json!(3)),
        ("/spec/containers/0/startupProbe/httpGet/path", json!("/")),
        ("/spec/volumes/0/secret/defaultMode", json!(420)),
        ("/spec/volumes/1/emptyDir", json!({})),
        ("/status/phase", json!("Pending")),
        ("/status/qosClass", json!("Burstable")),
        ("/metadata/generation", json!(1)),
    ] {
        assert_eq!(made.pointer(pointer), Some(&expected), "{pointer}");
    }
    assert!(made["spec"].get("initContainers").is_none());
}

#[tokio::test]
async fn an_invalid_pod_is_refused() {
    let world = World::new();
    let two = json!([{"name": "c", "image": "c"}, {"name": "c", "image": "c"}]);
    let mount = json!([{"name": "c", "image": "c", "volumeMounts": [{"name": "nope", "mountPath": "/a"}]}]);
    let greedy =
        json!([{"name": "c", "image": "c", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]);
    let odd = json!([{"name": "c", "image": "c", "resources": {"requests": {"cpu": "x"}}}]);
    let long = "a".repeat(64);
    for (spec, expected) in [
        (json!({"containers": []}), "spec.containers: Required value"),
        (json!({"containers": [{"name": "c"}]}), "spec.containers[0].image: Required value"),
        (json!({"containers": two}), "spec.containers[1].name: Duplicate value: \"c\""),
        (json!({"containers": mount}), "spec.containers[0].volumeMounts[0].name: Not found: \"nope\""),
        (json!({"containers": greedy}), "must be less than or equal to cpu limit of 1"),
        (json!({"containers": odd}), "quantities must match the regular expression"),
        (json!({"containers": "x"}), "Pod in version \"v1\" cannot be handled as a Pod"),
        (json!({"hostname": "a.b"}), "spec.hostname: Invalid value: \"a.b\": must not contain dots"),
        (json!({"subdomain": long}), "must be no more than 63 characters"),
        (json!({"priorityClassName": "x"}), "forbidden: no PriorityClass with name x was found"),
    ] {
        let refusal = create(&world, "pods", &pod("a", &spec)).await.unwrap_err();
        assert!(refusal.contains(expected), "{spec}: {refusal}");
    }
}

#[tokio::test]
async fn of_a_pods_spec_only_images_and_more_tolerations_may_change() {
    let world = World::new();
    create(&world, "pods", &pod("a", &json!({}))).await.unwrap();
    let image = json!({"spec": {"containers": [{"name": "etcd", "image": "etcd:v3.6.2"}]}});
    assert_eq!(patch(&world, "pods", "a", &image).await.unwrap()["metadata"]["generation"], 2);
    let more = json!({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}});
    patch(&world, "pods", "a", &more).await.unwrap();
    for spec in [json!({"containers": [{"name": "etcd", "args": ["x"]}]}), json!({"nodeName": "n"})] {
        let refusal = patch(&world, "pods", "a", &json!({"spec": spec})).await.unwrap_err();
        assert!(
            refusal.contains("spec: Forbidden: pod updates may not change fields other than"),
            "{refusal}"
        );
    }
    let imageless = json!([{ "op": "remove", "path": "/spec/containers/0/image" }]);
    let json_patch = "application/json-patch+json";
    let refusal = world.send_as("PATCH", &path("pods", "a"), json_patch, &imageless).await.unwrap_err();
    assert!(refusal.message.contains("spec.containers[0].image: Required value"), "{}", refusal.message);
    let containers = json!([{"name": "etcd", "image": "etcd:v3.6.2"}]);
    let again = pod("a", &json!({ "containers": containers, "serviceAccountName": "default" }));
    world.send("PUT", &path("pods", "a"), &again).await.expect("defaults need not be repeated");
}

#[tokio::test]
async fn a_pod_with_a_node_gets_a_grace_period_and_one_without_is_removed_immediately() {
    let world = World::new();
    for name in ["placed", "unplaced"] {
        create(&world, "pods", &pod(name, &json!({}))).await.unwrap();
    }
    let binding = json!({"metadata": {"name": "placed"}, "target": {"kind": "Node", "name": "n1"}});
    let bind = path("pods", "placed/binding");
    world.send("POST", &bind, &binding).await.unwrap();
    let refusal = world.send("POST", &bind, &binding).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "Operation cannot be fulfilled on pods/binding \"placed\": pod placed is already assigned to node \"n1\""
    );

    let grace = async |seconds: Option<i64>| {
        let options = json!({"gracePeriodSeconds": seconds});
        let left = world.send("DELETE", &path("pods", "placed"), &options).await.unwrap();
        left["metadata"]["deletionGracePeriodSeconds"].clone()
    };
    assert_eq!(grace(None).await, 30);
    assert_eq!(grace(Some(60)).await, 30, "never longer than before");
    assert_eq!(grace(Some(5)).await, 5);
    let ended = json!({"status": {"phase": "Failed"}});
    world.send_as("PATCH", &path("pods", "placed/status"), MERGE, &ended).await.unwrap();
    assert_eq!(grace(Some(30)).await, 5, "also where nothing runs any more");
    assert_eq!(world.get(&path("pods", "placed")).await.unwrap()["metadata"]["generation"], 2);
    grace(Some(0)).await;
    let last = world.send("DELETE", &path("pods", "unplaced"), &json!({})).await.unwrap();
    assert!(
        last["metadata"]["deletionTimestamp"].is_string(),
        "its last state has a deletionTimestamp: {last}"
    );
    assert_eq!(last["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(last["metadata"]["generation"], 2);
    for name in ["placed", "unplaced"] {
        assert_eq!(world.get(&path("pods", name)).await.unwrap_err().code, 404, "{name}");
    }
}

#[tokio::test]
async fn a_negative_grace_period_is_one_second() {
    let world = World::new();
    create(&world, "pods", &pod("hasty", &json!({"nodeName": "n1", "terminationGracePeriodSeconds": -1})))
        .await
        .unwrap();
    let left = world.send("DELETE", &path("pods", "hasty"), &json!({})).await.unwrap();
    assert_eq!(left["metadata"]["deletionGracePeriodSeconds"], 1);
}

#[tokio::test]
async fn a_pod_update_may_name_the_service_account_by_either_field() {
    let world = World::new();
    let (bare, path) = (pod("a", &json!({})), path("pods", "a"));
    create(&world, "pods", &bare).await.unwrap();
    let refusal = world.send("PUT", &path, &bare).await.unwrap_err();
    assert!(refusal.message.contains("pod updates may not change fields"), "{}", refusal.message);
    for field in ["serviceAccountName", "serviceAccount"] {
        let named = pod("a", &json!({ field: "default" }));
        let replaced = world.send("PUT", &path, &named).await.unwrap();
        assert_eq!(replaced["spec"]["serviceAccountName"], "default", "{field}");
        assert_eq!(replaced["spec"]["serviceAccount"], "default", "{field}");
    }
}

#[tokio::test]
async fn a_huge_grace_period_ends_at_the_last_valid_time() {
    let world = World::new();
    create(&world, "pods", &pod("slow", &json!({"nodeName": "n1"}))).await.unwrap();
    let options = json!({"gracePeriodSeconds": i64::MAX});
    let left = world.send("DELETE", &path("pods", "slow"), &options).await.unwrap();
    assert!(left["metadata"]["deletionTimestamp"].as_str().unwrap().starts_with("9999-"), "{left}");
}

#[tokio::test]
async fn a_second_deletion_of_a_pod_changes_its_propagation_only_if_it_has_nothing_to_stop() {
    for (node, expected) in
        [(json!("node-1"), json!(["example.org/hold"])), (Value::Null, json!(["example.org/hold", "orphan"]))]
    {
        let world = World::new();
        let mut held = pod("held", &json!({ "nodeName": node }));
        held["metadata"]["finalizers"] = json!(["example.org/hold"]);
        create(&world, "pods", &held).await.unwrap();
        world.send("DELETE", &path("pods", "held"), &json!({})).await.unwrap();
        let orphan = json!({"propagationPolicy": "Orphan"});
        let left = world.send("DELETE", &path("pods", "held"), &orphan).await.unwrap();
        assert_eq!(left["metadata"]["finalizers"], expected);
    }
}

#[tokio::test]
async fn services_get_addresses_of_their_own_and_keep_them() {
    let world = World::new();
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let port = json!([{"port": 2379}]);
    let address = |service: &Value| service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let a = create(&world, "services", &service("a", json!({"ports": port}))).await.unwrap();
    let b = create(&world, "services", &service("b", json!({"ports": port}))).await.unwrap();
    assert!(address(&a).starts_with("127.96.") && address(&a) != address(&b));
    assert_eq!(a["spec"]["ports"][0], json!({"port": 2379, "protocol": "TCP", "targetPort": 2379}));

    let headless = json!({"clusterIP": "None", "ports": port});
    let headless = create(&world, "services", &service("h", headless)).await.unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));

    let kept = patch(&world, "services", "a", &json!({"spec": {"selector": {"a": "b"}}})).await.unwrap();
    assert_eq!(address(&kept), address(&a));
    let refusal =
        patch(&world, "services", "a", &json!({"spec": {"clusterIP": "127.96.9.9"}})).await.unwrap_err();
    assert_eq!(
        refusal,
        "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"127.96.9.9\"]: may not change once set"
    );
    for (spec, expected) in [
        (json!({"clusterIP": address(&a), "ports": port}), "provided IP is already allocated"),
        (json!({}), "spec.ports: Required value"),
        (
            json!({"ports": [{"port": 0}]}),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535",
        ),
        (json!({"ports": [{"port": 1}, {"port": 2}]}), "spec.ports[1].name: Required value"),
    ] {
        let refusal = create(&world, "services", &service("c", spec)).await.unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[tokio::test]
async fn a_bound_claim_may_grow_where_its_class_allows_it_and_nothing_else() {
    let world = World::new();
    let class = |name: &str, grows: bool| json!({"metadata": {"name": name}, "provisioner": "x", "allowVolumeExpansion": grows});
    for (name, grows) in [("fixed", false), ("grows", true)] {
        world.send("POST", &path("storageclasses", ""), &class(name, grows)).await.unwrap();
        let claim = json!({
            "metadata": {"name": name},
            "spec": {"storageClassName": name, "accessModes": ["ReadWriteOnce"],
                     "resources": {"requests": {"storage": "2Gi"}}},
        });
        let made = create(&world, "persistentvolumeclaims", &claim).await.unwrap();
        assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    }
    let size = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
    let refusal = patch(&world, "persistentvolumeclaims", "grows", &size("3Gi")).await.unwrap_err();
    assert!(refusal.contains("spec is immutable after creation except"), "not bound yet: {refusal}");

    let bound = json!({"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}});
    for name in ["fixed", "grows"] {
        let status = path("persistentvolumeclaims", &format!("{name}/status"));
        world.send_as("PATCH", &status, MERGE, &bound).await.unwrap();
    }
    patch(&world, "persistentvolumeclaims", "grows", &size("3Gi")).await.unwrap();
    let refusal = patch(&world, "persistentvolumeclaims", "fixed", &size("3Gi")).await.unwrap_err();
    assert!(refusal.contains("only dynamically provisioned pvc can be resized"), "{refusal}");
    let refusal = patch(&world, "persistentvolumeclaims", "grows", &size("1Gi")).await.unwrap_err();
    assert!(refusal.contains("field can not be less than status.capacity"), "{refusal}");
    let sizeless = json!({"spec": {"resources": null}});
    let refusal = patch(&world, "persistentvolumeclaims", "grows", &sizeless).await.unwrap_err();
    assert!(refusal.contains("spec.resources[storage]: Required value"), "{refusal}");
    let modes = json!({"spec": {"accessModes": ["ReadOnlyMany"]}});
    let refusal = patch(&world, "persistentvolumeclaims", "grows", &modes).await.unwrap_err();
    assert!(refusal.contains("spec is immutable"), "{refusal}");
}

#[tokio::test]
async fn string_data_of_secrets_is_merged_and_the_type_is_immutable() {
    let world = World::new();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}});
    let made = create(&world, "secrets", &secret).await.unwrap();
    assert_eq!(made["data"], json!({"a": "Yg==", "c": "ZA=="}));
    assert_eq!((&made["type"], made.get("stringData")), (&json!("Opaque"), None));
    let refusal = patch(&world, "secrets", "s", &json!({"type": "x"})).await.unwrap_err();
    assert_eq!(refusal, "Secret \"s\" is invalid: type: Invalid value: \"x\": field is immutable");
    for (secret, expected) in [
        (json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}), "data[tls.key]: Required value"),
        (json!({"data": {"a b": ""}}), "a valid config key must consist of"),
        (json!({"data": {"a": "!"}}), "Secret in version \"v1\" cannot be handled as a Secret"),
    ] {
        let mut secret = secret;
        secret["metadata"] = json!({"name": "t"});
        let refusal = create(&world, "secrets", &secret).await.unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[tokio::test]
async fn invalid_metadata_is_refused() {
    let world = World::new();
    for (metadata, expected) in [
        (json!({"name": "Bad_Name"}), "a lowercase RFC 1123 subdomain must consist of"),
        (json!({"name": "a".repeat(254)}), "must be no more than 253 characters"),
        (json!({}), "name or generateName is required"),
        (
            json!({"name": "a", "labels": {"a b": "c"}}),
            "metadata.labels: Invalid value: \"a b\": name part must",
        ),
        (
            json!({"name": "a", "labels": {"a": "b c"}}),
            "metadata.labels: Invalid value: \"b c\": a valid label must",
        ),
        (json!({"name": "a", "annotations": {"/x": "c"}}), "prefix part must be non-empty"),
        (
            json!({"name": "a", "ownerReferences": [{"name": "o"}]}),
            "metadata.ownerReferences.uid: Invalid value",
        ),
        (json!({"name": "a", "namespace": "other"}), "does not match the namespace sent on the request"),
    ] {
        let refusal = create(&world, "configmaps", &json!({"metadata": metadata})).await.unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[tokio::test]
async fn an_update_creates_a_lease_and_later_ones_need_its_version() {
    let world = World::new();
    let lease = |holder: &str| json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": holder}});
    let mut made = world.send("PUT", &path("leases", "l"), &lease("a")).await.unwrap();
    let refusal = world.send("PUT", &path("leases", "l"), &lease("b")).await.unwrap_err();
    assert_eq!(
        refusal.message,
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for \
         an update"
    );
    made["spec"]["holderIdentity"] = json!("b");
    world.send("PUT", &path("leases", "l"), &made).await.unwrap();
    let stale = world.send("PUT", &path("leases", "l"), &made).await.unwrap_err();
    assert_eq!((stale.code, stale.reason.as_str()), (409, "Conflict"));
    assert!(stale.message.ends_with("please apply your changes to the latest version and try again"));
}

#[tokio::test]
async fn an_event_of_one_group_is_an_event_of_the_other() {
    let world = World::new();
    let event = json!({
        "metadata": {"name": "e"}, "eventTime": "2024-01-01T00:00:00.000000Z", "action": "A", "reason": "R",
        "note": "hello", "type": "Normal", "reportingController": "me", "reportingInstance": "i",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    });
    world.send("POST", "/apis/events.k8s.io/v1/namespaces/default/events", &event).await.unwrap();
    let core =
        world.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp").await.unwrap();
    let core = &core["items"][0];
    assert_eq!((&core["message"], &core["reportingComponent"]), (&json!("hello"), &json!("me")));
    let newer = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.name%3Dp";
    assert_eq!(world.get(newer).await.unwrap()["items"][0]["note"], "hello");
}
