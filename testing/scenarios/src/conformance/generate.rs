//! Which calls are made, drawn from a seed.
//!
//! What our small Kubernetes does not claim to do is not asked: server-side apply, streaming lists, quantities in another
//! form than they are kept in (`1024Mi` becomes `1Gi` on the real one).

use serde_json::{Value, json};

use super::dice::Dice;
use super::objects::{self, NAMES, PREFIXES};
use super::{Call, Form, Kind, Verb};

/// A sequence of so many calls, and at its end a watch over all that happened to each kind in it.
pub fn generate(seed: u64, length: usize) -> Vec<Call> {
    let mut dice = Dice::new(seed);
    let mut kinds = vec![dice.one_of(&Kind::ALL), dice.one_of(&[Kind::ConfigMap, Kind::Secret, Kind::Pod])];
    // What a budget guards are Pods.
    if kinds.contains(&Kind::Budget) {
        kinds = vec![Kind::Budget, Kind::Pod, Kind::Pod];
    }
    let mut calls: Vec<Call> = (0..length).map(|_| call(&mut dice, &kinds)).collect();
    for kind in
        [Kind::ConfigMap, Kind::Secret, Kind::ServiceAccount].into_iter().filter(|kind| kinds.contains(kind))
    {
        calls.push(Call::of(Verb::Watch, kind, ""));
        calls.push(Call { query: "labelSelector=tier%3D1".to_owned(), ..Call::of(Verb::Watch, kind, "") });
    }
    calls
}

fn call(dice: &mut Dice, kinds: &[Kind]) -> Call {
    let (kind, name) = (dice.one_of(kinds), dice.one_of(&NAMES));
    let mut call = match dice.below(100) {
        0..30 => create(dice, kind, name, kinds),
        30..35 => Call::of(Verb::Get, kind, name),
        35..42 => list(dice, kind),
        42..55 => replace(dice, kind, name, kinds),
        55..72 => patch(dice, kind, name, kinds),
        72..88 => delete(dice, kind, name),
        _ => below(dice, kind, name),
    };
    if !matches!(call.verb, Verb::Get | Verb::Watch) {
        if dice.percent(8) {
            with(&mut call.query, "dryRun=All");
            // The real one shows a version again that an object to be created must not have.
            if call.verb == Verb::Post {
                call.body["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
            }
        }
        if dice.percent(20) && call.verb != Verb::Delete {
            with(&mut call.query, dice.one_of(&["fieldValidation=Strict", "fieldValidation=Ignore"]));
        }
    }
    call
}

fn create(dice: &mut Dice, kind: Kind, name: &str, kinds: &[Kind]) -> Call {
    let wrong = dice.percent(25);
    let mut body =
        if wrong { objects::invalid(dice, kind, name) } else { objects::valid(dice, kind, name, kinds) };
    if dice.percent(8) {
        body["metadata"]["generateName"] = json!(dice.one_of(&PREFIXES));
        body["metadata"]["name"] = dice.one_of(&[Value::Null, json!("")]);
    }
    if kind == Kind::Service {
        // The real one is at odds with itself: a version refuses every new object but a Service.
        body["metadata"].as_object_mut().and_then(|metadata| metadata.remove("resourceVersion"));
    }
    Call { body, ..Call::of(Verb::Post, kind, "") }
}

fn list(dice: &mut Dice, kind: Kind) -> Call {
    let query = dice.one_of(&[
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

fn replace(dice: &mut Dice, kind: Kind, name: &str, kinds: &[Kind]) -> Call {
    let place = format!("{}/{name}", kind.plural());
    let mut body = match dice.below(10) {
        0..3 => objects::valid(dice, kind, name, kinds),
        3 => objects::invalid(dice, kind, name),
        _ => {
            // As clients do it: what was read, changed.
            let mut body = objects::change(dice, kind);
            body["$seen"] = json!(place);
            // Only in a patch a null means that nothing is to be left; Go reads an empty text.
            if body.pointer("/metadata/labels/tier").is_some_and(Value::is_null) {
                body["metadata"]["labels"] = json!({});
            }
            if !body["metadata"].is_object() {
                body["metadata"] = json!({});
            }
            body
        }
    };
    match dice.below(10) {
        0..4 => body["metadata"]["resourceVersion"] = json!(format!("$version {place}")),
        4..6 => body["metadata"]["resourceVersion"] = json!(format!("$stale {place}")),
        6 => body["metadata"]["uid"] = json!(format!("$uid {place}")),
        7 => body["metadata"]["uid"] = json!("11111111-1111-1111-1111-111111111111"),
        _ => {}
    }
    Call { body, ..Call::of(Verb::Put, kind, name) }
}

fn patch(dice: &mut Dice, kind: Kind, name: &str, kinds: &[Kind]) -> Call {
    let place = format!("{}/{name}", kind.plural());
    let form = dice.one_of(&[Form::Merge, Form::Merge, Form::Strategic, Form::Json]);
    if form == Form::Json {
        return Call { body: objects::operations(dice), ..Call::of(Verb::Patch(form), kind, name) };
    }
    let mut body = objects::change(dice, kind);
    if kind != Kind::EtcdCluster && dice.percent(15) {
        body = json!({"metadata": {"ownerReferences": objects::owner_references(dice, kinds)}});
    }
    if dice.percent(15) {
        let which = dice.one_of(&["$version", "$stale"]);
        if !body["metadata"].is_object() {
            body["metadata"] = json!({});
        }
        body["metadata"]["resourceVersion"] = json!(format!("{which} {place}"));
    }
    Call { body, ..Call::of(Verb::Patch(form), kind, name) }
}

fn delete(dice: &mut Dice, kind: Kind, name: &str) -> Call {
    let place = format!("{}/{name}", kind.plural());
    let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    if dice.percent(15) {
        body["preconditions"] = dice.one_of(&[
            json!({"uid": format!("$uid {place}")}),
            json!({"uid": "11111111-1111-1111-1111-111111111111"}),
            json!({"resourceVersion": format!("$version {place}")}),
            json!({"resourceVersion": format!("$stale {place}")}),
        ]);
    }
    // Those two are the garbage collector's work, which learns of kinds that a definition brought every half minute only.
    if kind != Kind::EtcdCluster && dice.percent(50) {
        body["propagationPolicy"] = json!(dice.one_of(&["Orphan", "Background", "Foreground", "Foreground"]));
    } else if dice.percent(5) {
        body["propagationPolicy"] = json!("Other");
    }
    if dice.percent(15) {
        body["gracePeriodSeconds"] = json!(dice.one_of(&[0, 1, 60]));
    }
    Call { body, ..Call::of(Verb::Delete, kind, name) }
}

/// What stands below objects of some kinds.
fn below(dice: &mut Dice, kind: Kind, name: &str) -> Call {
    match kind {
        Kind::Pod if dice.percent(50) => evict(dice, name),
        Kind::Pod => Call {
            subresource: "status",
            body: running(dice),
            ..Call::of(Verb::Patch(Form::Merge), kind, name)
        },
        Kind::EtcdCluster if dice.percent(60) => scale(dice, name),
        Kind::EtcdCluster => {
            let status =
                json!({"phase": dice.one_of(&["Running", "Creating"]), "readyReplicas": dice.below(4)});
            let body =
                json!({"status": status, "spec": {"size": 7}, "metadata": {"labels": {"ignored": "x"}}});
            Call { subresource: "status", body, ..Call::of(Verb::Patch(Form::Merge), kind, name) }
        }
        Kind::Budget | Kind::Claim | Kind::Service => {
            let body = json!({"metadata": {"annotations": {"note": "status"}}, "spec": {"unknown": 1}});
            Call { subresource: "status", body, ..Call::of(Verb::Patch(Form::Merge), kind, name) }
        }
        Kind::ConfigMap | Kind::Secret | Kind::ServiceAccount | Kind::Lease => {
            Call { subresource: "status", ..Call::of(Verb::Get, kind, name) }
        }
    }
}

fn evict(dice: &mut Dice, name: &str) -> Call {
    let mut body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    if dice.percent(30) {
        body["deleteOptions"] = dice.one_of(&[
            json!({"gracePeriodSeconds": 0}),
            json!({"dryRun": ["All"]}),
            json!({"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}),
        ]);
    }
    Call { subresource: "eviction", body, ..Call::of(Verb::Post, Kind::Pod, name) }
}

fn running(dice: &mut Dice) -> Value {
    let ready = dice.one_of(&["True", "True", "False"]);
    let phase = dice.one_of(&["Running", "Running", "Running", "Failed"]);
    json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}})
}

fn scale(dice: &mut Dice, name: &str) -> Call {
    let place = format!("{}/{name}", Kind::EtcdCluster.plural());
    let replicas = dice.one_of(&[json!(0), json!(3), json!(-1), json!("x")]);
    let (verb, body) = match dice.below(4) {
        0 => (Verb::Get, Value::Null),
        1 => {
            let version = dice.one_of(&[
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
