//! Random edits of a spec, drawn from the schema of the CRD: valid values, values at their bounds, and invalid values.

use std::sync::LazyLock;

use quorate_api::keys;
use quorate_apistore::fields::{at, items};
use serde_json::{Map, Value, json};

use crate::campaign::Random;
use crate::world::World;
use crate::world::restore::restored;

/// The schema of `spec` in the CRD.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let definitions = quorate_api::crd::crds();
    let clusters = definitions.iter().find(|definition| definition.spec.names.kind == "EtcdCluster");
    let schema = clusters.map(|definition| serde_json::to_value(&definition.spec.versions[0].schema));
    let schema = schema.and_then(Result::ok).unwrap_or_default();
    at(&schema, "/openAPIV3Schema/properties/spec").cloned().unwrap_or_default()
});

/// The versions that upgrades and refused edits choose from.
const VERSIONS: [&str; 7] = ["3.5.20", "3.5.35", "3.6.5", "3.6.16", "3.7.3", "v3.6.16", "4.0.0"];

/// The priority classes that every Kubernetes has. The API server refuses a Pod with another class until a person corrects
/// the edit, so no history with such an edit reaches its goal.
const PRIORITY_CLASSES: [&str; 3] = ["", "system-cluster-critical", "system-node-critical"];

/// Images that a user names. An older etcd than the data does not start until a person corrects the edit.
const IMAGES: [&str; 3] = ["", "example.org/etcd", "example.org/etcd:v3.7.3"];

/// How long leaf certificates live. A shorter life would be over while a history waits, and there would be no rest.
const LIVES: [&str; 5] = ["365d", "8760h0m0s", "60d12h", "1y", ""];

/// The first spec of a history.
pub fn first(random: &mut Random) -> Value {
    let size = random.one_of(&[1, 1, 2, 3, 3, 3, 4, 5]).copied().unwrap_or(3);
    let version = random.one_of(&["3.5.35", "3.6.16", "3.6.16", "3.7.3"]).copied().unwrap_or("3.6.16");
    let mut spec = json!({ "size": size, "version": version, "storageSpec": { "volumeSizeRequest": "1Gi" } });
    if random.below(4) != 0 {
        spec["tls"] = json!({ "provider": "disabled" });
    } else if random.below(2) == 0 {
        spec["auth"] = json!({ "enabled": true });
    }
    if random.below(6) == 0 {
        spec["storageSpec"] = json!({ "medium": "Memory" });
    }
    if random.below(5) == 0 {
        spec["storageSpec"]["retention"] = json!({ "whenDeleted": "Delete" });
    }
    spec
}

/// The next edit; `None` if the cluster is to be deleted.
pub fn next(random: &mut Random, world: &World) -> Option<Value> {
    match random.below(20) {
        0 => None,
        1..=8 => Some(json!({ "size": random.one_of(&[0, 1, 2, 3, 4, 5, 7])? })),
        9 => Some(json!({ "version": random.one_of(&VERSIONS)? })),
        // With the order that lets etcd be downgraded to it.
        10 => {
            let version = random.one_of(&VERSIONS)?;
            let order = json!({ keys::ALLOW_DOWNGRADE: version });
            Some(json!({ "version": version, "metadata": { "annotations": order } }))
        }
        11 => Some(json!({ "paused": world.cluster().is_some_and(|cluster| !cluster.spec.paused) })),
        12 => Some(json!({ "paused": false })),
        _ => Some(Value::Object(field(random, &SCHEMA))),
    }
}

/// An edit that can be reverted. It changes neither size nor version, because these change the members and the version of
/// their data.
pub fn revertible(random: &mut Random) -> Value {
    loop {
        let mut edit = field(random, &SCHEMA);
        edit.retain(|field, _| !["size", "version", "paused"].contains(&field.as_str()));
        // The data of a newer etcd do not go back.
        edit.retain(|field, value| field != "image" || value != IMAGES[2]);
        if !edit.is_empty() {
            return Value::Object(edit);
        }
    }
}

/// One field, at this level or below, with a value.
fn field(random: &mut Random, schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object();
    let names: Vec<&String> = properties.into_iter().flat_map(Map::keys).collect();
    let Some(name) = random.one_of(&names) else { return Map::new() };
    let of = &schema["properties"][name.as_str()];
    let value = match name.as_str() {
        _ if random.below(8) == 0 => Value::Null,
        "priorityClassName" => json!(random.one_of(&PRIORITY_CLASSES)),
        "image" => json!(random.one_of(&IMAGES)),
        // Until the cluster begins it may be edited: to one that the World has, or to none.
        "bootstrap" => restored(json!({}))["bootstrap"].clone(),
        // No history has its Secret: a new cluster would wait for it for ever.
        "caBundleSecret" => json!(""),
        "validityDuration" => json!(random.one_of(&LIVES)),
        _ => value(random, of),
    };
    Map::from_iter([((*name).clone(), value)])
}

fn value(random: &mut Random, schema: &Value) -> Value {
    if let Some(one) = random.one_of(items(schema, "/enum")) {
        return one.clone();
    }
    match schema["type"].as_str() {
        Some("object") if schema["properties"].is_object() => Value::Object(field(random, schema)),
        Some("object") => json!({ "example.org/key": text(random) }),
        Some("array") => {
            let entries: Vec<Value> = (0..random.below(3)).map(|_| value(random, &schema["items"])).collect();
            Value::Array(entries)
        }
        Some("boolean") => Value::Bool(random.below(2) == 0),
        Some("integer") => {
            let (least, most) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
            let bounds =
                [least, most, least.map(|least| least - 1), most.map(|most| most.saturating_add(1)), Some(3)];
            let bounds: Vec<i64> = bounds.into_iter().flatten().collect();
            json!(random.one_of(&bounds))
        }
        _ => Value::String(text(random)),
    }
}

fn text(random: &mut Random) -> String {
    let texts = [
        "",
        "a",
        "2Gi",
        "1Gi",
        "512Mi",
        "10",
        "-1",
        "3.6.16",
        "1h",
        "periodic",
        "revision",
        "ReadWriteOnce",
        "--max-txn-ops=256",
        "--snapshot-count=5000",
        "--name=other",
        "--no-such-flag=1",
        "example.org/etcd",
        "Ünïcode",
    ];
    random.one_of(&texts).copied().unwrap_or_default().to_owned()
}
