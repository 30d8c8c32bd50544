//! The objects that effects create, as golden YAML, and rules that apply to all of them.

use crate::world::{World, plain};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use quorate_manifests::certificate::{Certificate, common_name, names};
use quorate_manifests::{AgentDelivery, DEFAULT_AGENT_IMAGE, IpFamily, Kind};
use quorate_model::{ClusterRef, Leaf};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A spec with every field.
fn rich() -> Value {
    json!({
        "size": 3,
        "version": "v3.7.3",
        "image": "registry.example/etcd@sha256:abc",
        "imagePullPolicy": "IfNotPresent",
        "imagePullSecrets": [{ "name": "pull" }],
        "storageSpec": {
            "storageClassName": "fast", "volumeSizeRequest": "10Gi", "volumeSizeLimit": "20Gi",
            "accessModes": "ReadWriteOncePod",
        },
        "etcdOptions": ["--log-level=warn"],
        "service": {
            "type": "LoadBalancer",
            "annotations": { "example.com/internal": "true" },
            "labels": { "team": "a", "app": "mine" },
            "loadBalancerClass": "example.com/vip",
            "trafficDistribution": "PreferClose",
        },
        "etcd": { "snapshotCount": 5000, "autoCompactionMode": "periodic", "autoCompactionRetention": "1h" },
        "podTemplate": {
            "metadata": {
                "labels": { "team": "a", "app": "mine", "operator.etcd.io/cluster": "other" },
                "annotations": { "note": "b", "operator.etcd.io/revision": "mine" },
            },
            "spec": {
                "resources": { "requests": { "cpu": "1", "memory": "2Gi" }, "limits": { "cpu": "1500m", "memory": "2Gi" } },
                "nodeSelector": { "disk": "fast" },
                "priorityClassName": "important",
                "runtimeClassName": "kata",
                "schedulerName": "packing",
                "serviceAccountName": "etcd",
                "terminationGracePeriodSeconds": 60,
                "tolerations": [{ "key": "dedicated", "operator": "Exists" }],
                "topologySpreadConstraints": [
                    { "topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule" },
                ],
                "securityContext": {
                    "runAsUser": 2000, "fsGroup": 3000, "supplementalGroups": [4000],
                    "seccompProfile": { "type": "Localhost", "localhostProfile": "etcd.json" },
                },
                "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "disk", "operator": "Exists" }] }],
                } } },
            },
        },
    })
}

/// An object as it was created, without what the API server and the world added.
fn created(world: &World, kind: Kind, name: &str) -> Value {
    let mut object = world.objects[&(kind, name.to_owned())].clone();
    let meta = object["metadata"].as_object_mut().unwrap();
    meta.remove("uid");
    meta.remove("resourceVersion");
    object.as_object_mut().unwrap().remove("status");
    if kind == Kind::Pod {
        object["spec"].as_object_mut().unwrap().remove("nodeName");
    }
    object
}

fn running(spec: &Value) -> World {
    let mut world = World::new(spec);
    world.settle();
    world
}

/// Checks that no field is lost in its Kubernetes type, as a misspelt one is.
fn is_a<K: DeserializeOwned + Serialize>(object: &Value) {
    let read: K = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(read).unwrap(), object);
}

#[test]
fn every_field_of_every_object_exists_in_its_kind() {
    for spec in
        [rich(), plain(1), json!({"size": 1, "version": "3.5.35", "storageSpec": {"medium": "Memory"}})]
    {
        let world = running(&spec);
        for (kind, name) in world.objects.keys() {
            let object = created(&world, *kind, name);
            match kind {
                Kind::Pod => is_a::<Pod>(&object),
                Kind::Volume => is_a::<PersistentVolumeClaim>(&object),
                Kind::Service => is_a::<Service>(&object),
                Kind::Budget => is_a::<PodDisruptionBudget>(&object),
                Kind::Secret => is_a::<k8s_openapi::api::core::v1::Secret>(&object),
                Kind::NetworkPolicy => is_a::<NetworkPolicy>(&object),
                Kind::Cluster | Kind::Certificate | Kind::Backup => {}
            }
        }
    }
}

#[test]
fn a_member_is_a_pod_whose_one_container_runs_the_agent_and_etcd() {
    insta::assert_yaml_snapshot!("pod", created(&running(&rich()), Kind::Pod, "demo-1"));
}

#[test]
fn by_an_image_volume_the_agent_needs_no_init_container() {
    let mut world = World::new(&plain(3));
    world.defaults.agent_delivery = AgentDelivery::ImageVolumeFirst;
    world.settle();
    let spec = &created(&world, Kind::Pod, "demo-1")["spec"];
    assert_eq!(spec.get("initContainers"), None);
    let agent = json!({
        "name": "agent", "image": { "reference": DEFAULT_AGENT_IMAGE, "pullPolicy": "IfNotPresent" },
    });
    assert!(spec["volumes"].as_array().unwrap().contains(&agent), "{}", spec["volumes"]);
    assert_eq!(spec["containers"][0]["command"], json!(["/agent/quorate", "agent", "run"]));

    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["status"]["agentDelivery"] = json!({ "method": "InitContainer", "reason": "it failed here" });
    });
    world.remove(Kind::Pod, "demo-1");
    world.settle();
    let again = created(&world, Kind::Pod, "demo-1");
    assert_eq!(
        again["spec"]["initContainers"][0]["name"], "install",
        "where it failed, it is not tried again"
    );
    let revision = |pod: &Value| pod["metadata"]["annotations"]["operator.etcd.io/revision"].clone();
    assert_eq!(
        revision(&again),
        revision(&created(&world, Kind::Pod, "demo-0")),
        "it is not part of the revision"
    );
}

#[test]
fn a_member_without_tls_and_disk_is_a_smaller_pod() {
    let spec = json!({
        "size": 1, "version": "3.5.35", "tls": { "provider": "disabled" }, "storageSpec": { "medium": "Memory" },
    });
    let world = running(&spec);
    insta::assert_yaml_snapshot!("pod_plain_in_memory", created(&world, Kind::Pod, "demo-0"));
    assert!(world.all::<Value>(Kind::Volume).is_empty());
    let secrets = world.objects.keys().filter(|(kind, _)| *kind == Kind::Secret);
    assert_eq!(secrets.map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["demo-connection"]);
}

#[test]
fn the_grace_period_is_as_long_as_a_stop_with_this_election_timeout_needs() {
    let grace = |etcd: Value| {
        let world = running(&json!({ "size": 1, "version": "3.6.16", "etcd": etcd }));
        created(&world, Kind::Pod, "demo-0")["spec"]["terminationGracePeriodSeconds"].clone()
    };
    assert_eq!(grace(json!({})), json!(30));
    assert_eq!(grace(json!({ "heartbeatInterval": 1000, "electionTimeout": 10_001 })), json!(36));
}

#[test]
fn l05_where_pods_have_ipv6_addresses_etcd_and_the_probe_listen_on_them_in_brackets() {
    let mut world = World::new(&rich());
    world.defaults.ip_family = IpFamily::V6;
    world.settle();
    let pod = created(&world, Kind::Pod, "demo-1").to_string();
    for flag in [
        "--listen-peer-urls=https://[$(POD_IP)]:2380",
        "--listen-client-urls=https://[$(POD_IP)]:2379",
        "--listen-metrics-urls=http://[$(POD_IP)]:2381",
        "--listen=[$(POD_IP)]:9980",
        "--endpoint=https://[$(POD_IP)]:2379",
    ] {
        assert!(pod.contains(flag), "{flag} is not in {pod}");
    }
    assert!(!pod.contains("/$(POD_IP)") && !pod.contains("=$(POD_IP)"), "{pod}");
}

#[test]
fn volumes_services_and_budget() {
    let world = running(&rich());
    insta::assert_yaml_snapshot!("volume", created(&world, Kind::Volume, "demo-1"));
    insta::assert_yaml_snapshot!("peer_service", created(&world, Kind::Service, "demo"));
    insta::assert_yaml_snapshot!("client_service", created(&world, Kind::Service, "demo-client"));
    insta::assert_yaml_snapshot!("budget", created(&world, Kind::Budget, "demo"));
    insta::assert_yaml_snapshot!("client_secret", created(&world, Kind::Secret, "demo-client-tls"));
    insta::assert_yaml_snapshot!("connection_secret", created(&world, Kind::Secret, "demo-connection"));
}

#[test]
fn h42_certificates_are_valid_for_every_name_by_which_members_are_reached() {
    let at = ClusterRef::new("apps", "demo");
    let tls = quorate_api::cluster::TlsSpec::default();
    let leaves = Leaf::ALL.map(|leaf| {
        (
            Certificate::from(leaf).secret_name(&at),
            common_name(leaf, &tls, false).to_owned(),
            names(leaf, &at, &tls),
        )
    });
    insta::assert_yaml_snapshot!("certificates", leaves);
}

#[test]
fn h42_h44_names_of_members_resolve_before_they_are_ready_and_while_they_stop() {
    let service = created(&running(&rich()), Kind::Service, "demo");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], json!(true));
    assert_eq!(service["spec"]["clusterIP"], json!("None"));
}

#[test]
fn h39_the_budget_is_a_number_of_voters_for_the_larger_of_the_present_and_the_desired_size() {
    let mut world = World::running(5);
    let min_available = |world: &World| created(world, Kind::Budget, "demo")["spec"]["minAvailable"].clone();
    assert_eq!(min_available(&world), json!(4));
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(3));
    world.pass();
    assert_eq!(min_available(&world), json!(4), "five voters are still there");
    world.settle();
    assert_eq!(min_available(&world), json!(2));
}

#[test]
fn l15_a_budget_that_does_not_select_every_pod_is_corrected() {
    let mut world = World::running(3);
    let selector = |world: &World| created(world, Kind::Budget, "demo")["spec"]["selector"].clone();
    let all = selector(&world);
    for operator in ["NotIn", "In"] {
        let without =
            json!([{ "key": "operator.etcd.io/member", "operator": operator, "values": ["demo-1"] }]);
        world.edit(Kind::Budget, "demo", |budget| {
            budget["spec"]["selector"]["matchExpressions"] = without.clone();
        });
        world.pass();
        assert_eq!(selector(&world), all, "{operator}");
    }
}

#[test]
fn h20_volumes_carry_no_owner_reference_and_everything_else_does() {
    let world = running(&rich());
    for (kind, name) in world.objects.keys().filter(|(kind, _)| *kind != Kind::Cluster) {
        let owners = &created(&world, *kind, name)["metadata"]["ownerReferences"];
        // The certificate authorities are data, too.
        let is_data = *kind == Kind::Volume || ["demo-ca", "demo-peer-ca"].contains(&name.as_str());
        assert_eq!(owners.is_null(), is_data, "{name}");
        if !is_data {
            assert_eq!((&owners[0]["uid"], &owners[0]["controller"]), (&json!("u-1"), &json!(true)));
        }
    }
}

#[test]
fn h22_a_recreated_pod_gets_the_volume_of_its_member() {
    let mut world = World::running(3);
    world.remove(Kind::Pod, "demo-1");
    world.settle();
    let pod = created(&world, Kind::Pod, "demo-1");
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], json!("demo-1"));
    let args = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--initial-cluster-state=existing")));
    assert!(args.contains(&json!("--expect=data")) && args.contains(&json!("--cluster-id=c1")), "{args:?}");
}

#[test]
fn a_member_that_joins_is_started_with_the_list_on_an_empty_volume() {
    let mut world = World::running(1);
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["size"] = json!(2));
    world.settle();
    let pod = created(&world, Kind::Pod, "demo-1");
    let args = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    assert!(args.contains(&json!("--initial-cluster-state=existing")));
    let peers = "--initial-cluster=demo-0=http://demo-0.demo.default.svc:2380,demo-1=http://demo-1.demo.default.svc:2380";
    assert!(args.contains(&json!(peers)), "{args:?}");
    assert!(args.contains(&json!("--expect=fresh")), "{args:?}");
}

#[test]
fn a_changed_object_of_the_cluster_is_corrected_once() {
    let mut world = World::running(3);
    let desired: Vec<Value> = ["demo", "demo-client"].map(|name| created(&world, Kind::Service, name)).into();
    world.edit(Kind::Service, "demo", |service| service["spec"]["publishNotReadyAddresses"] = json!(false));
    world.edit(Kind::Service, "demo-client", |service| {
        service["spec"]["selector"] = json!({ "app": "other" });
    });
    world.edit(Kind::Budget, "demo", |budget| {
        budget["spec"] = json!({ "maxUnavailable": 2, "selector": {} });
    });
    world.settle();
    let services: Vec<Value> =
        ["demo", "demo-client"].map(|name| created(&world, Kind::Service, name)).into();
    assert_eq!(services[0], desired[0]);
    // A merge patch adds to a map. The label of the operator is back, and it selects the Pods.
    assert_eq!(services[1]["spec"]["selector"]["operator.etcd.io/cluster"], json!("demo"));
    let budget = created(&world, Kind::Budget, "demo");
    assert_eq!((&budget["spec"]["minAvailable"], budget["spec"].get("maxUnavailable")), (&json!(2), None));
    assert!(!world.pass(), "nothing is left to do");
}

#[test]
fn a_volume_grows_with_the_spec_and_gets_the_identity_annotations() {
    let mut world = World::running(1);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"]["storageSpec"] = json!({ "volumeSizeRequest": "3Gi" });
    });
    world.settle();
    let volume = created(&world, Kind::Volume, "demo-0");
    assert_eq!(volume["spec"]["resources"]["requests"]["storage"], json!("3Gi"));
    let id = world.members[0].id.to_string();
    assert_eq!(
        volume["metadata"]["annotations"],
        json!({
            "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
            "helm.sh/resource-policy": "keep",
            "kustomize.toolkit.fluxcd.io/prune": "disabled",
            "operator.etcd.io/cluster-uid": "u-1",
            "operator.etcd.io/cluster-token": "u-1-1",
            "operator.etcd.io/cluster-id": "c1",
            "operator.etcd.io/member-id": id,
            "operator.etcd.io/tls": "false",
            "operator.etcd.io/etcd-version": "3.6.16",
        })
    );
}

#[test]
fn deletion_deletes_pods_then_removes_the_finalizer_and_keeps_volumes() {
    let mut world = World::running(3);
    assert_eq!(
        created(&world, Kind::Cluster, "demo")["metadata"]["finalizers"],
        json!(["operator.etcd.io/cluster-cleanup"])
    );
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
        cluster["metadata"]["finalizers"] = json!(["operator.etcd.io/cluster-cleanup", "example.org/other"]);
    });
    world.settle();
    assert_eq!(
        created(&world, Kind::Cluster, "demo")["metadata"]["finalizers"],
        json!(["example.org/other"])
    );
    assert!(world.all::<Value>(Kind::Pod).is_empty());
    assert_eq!(world.all::<Value>(Kind::Volume).len(), 3);
}

#[test]
fn a_cluster_with_an_invalid_spec_can_still_be_deleted() {
    let mut world = World::new(&json!({ "size": 3, "version": "latest" }));
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
        cluster["metadata"]["finalizers"] = json!(["operator.etcd.io/cluster-cleanup"]);
    });
    world.settle();
    assert_eq!(created(&world, Kind::Cluster, "demo")["metadata"]["finalizers"], json!([]));
}
