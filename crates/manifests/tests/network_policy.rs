//! Who a NetworkPolicy lets in, and that it never shuts out a peer, the operator or a Job.

use std::collections::BTreeMap;

use crate::world::{World, plain};
use quorate_api::EtcdBackup;
use quorate_manifests::backup::{Of, backup_order};
use quorate_manifests::job::{self, Terms};
use quorate_manifests::{Defaults, Kind, OperatorPods};
use quorate_model::ManagedObject;
use quorate_model::snapshot::Presence;
use serde_json::{Value, json};

/// A cluster with this `spec.networkPolicy`, of an operator in a Pod.
fn running(policy: &Value) -> World {
    let mut spec = plain(3);
    spec["networkPolicy"] = policy.clone();
    let mut world = World::new(&spec);
    world.defaults.operator_pods = Some(operator_pods());
    world.settle();
    world
}

fn operator_pods() -> OperatorPods {
    let label = ("app.kubernetes.io/component".to_owned(), "operator".to_owned());
    OperatorPods { namespace: "quorate-system".to_owned(), labels: BTreeMap::from([label]) }
}

fn set(world: &mut World, policy: &Value) {
    world.edit(Kind::Cluster, "demo", |cluster| cluster["spec"]["networkPolicy"] = policy.clone());
}

fn seen(world: &World) -> Value {
    world.get(Kind::NetworkPolicy, "demo")
}

/// Who may connect to a port; `None`: everybody; an empty list: nobody.
fn sources(world: &World, port: u16) -> Option<Vec<Value>> {
    let policy = seen(world);
    let rules = policy["spec"]["ingress"].as_array().unwrap();
    let mut of_port = rules.iter().filter(|rule| rule["ports"][0]["port"] == port);
    let Some(rule) = of_port.next() else { return Some(Vec::new()) };
    assert!(of_port.next().is_none(), "one rule for each port");
    let sources = rule.get("from").map(|from| from.as_array().unwrap().clone());
    assert_ne!(sources, Some(Vec::new()), "an empty list lets everybody in");
    sources
}

#[test]
fn without_lists_peers_are_members_the_agents_port_is_the_operators_and_clients_are_everybody() {
    let world = running(&json!({ "enabled": true }));
    let mut policy = seen(&world);
    policy["metadata"].as_object_mut().unwrap().retain(|key, _| key != "resourceVersion" && key != "uid");
    insta::assert_yaml_snapshot!("network_policy", policy);
    assert_eq!((sources(&world, 2379), sources(&world, 2381)), (None, None));
}

#[test]
fn with_lists_clients_are_those_and_the_members_the_operator_and_the_jobs() {
    let kamaji = json!({ "namespaceSelector": { "matchLabels": { "team": "a" } }, "podSelector": {} });
    let nodes = json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } });
    let world = running(&json!({ "enabled": true, "clientsFrom": [kamaji, nodes], "metricsFrom": [kamaji] }));
    let clients = sources(&world, 2379).unwrap();
    assert_eq!(clients[3..], [kamaji.clone(), nodes]);
    let own = json!([
        { "podSelector": { "matchLabels": { "operator.etcd.io/cluster": "demo" } } },
        { "podSelector": { "matchExpressions": [{ "key": "operator.etcd.io/backup", "operator": "Exists" }] } },
        {
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "quorate-system" } },
            "podSelector": { "matchLabels": { "app.kubernetes.io/component": "operator" } },
        },
    ]);
    assert_eq!(json!(clients[..3]), own);
    assert_eq!(sources(&world, 2381), Some(vec![kamaji]));
    assert_eq!(sources(&world, 2380), Some(vec![own[0].clone(), own[2].clone()]), "a client is no peer");
    assert_eq!(sources(&world, 9980), Some(vec![own[2].clone()]));
}

#[test]
fn empty_lists_let_nobody_else_in() {
    let world = running(&json!({ "enabled": true, "clientsFrom": [], "metricsFrom": [] }));
    assert_eq!(sources(&world, 2379).unwrap().len(), 3);
    assert_eq!(sources(&world, 2381), Some(Vec::new()), "there is no rule for this port");
}

#[test]
fn its_selectors_find_every_member_and_every_job_that_connects_to_one() {
    let world = running(&json!({ "enabled": true, "clientsFrom": [] }));
    let members = json!({ "operator.etcd.io/cluster": "demo" });
    assert_eq!(seen(&world)["spec"]["podSelector"], json!({ "matchLabels": members }));
    for pod in world.all::<Value>(Kind::Pod) {
        assert_eq!(pod["metadata"]["labels"]["operator.etcd.io/cluster"], "demo");
    }
    let backup: EtcdBackup = serde_json::from_value(json!({
        "metadata": { "name": "b", "namespace": "default", "uid": "u" },
        "spec": {
            "source": { "endpoints": { "urls": ["https://e:2379"] } },
            "destination": { "pvc": { "claimName": "backups" } },
        },
    }))
    .unwrap();
    let of = Of::Endpoints(backup.spec.source.endpoints.as_ref().unwrap());
    let order = backup_order(&backup, of).unwrap();
    let job = json!(job::backup(
        &backup,
        &order,
        None,
        1,
        Terms::new(60, Some(&world.cluster()), &Defaults::default())
    ));
    let labels = &job["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels["operator.etcd.io/backup"], "b");
    assert!(
        labels.get("operator.etcd.io/cluster").is_none(),
        "the policy does not select it: it has no rule for it"
    );
}

#[test]
fn a_later_incarnation_keeps_the_policy_as_it_is() {
    let mut world = running(&json!({ "enabled": true, "clientsFrom": [] }));
    let before = seen(&world)["spec"].clone();
    world.edit(Kind::Cluster, "demo", |cluster| {
        cluster["status"]["incarnation"] = json!({ "number": 1, "firstOrdinal": 3 });
    });
    let observed = world.observe().unwrap().observation.snapshot;
    assert_eq!(observed.network_policy.presence, Presence::Matches);
    assert!(
        !before.to_string().contains("incarnation"),
        "members of the one before are stopped by other means"
    );
}

#[test]
fn switching_it_on_and_off_restarts_no_member() {
    let pods = |world: &World| world.all::<Value>(Kind::Pod);
    let mut world = World::running(3);
    world.defaults.operator_pods = Some(operator_pods());
    let before = pods(&world);
    set(&mut world, &json!({ "enabled": true, "clientsFrom": [] }));
    world.settle();
    assert_eq!(pods(&world), before);
    assert!(!world.all::<Value>(Kind::NetworkPolicy).is_empty());
    set(&mut world, &json!({ "enabled": false, "clientsFrom": [] }));
    world.settle();
    assert_eq!(pods(&world), before);
    assert!(world.all::<Value>(Kind::NetworkPolicy).is_empty());
}

#[test]
fn whatever_somebody_adds_to_it_is_taken_back_and_its_owner_is_put_back() {
    let mut world = running(&json!({ "enabled": true, "clientsFrom": [] }));
    let desired = seen(&world);
    let same = |world: &World| {
        let policy = seen(world);
        policy["spec"] == desired["spec"] && policy["metadata"]["labels"] == desired["metadata"]["labels"]
    };
    let changes: [fn(&mut Value); 6] = [
        // Members that are not selected are open to everybody.
        |policy| policy["spec"]["podSelector"]["matchLabels"]["other"] = json!("x"),
        |policy| {
            policy["spec"]["podSelector"]["matchExpressions"] = json!([{ "key": "a", "operator": "Exists" }]);
        },
        // Peers out of another namespace are no peers.
        |policy| policy["spec"]["ingress"][0]["from"][0]["namespaceSelector"] = json!({}),
        |policy| policy["spec"]["policyTypes"] = json!(["Ingress", "Egress"]),
        |policy| policy["spec"]["egress"] = json!([{ "to": [{ "podSelector": {} }] }]),
        |policy| policy["spec"]["ingress"] = json!([]),
    ];
    for change in changes {
        world.edit(Kind::NetworkPolicy, "demo", change);
        assert!(!same(&world));
        world.settle();
        assert!(same(&world), "{:#}", seen(&world));
    }
    world.edit(Kind::NetworkPolicy, "demo", |policy| policy["metadata"]["labels"]["team"] = json!("a"));
    assert!(!world.pass(), "labels of others are theirs");
}

#[test]
fn a_list_that_kubernetes_spells_otherwise_is_not_written_again_and_again() {
    let peer =
        json!({ "podSelector": { "matchLabels": {}, "matchExpressions": [] }, "namespaceSelector": {} });
    let mut world = running(&json!({ "enabled": true, "clientsFrom": [peer] }));
    // The API server gives back what is empty in another way than it was sent.
    world.edit(Kind::NetworkPolicy, "demo", |policy| {
        let from = policy["spec"]["ingress"][1]["from"].as_array_mut().unwrap();
        *from.last_mut().unwrap() = json!({ "podSelector": { "matchLabels": {} }, "namespaceSelector": {} });
    });
    assert!(!world.pass());
}

#[test]
fn an_operator_that_no_label_finds_leaves_its_port_open_and_refuses_lists_that_would_shut_it_out() {
    let mut world = running(&json!({ "enabled": true, "clientsFrom": [], "metricsFrom": [] }));
    let before = seen(&world);
    world.defaults.operator_pods = None;
    let refused = world.observe().unwrap().observation.refused.unwrap();
    assert_eq!(refused.field, "spec.networkPolicy.clientsFrom");
    assert!(refused.message.contains("would shut it out"), "{}", refused.message);
    world.settle();
    assert_eq!(seen(&world), before, "the one that exists is left as it is");

    set(&mut world, &json!({ "enabled": true, "metricsFrom": [] }));
    world.settle();
    assert_eq!((sources(&world, 2379), sources(&world, 9980)), (None, None));
    assert!(sources(&world, 2380).is_some(), "peers are members all the same");
}

#[test]
fn a_source_that_the_api_server_would_refuse_is_refused_with_its_field_and_writes_nothing() {
    let labels = |labels: Value| json!({ "podSelector": { "matchLabels": labels } });
    let expression = |expression: Value| json!({ "podSelector": { "matchExpressions": [expression] } });
    let block = |cidr: &str, except: &[&str]| json!({ "ipBlock": { "cidr": cidr, "except": except } });
    for (source, why) in [
        (json!({}), "it is empty"),
        (json!({ "podSelector": {}, "ipBlock": { "cidr": "10.0.0.0/8" } }), "ipBlock stands alone"),
        (labels(json!({ "bad key": "x" })), "is no qualified name"),
        (labels(json!({ "key": "bad value" })), "is no word"),
        (expression(json!({ "key": "a", "operator": "In" })), "needs values"),
        (expression(json!({ "key": "a", "operator": "Exists", "values": ["b"] })), "has no values"),
        (expression(json!({ "key": "a", "operator": "Is", "values": ["b"] })), "is none of In"),
        (expression(json!({ "key": "/", "operator": "Exists" })), "is no qualified name"),
        (block("10.0.0.0", &[]), "is no block of addresses"),
        (block("10.0.0.0/33", &[]), "is no block of addresses"),
        (block("2001:db8::/129", &[]), "is no block of addresses"),
        (block("10.0.0.0/08", &[]), "is no block of addresses"),
        (block("10.0.0.0/8", &["11.0.0.0/16"]), "is no block of addresses within"),
        (block("10.0.0.0/8", &["10.0.0.0/8"]), "is no block of addresses within"),
        (block("2001:db8::/32", &["10.0.0.0/16"]), "is no block of addresses within"),
    ] {
        let mut world = World::running(1);
        world.defaults.operator_pods = Some(operator_pods());
        set(&mut world, &json!({ "enabled": true, "metricsFrom": [{ "podSelector": {} }, source] }));
        let refused = world.observe().unwrap().observation.refused.unwrap();
        assert_eq!(refused.field, "spec.networkPolicy.metricsFrom[1]", "{source}");
        assert!(refused.message.contains(why), "{source}: {}", refused.message);
        world.settle();
        assert!(world.all::<Value>(Kind::NetworkPolicy).is_empty(), "{source}");
    }
    for source in [
        block("0.0.0.0/0", &["10.0.0.0/8"]),
        block("::/0", &["2001:db8::/32"]),
        block("10.1.2.3/8", &["10.0.0.0/9"]),
    ] {
        let world = running(&json!({ "enabled": true, "metricsFrom": [source] }));
        assert_eq!(world.observe().unwrap().observation.refused, None, "{source}");
    }
}

#[test]
fn another_ones_policy_of_that_name_is_named_only_where_the_spec_wants_one() {
    let other = json!({
        "metadata": { "name": "demo", "namespace": "default", "labels": { "operator.etcd.io/cluster": "demo" } },
        "spec": { "podSelector": {} },
    });
    let mut world = World::running(1);
    world.put(Kind::NetworkPolicy, other);
    let foreign = |world: &World| world.observe().unwrap().observation.snapshot.foreign;
    assert!(foreign(&world).is_empty() && !world.pass());
    set(&mut world, &json!({ "enabled": true }));
    let named = foreign(&world).remove(&ManagedObject::NetworkPolicy);
    assert_eq!(named.as_deref(), Some("NetworkPolicy default/demo"));
    let before = seen(&world);
    world.settle();
    assert_eq!(seen(&world), before);
}
