//! The connection Secret, and how the client Service is changed in place.

use crate::world::{World, plain};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use quorate_api::keys;
use quorate_manifests::{Kind, NameConflict};
use quorate_model::ManagedObject;
use quorate_model::snapshot::Presence;
use serde_json::{Value, json};

const NAME: &str = "demo-connection";

fn with_tls() -> World {
    let mut world = World::new(&json!({ "size": 1, "version": "3.6.16" }));
    world.settle();
    world
}

fn entry(world: &World, secret: &str, key: &str) -> Option<Vec<u8>> {
    let secret: Secret = world.get(Kind::Secret, secret);
    secret.data?.remove(key).map(|bytes| bytes.0)
}

fn text(world: &World, key: &str) -> String {
    entry(world, NAME, key).map_or_else(|| "none".to_owned(), |bytes| String::from_utf8(bytes).unwrap())
}

fn seen(world: &World) -> Presence {
    world.observe().unwrap().observation.snapshot.connection
}

/// Whether it has the three entries of the Secret of the client certificate.
fn has_the_certificate(world: &World) -> bool {
    let mut keys = ["ca.crt", "tls.crt", "tls.key"].into_iter();
    keys.all(|key| entry(world, "demo-client-tls", key) == entry(world, NAME, key))
}

#[test]
fn an_application_finds_address_and_certificate_in_one_secret_that_status_names() {
    let world = with_tls();
    for (key, value) in [
        ("type", "etcd"),
        ("provider", "quorate"),
        ("host", "demo-client.default.svc"),
        ("port", "2379"),
        ("uri", "https://demo-client.default.svc:2379"),
        ("endpoints", "https://demo-client.default.svc:2379"),
    ] {
        assert_eq!(text(&world, key), value, "{key}");
    }
    assert!(has_the_certificate(&world));
    let status = world.status();
    assert_eq!(status.binding.map(|binding| binding.name).as_deref(), Some(NAME));
    let secret: Secret = world.get(Kind::Secret, NAME);
    assert_eq!(secret.type_.as_deref(), Some("servicebinding.io/etcd"));
}

#[test]
fn without_tls_it_has_no_certificate_and_the_uri_is_plain() {
    let world = World::running(1);
    assert_eq!(text(&world, "uri"), "http://demo-client.default.svc:2379");
    for key in ["ca.crt", "tls.crt", "tls.key", "username"] {
        assert_eq!(entry(&world, NAME, key), None, "{key}");
    }
}

#[test]
fn a_new_client_certificate_is_in_it_one_pass_later_and_entries_of_others_stay() {
    let mut world = with_tls();
    let other = json!(ByteString(b"mine".to_vec()));
    world.edit(Kind::Secret, NAME, |secret| secret["data"]["note"] = other);
    assert_eq!(seen(&world), Presence::Matches, "an entry of others is none of its business");
    world.remove(Kind::Secret, "demo-client-tls");
    assert_eq!(seen(&world), Presence::Differs);
    let before = entry(&world, NAME, "tls.crt");
    world.pass();
    assert_eq!(
        entry(&world, NAME, "tls.crt"),
        before,
        "until there is one, applications keep what they have"
    );
    assert_ne!(entry(&world, "demo-client-tls", "tls.crt"), before, "it was issued anew");
    world.pass();
    assert!(has_the_certificate(&world));
    assert_eq!(text(&world, "note"), "mine");
}

#[test]
fn what_somebody_changed_or_deleted_is_put_right_and_what_does_not_apply_is_removed() {
    let mut world = World::running(1);
    let pem = json!(ByteString(b"of before".to_vec()));
    world.edit(Kind::Secret, NAME, |secret| {
        secret["data"]["tls.key"] = pem.clone();
        secret["data"]["uri"] = pem;
        secret["metadata"]["labels"] = json!({ keys::MANAGED_BY: keys::MANAGED_BY_VALUE });
    });
    assert_eq!(seen(&world), Presence::Differs);
    world.settle();
    assert_eq!((entry(&world, NAME, "tls.key"), &*text(&world, "host")), (None, "demo-client.default.svc"));
    assert_eq!(text(&world, "uri"), "http://demo-client.default.svc:2379");
    let secret: Secret = world.get(Kind::Secret, NAME);
    assert_eq!(secret.metadata.labels.unwrap()[keys::CLUSTER], "demo", "without it no watch would show it");

    world.remove(Kind::Secret, NAME);
    assert_eq!(world.observe().unwrap().status.binding, None);
    world.settle();
    assert_eq!(text(&world, "type"), "etcd");
}

#[test]
fn one_that_cannot_be_changed_is_deleted_and_made_anew() {
    let immutable: fn(&mut Value) = |secret| secret["immutable"] = json!(true);
    let of_another_type: fn(&mut Value) = |secret| secret["type"] = json!("Opaque");
    for change in [immutable, of_another_type] {
        let mut world = with_tls();
        world.edit(Kind::Secret, NAME, change);
        world.remove(Kind::Secret, "demo-client-tls");
        world.settle();
        let secret: Secret = world.get(Kind::Secret, NAME);
        assert_eq!((secret.immutable, secret.type_.as_deref()), (None, Some("servicebinding.io/etcd")));
        assert!(has_the_certificate(&world));
    }
    // An immutable one that is right stays.
    let mut world = with_tls();
    world.edit(Kind::Secret, NAME, immutable);
    assert!(!world.pass(), "nothing is to be done");
}

#[test]
fn a_secret_of_that_name_that_is_not_ours_is_reported_and_never_written() {
    let mut world = World::running(1);
    world.edit(Kind::Secret, NAME, |secret| {
        secret["metadata"]["ownerReferences"] = json!([]);
        secret["data"] = json!({});
    });
    for _ in 0..3 {
        world.pass();
    }
    let observed = world.observe().unwrap();
    assert!(observed.observation.snapshot.foreign.contains_key(&ManagedObject::Connection));
    assert_eq!(observed.status.binding, None, "nobody is bound to the Secret of somebody else");
    assert_eq!(text(&world, "uri"), "none");
    let (status, reason, message) = world.condition("Progressing");
    assert!(message.contains("Secret default/demo-connection"), "{status} {reason} {message}");

    // Without the label no watch shows it: the executor finds it when it creates its own.
    let mut world = World::running(1);
    world.remove(Kind::Secret, NAME);
    world.conflicts = vec![NameConflict { kind: Kind::Secret, name: NAME.to_owned(), made_by: None }];
    let observed = world.observe().unwrap();
    assert!(observed.plan.effects.is_empty(), "{:?}", observed.plan);
}

/// A running cluster whose spec has this `service`.
fn with_service(service: &Value) -> World {
    let mut spec = plain(1);
    spec["service"] = service.clone();
    let mut world = World::new(&spec);
    world.settle();
    world
}

fn edited(world: &mut World, service: &Value) -> Value {
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["service"] = service.clone());
    world.settle();
    world.get(Kind::Service, "demo-client")
}

/// What Kubernetes and a cloud write into a Service.
fn allocate(world: &mut World) {
    world.edit(Kind::Service, "demo-client", |service| {
        service["metadata"]["annotations"]["cloud.example.com/id"] = json!("lb-1");
        service["metadata"]["labels"]["of-somebody"] = json!("x");
        service["spec"]["clusterIP"] = json!("10.96.0.9");
        service["spec"]["healthCheckNodePort"] = json!(30111);
        service["spec"]["externalTrafficPolicy"] = json!("Local");
        service["spec"]["ports"][0]["nodePort"] = json!(30222);
        service["status"] = json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.7" }] } });
    });
}

#[test]
fn an_edit_changes_the_client_service_in_place_and_leaves_what_others_own() {
    let mut world = with_service(&json!({
        "type": "LoadBalancer", "annotations": { "a": "1", "b": "2" }, "labels": { "team": "x" },
        "loadBalancerClass": "example.com/vip", "trafficDistribution": "PreferClose",
    }));
    allocate(&mut world);
    assert!(!world.pass(), "what others wrote is no difference");
    let before: Value = world.get(Kind::Service, "demo-client");
    let after = edited(
        &mut world,
        &json!({ "type": "LoadBalancer", "annotations": { "b": "3" }, "loadBalancerClass": "example.com/vip" }),
    );
    assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
    let annotations = json!({ "b": "3", "cloud.example.com/id": "lb-1", keys::GIVEN: "annotation:b" });
    assert_eq!(after["metadata"]["annotations"], annotations);
    let labels = &after["metadata"]["labels"];
    assert_eq!((&labels["team"], &labels["of-somebody"]), (&Value::Null, &json!("x")));
    assert_eq!((&labels["app"], &labels[keys::CLUSTER]), (&json!("demo"), &json!("demo")));
    for field in
        ["clusterIP", "healthCheckNodePort", "externalTrafficPolicy", "selector", "loadBalancerClass"]
    {
        assert_eq!(before["spec"][field], after["spec"][field], "{field}");
    }
    assert_eq!(after["spec"]["ports"][0]["nodePort"], 30222, "clients outside know it");
    assert_eq!(after["spec"]["trafficDistribution"], Value::Null);
    assert_eq!(before["status"], after["status"]);

    let plain = edited(&mut world, &Value::Null);
    assert_eq!(plain["spec"]["type"], "ClusterIP");
    assert_eq!(
        plain["spec"]["loadBalancerClass"],
        Value::Null,
        "Kubernetes allows it for a load balancer only"
    );
    assert_eq!(plain["spec"]["ports"][0]["nodePort"], Value::Null, "and this one for a port of nodes");
    assert_eq!(plain["metadata"]["annotations"], json!({ "cloud.example.com/id": "lb-1" }));
}

#[test]
fn a_selector_and_ports_are_put_right_by_a_patch_without_what_may_be_refused() {
    let mut world = with_service(&json!({ "type": "NodePort" }));
    allocate(&mut world);
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["spec"]["service"] = json!({
            "type": "LoadBalancer", "annotations": { "a": "1" }, "loadBalancerClass": "example.com/refused",
        });
    });
    world.edit(Kind::Service, "demo-client", |service| {
        service["spec"]["selector"]["other"] = json!("x");
        service["spec"]["ports"][0]["targetPort"] = json!(1);
    });
    assert!(world.observe().unwrap().observation.snapshot.client_service_selects_others);
    world.pass();
    let led: Value = world.get(Kind::Service, "demo-client");
    assert_eq!((&led["spec"]["selector"]["other"], &led["spec"]["type"]), (&Value::Null, &json!("NodePort")));
    assert_eq!(led["metadata"]["annotations"]["a"], Value::Null);
    let port = &led["spec"]["ports"][0];
    assert_eq!((&port["targetPort"], &port["nodePort"]), (&json!(2379), &json!(30222)));
    assert!(!world.observe().unwrap().observation.snapshot.client_service_selects_others);
    world.pass();
    let whole: Value = world.get(Kind::Service, "demo-client");
    assert_eq!(whole["spec"]["type"], "LoadBalancer");
    assert_eq!(whole["metadata"]["annotations"]["a"], "1", "with the type, as it may say what that is to be");
}

#[test]
fn another_class_goes_by_a_plain_service_and_source_ranges_of_a_load_balancer_go_with_it() {
    let of_class = |class: &str| json!({ "type": "LoadBalancer", "loadBalancerClass": class });
    let mut world = with_service(&of_class("example.com/a"));
    world.edit(Kind::Service, "demo-client", |service| {
        service["spec"]["loadBalancerSourceRanges"] = json!(["192.0.2.0/24"]);
    });
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["service"] = of_class("example.com/b"));
    world.pass();
    let between: Value = world.get(Kind::Service, "demo-client");
    assert_eq!(between["spec"]["type"], "ClusterIP");
    for field in ["loadBalancerClass", "loadBalancerSourceRanges"] {
        assert_eq!(between["spec"][field], Value::Null, "{field}");
    }
    world.settle();
    let after: Value = world.get(Kind::Service, "demo-client");
    assert_eq!(
        (&after["spec"]["type"], &after["spec"]["loadBalancerClass"]),
        (&json!("LoadBalancer"), &json!("example.com/b"))
    );
}

#[test]
fn a_secret_that_is_being_deleted_is_left_alone() {
    let mut world = World::running(1);
    world.edit(Kind::Secret, NAME, |secret| {
        secret["metadata"]["deletionTimestamp"] = json!("2026-11-21T08:00:00Z");
        secret["data"] = json!({});
    });
    assert!(!world.pass(), "nothing is to be done until it is gone");
}

#[test]
fn a_field_that_the_api_server_drops_is_not_sent_again_and_again() {
    let mut world = with_service(&json!({ "trafficDistribution": "PreferSameNode" }));
    world.edit(Kind::Service, "demo-client", |service| {
        service["spec"].as_object_mut().unwrap().remove("trafficDistribution");
    });
    assert!(!world.pass());
}

#[test]
fn an_upgrade_of_the_operator_changes_no_service_whose_spec_has_none() {
    let mut world = World::running(1);
    let service: Value = world.get(Kind::Service, "demo-client");
    assert_eq!(service["metadata"]["annotations"], Value::Null);
    world.edit(Kind::Service, "demo-client", |service| {
        service["metadata"]["annotations"] = json!({ "a": "b" });
    });
    assert!(!world.pass(), "annotations of others stay");
    // Somebody who changes the type by hand is put right, as before.
    world.edit(Kind::Service, "demo-client", |service| service["spec"]["type"] = json!("NodePort"));
    world.settle();
    let service: Value = world.get(Kind::Service, "demo-client");
    assert_eq!(service["spec"]["type"], "ClusterIP");
}
