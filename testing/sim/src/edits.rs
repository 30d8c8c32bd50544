//! What people write into a spec: drawn from the CRD's own schema, valid values, values at their bounds, and values that
//! are wrong.

use std::sync::LazyLock;

use quorate_apistore::fields::{at, items};
use serde_json::{Map, Value, json};

use crate::campaign::Dice;
use crate::world::World;

/// The schema of `spec`, as the CRD has it.
static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let definitions = quorate_api::crd::crds();
    let clusters = definitions.iter().find(|definition| definition.spec.names.kind == "EtcdCluster");
    let schema = clusters.map(|definition| serde_json::to_value(&definition.spec.versions[0].schema));
    let schema = schema.and_then(Result::ok).unwrap_or_default();
    at(&schema, "/openAPIV3Schema/properties/spec").cloned().unwrap_or_default()
});

/// The versions that upgrades and refused edits choose from.
const VERSIONS: [&str; 7] = ["3.5.20", "3.5.35", "3.6.5", "3.6.16", "3.7.3", "v3.6.16", "4.0.0"];

/// A spec to begin with.
pub fn first(dice: &mut Dice) -> Value {
    let size = dice.one_of(&[1, 1, 2, 3, 3, 3, 4, 5]).copied().unwrap_or(3);
    let version = dice.one_of(&["3.5.35", "3.6.16", "3.6.16", "3.7.3"]).copied().unwrap_or("3.6.16");
    let mut spec = json!({ "size": size, "version": version, "storageSpec": { "volumeSizeRequest": "1Gi" } });
    if dice.below(4) != 0 {
        spec["tls"] = json!({ "provider": "disabled" });
    }
    if dice.below(6) == 0 {
        spec["storageSpec"] = json!({ "medium": "Memory" });
    }
    if dice.below(5) == 0 {
        spec["storageSpec"]["retention"] = json!({ "whenDeleted": "Delete" });
    }
    spec
}

/// What is edited next; `None` if the cluster is to be deleted.
pub fn next(dice: &mut Dice, world: &World) -> Option<Value> {
    match dice.below(20) {
        0 => None,
        1..=8 => Some(json!({ "size": dice.one_of(&[0, 1, 2, 3, 4, 5, 7])? })),
        9..=10 => Some(json!({ "version": dice.one_of(&VERSIONS)? })),
        11 => Some(json!({ "paused": world.cluster().is_some_and(|cluster| !cluster.spec.paused) })),
        12 => Some(json!({ "paused": false })),
        _ => Some(Value::Object(field(dice, &SCHEMA))),
    }
}

/// An edit of anything that can be taken back: not of size and version, which change what members there are and what their
/// data are of.
pub fn to_be_taken_back(dice: &mut Dice) -> Value {
    loop {
        let mut edit = field(dice, &SCHEMA);
        edit.retain(|field, _| !["size", "version", "paused"].contains(&field.as_str()));
        if !edit.is_empty() {
            return Value::Object(edit);
        }
    }
}

/// One field, or one below it, with some value.
fn field(dice: &mut Dice, schema: &Value) -> Map<String, Value> {
    let properties = schema["properties"].as_object();
    let names: Vec<&String> = properties.into_iter().flat_map(Map::keys).collect();
    let Some(name) = dice.one_of(&names) else { return Map::new() };
    let of = &schema["properties"][name.as_str()];
    let value = if dice.below(8) == 0 { Value::Null } else { value(dice, of) };
    Map::from_iter([((*name).clone(), value)])
}

fn value(dice: &mut Dice, schema: &Value) -> Value {
    if let Some(one) = dice.one_of(items(schema, "/enum")) {
        return one.clone();
    }
    match schema["type"].as_str() {
        Some("object") if schema["properties"].is_object() => Value::Object(field(dice, schema)),
        Some("object") => json!({ "example.org/key": text(dice) }),
        Some("array") => {
            let entries: Vec<Value> = (0..dice.below(3)).map(|_| value(dice, &schema["items"])).collect();
            Value::Array(entries)
        }
        Some("boolean") => Value::Bool(dice.below(2) == 0),
        Some("integer") => {
            let (least, most) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
            let bounds =
                [least, most, least.map(|least| least - 1), most.map(|most| most.saturating_add(1)), Some(3)];
            let bounds: Vec<i64> = bounds.into_iter().flatten().collect();
            json!(dice.one_of(&bounds))
        }
        _ => Value::String(text(dice)),
    }
}

fn text(dice: &mut Dice) -> String {
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
    dice.one_of(&texts).copied().unwrap_or_default().to_owned()
}
