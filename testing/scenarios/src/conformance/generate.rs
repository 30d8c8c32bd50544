//! Generates calls from a seed.
//!
//! Left out is what localkube does not support: server-side apply, streaming lists, quantities in another form than the stored
//! one (a real Kubernetes turns `1024Mi` into `1Gi`).

use serde_json::{Value, json};

use super::objects::{self, NAMES, PREFIXES};
use super::random::Random;
use super::{Call, Form, Kind, Verb};

/// A sequence of this many calls. At its end a watch of each kind shows all changes.
pub fn generate(seed: u64, length: usize) -> Vec<Call> {
    let mut random = Random::new(seed);
    let mut kinds =
        vec![random.one_of(&Kind::ALL), random.one_of(&[Kind::ConfigMap, Kind::Secret, Kind::Pod])];
    // A budget selects Pods.
    if kinds.contains(&Kind::Budget) {
        kinds = vec![Kind::Budget, Kind::Pod, Kind::Pod];
    }
    let mut calls: Vec<Call> = (0..length).map(|_| call(&mut random, &kinds)).collect();
    for kind in
        [Kind::ConfigMap, Kind::Secret, Kind::ServiceAccount].into_iter().filter(|kind| kinds.contains(kind))
    {
        calls.push(Call::of(Verb::Watch, kind, ""));
        calls.push(Call { query: "labelSelector=tier%3D1".to_owned(), ..Call::of(Verb::Watch, kind, "") });
    }
    calls
}

fn call(random: &mut Random, kinds: &[Kind]) -> Call {
    let (kind, name) = (random.one_of(kinds), random.one_of(&NAMES));
    let mut call = match random.below(100) {
        0..30 => create(random, kind, name, kinds),
        30..35 => Call::of(Verb::Get, kind, name),
        35..42 => list(random, kind),
        42..55 => replace(random, kind, name, kinds),
        55..72 => patch(random, kind, name, kinds),
        72..88 => delete(random, kind, name),
        _ => below(random, kind, name),
    };
    if !matches!(call.verb, Verb::Get | Verb::Watch) {
        if random.percent(8) {
            with(&mut call.query, "dryRun=All");
            // A real Kubernetes echoes a version that an object to be created must not have.
            if call.verb == Verb::Post {
                call.body["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
            }
        }
        if random.percent(20) && call.verb != Verb::Delete {
            with(&mut call.query, random.one_of(&["fieldValidation=Strict", "fieldValidation=Ignore"]));
        }
    }
    call
}

fn create(random: &mut Random, kind: Kind, name: &str, kinds: &[Kind]) -> Call {
    let wrong = random.percent(25);
    let mut body =
        if wrong { objects::invalid(random, kind, name) } else { objects::valid(random, kind, name, kinds) };
    if random.percent(8) {
        body["metadata"]["generateName"] = json!(random.one_of(&PREFIXES));
        body["metadata"]["name"] = random.one_of(&[Value::Null, json!("")]);
    }
    if kind == Kind::Service {
        // A real Kubernetes is not consistent: a version in a new object is refused for every kind but Service.
        body["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
    }
    Call { body, ..Call::of(Verb::Post, kind, "") }
}

fn list(random: &mut Random, kind: Kind) -> Call {
    let query = random.one_of(&[
        "",
        "labelSelector=tier%3D1",
        "labelSelector=tier%20in%20(1,2),app",
        "labelSelector=!tier",
        "labelSelector=tier!%3D1",
        "labelSelector=tier%20notin%20(2)",
        "labelSelector=a%20b",
        "labelSelector=tier%3D%3D%3D1",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=metadata.name!%3Da",
        "fieldSelector=spec.nonsense%3Da",
        "limit=x",
    ]);
    Call { query: query.to_owned(), ..Call::of(Verb::Get, kind, "") }
}

fn replace(random: &mut Random, kind: Kind, name: &str, kinds: &[Kind]) -> Call {
    let place = format!("{}/{name}", kind.plural());
    let mut body = match random.below(10) {
        0..3 => objects::valid(random, kind, name, kinds),
        3 => objects::invalid(random, kind, name),
        _ => {
            // As clients do: read, change, replace.
            let mut body = objects::change(random, kind);
            body["$seen"] = json!(place);
            // Only in a patch does a null delete a field; elsewhere Go reads an empty string.
            if body.pointer("/metadata/labels/tier").is_some_and(Value::is_null) {
                body["metadata"]["labels"] = json!({});
            }
            if !body["metadata"].is_object() {
                body["metadata"] = json!({});
            }
            body
        }
    };
    match random.below(10) {
        0..4 => body["metadata"]["resourceVersion"] = json!(format!("$version {place}")),
        4..6 => body["metadata"]["resourceVersion"] = json!(format!("$stale {place}")),
        6 => body["metadata"]["uid"] = json!(format!("$uid {place}")),
        7 => body["metadata"]["uid"] = json!("11111111-1111-1111-1111-111111111111"),
        _ => {}
    }
    Call { body, ..Call::of(Verb::Put, kind, name) }
}

fn patch(random: &mut Random, kind: Kind, name: &str, kinds: &[Kind]) -> Call {
    let place = format!("{}/{name}", kind.plural());
    let form = random.one_of(&[Form::Merge, Form::Merge, Form::Strategic, Form::Json]);
    if form == Form::Json {
        return Call { body: objects::operations(random), ..Call::of(Verb::Patch(form), kind, name) };
    }
    let mut body = objects::change(random, kind);
    if kind != Kind::EtcdCluster && random.percent(15) {
        body = json!({"metadata": {"ownerReferences": objects::owner_references(random, kinds)}});
    }
    if random.percent(15) {
        let which = random.one_of(&["$version", "$stale"]);
        if !body["metadata"].is_object() {
            body["metadata"] = json!({});
        }
        body["metadata"]["resourceVersion"] = json!(format!("{which} {place}"));
    }
    Call { body, ..Call::of(Verb::Patch(form), kind, name) }
}

fn delete(random: &mut Random, kind: Kind, name: &str) -> Call {
    let place = format!("{}/{name}", kind.plural());
    let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if random.percent(15) {
        body["preconditions"] = random.one_of(&[
            json!({"uid": format!("$uid {place}")}),
            json!({"uid": "11111111-1111-1111-1111-111111111111"}),
            json!({"resourceVersion": format!("$version {place}")}),
            json!({"resourceVersion": format!("$stale {place}")}),
        ]);
    }
    // These two need the garbage collector, which discovers new kinds only every half minute.
    if kind != Kind::EtcdCluster && random.percent(50) {
        body["propagationPolicy"] =
            json!(random.one_of(&["Orphan", "Background", "Foreground", "Foreground"]));
    } else if random.percent(5) {
        body["propagationPolicy"] = json!("Other");
    }
    if random.percent(15) {
        body["gracePeriodSeconds"] = json!(random.one_of(&[0, 1, 60]));
    }
    Call { body, ..Call::of(Verb::Delete, kind, name) }
}

/// Calls to subresources.
fn below(random: &mut Random, kind: Kind, name: &str) -> Call {
    match kind {
        Kind::Pod if random.percent(50) => evict(random, name),
        Kind::Pod => Call {
            subresource: "status",
            body: running(random),
            ..Call::of(Verb::Patch(Form::Merge), kind, name)
        },
        Kind::EtcdCluster if random.percent(60) => scale(random, name),
        Kind::EtcdCluster => {
            let status =
                json!({"phase": random.one_of(&["Running", "Creating"]), "readyReplicas": random.below(4)});
            let body =
                json!({"status": status, "spec": {"size": 7}, "metadata": {"labels": {"ignored": "x"}}});
            Call { subresource: "status", body, ..Call::of(Verb::Patch(Form::Merge), kind, name) }
        }
        Kind::Budget | Kind::Claim | Kind::Service | Kind::Job => {
            let body = json!({"metadata": {"annotations": {"note": "status"}}, "spec": {"unknown": 1}});
            Call { subresource: "status", body, ..Call::of(Verb::Patch(Form::Merge), kind, name) }
        }
        Kind::ConfigMap | Kind::Secret | Kind::ServiceAccount | Kind::Lease => {
            Call { subresource: "status", ..Call::of(Verb::Get, kind, name) }
        }
    }
}

fn evict(random: &mut Random, name: &str) -> Call {
    let mut body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    if random.percent(30) {
        body["deleteOptions"] = random.one_of(&[
            json!({"gracePeriodSeconds": 0}),
            json!({"dryRun": ["All"]}),
            json!({"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}),
        ]);
    }
    Call { subresource: "eviction", body, ..Call::of(Verb::Post, Kind::Pod, name) }
}

fn running(random: &mut Random) -> Value {
    let ready = random.one_of(&["True", "True", "False"]);
    let phase = random.one_of(&["Running", "Running", "Running", "Failed"]);
    json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
}

fn scale(random: &mut Random, name: &str) -> Call {
    let place = format!("{}/{name}", Kind::EtcdCluster.plural());
    let replicas = random.one_of(&[json!(0), json!(3), json!(-1), json!("x")]);
    let (verb, body) = match random.below(4) {
        0 => (Verb::Get, Value::Null),
        1 => {
            let version = random.one_of(&[
                json!(null),
                json!(format!("$version {place}")),
                json!(format!("$stale {place}")),
            ]);
            let metadata = json!({"name": name, "resourceVersion": version});
            let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}});
            (Verb::Put, scale)
        }
        _ => (Verb::Patch(Form::Merge), json!({"spec": {"replicas": replicas}})),
    };
    Call { subresource: "scale", body, ..Call::of(verb, Kind::EtcdCluster, name) }
}

fn with(query: &mut String, parameter: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(parameter);
}
