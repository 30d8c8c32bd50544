//! Pruning of unknown fields, and defaults.

use serde_json::{Map, Value};

use super::path::Path;

pub(super) fn prune(schema: &Value, value: &mut Value, path: Path<'_>, unknown: &mut Vec<String>) {
    let keeps_unknown = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties");
            let embedded = path.is_root() || schema["x-kubernetes-embedded-resource"] == true;
            let known = |key: &str| {
                keeps_unknown
                    || additional.is_some_and(|additional| additional != &Value::Bool(false))
                    || properties.is_some_and(|properties| properties.contains_key(key))
                    || (embedded && ["apiVersion", "kind", "metadata"].contains(&key))
            };
            fields.retain(|key, _| {
                let keep = known(key);
                if !keep {
                    unknown.push(Path::Field(&path, key).to_string());
                }
                keep
            });
            for (key, value) in fields.iter_mut() {
                if embedded && key == "metadata" {
                    continue;
                }
                if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
                    prune(schema, value, Path::Field(&path, key), unknown);
                } else if let Some(schema) = additional.filter(|additional| additional.is_object()) {
                    prune(schema, value, Path::Field(&path, key), unknown);
                }
            }
        }
        Value::Array(entries) => {
            if let Some(schema) = schema.get("items") {
                for (index, entry) in entries.iter_mut().enumerate() {
                    prune(schema, entry, Path::Entry(&path, index), unknown);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(super) fn fill(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
                fill_properties(properties, fields);
            }
            if let Some(schema) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
                fields.values_mut().for_each(|value| fill(schema, value));
            }
        }
        Value::Array(entries) => {
            if let Some(schema) = schema.get("items") {
                for entry in entries {
                    fill(schema, entry);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// As on a real server, a null counts as absent unless the schema allows it.
fn fill_properties(properties: &Map<String, Value>, fields: &mut Map<String, Value>) {
    for (key, schema) in properties {
        if fields.get(key).is_some_and(Value::is_null) && schema["nullable"] != true {
            fields.remove(key);
        }
        if !fields.contains_key(key)
            && let Some(default) = schema.get("default")
        {
            fields.insert(key.clone(), default.clone());
        }
        if let Some(value) = fields.get_mut(key) {
            fill(schema, value);
        }
    }
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
