//! Lists of type set or map: no entry occurs twice.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::correlate::map_keys;
use super::path::Path;
use crate::cause::Cause;

pub(super) fn validate(schema: &Value, value: &Value, path: Path<'_>, causes: &mut Vec<Cause>) {
    // Without a schema here there is none below.
    if schema.is_null() {
        return;
    }
    match value {
        Value::Array(entries) => {
            duplicates(schema, entries, path, causes);
            for (index, entry) in entries.iter().enumerate() {
                validate(&schema["items"], entry, Path::Entry(&path, index), causes);
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                match schema["properties"].get(key) {
                    Some(schema) => validate(schema, value, Path::Field(&path, key), causes),
                    None => {
                        validate(&schema["additionalProperties"], value, Path::Key(&path, key), causes);
                    }
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn duplicates(schema: &Value, entries: &[Value], path: Path<'_>, causes: &mut Vec<Cause>) {
    let keys = map_keys(schema);
    let key_of = |entry: &Value| -> Value {
        let part = |&key: &&str| Some((key.to_owned(), entry.get(key)?.clone()));
        keys.iter().filter_map(part).collect::<Map<String, Value>>().into()
    };
    let identity: &dyn Fn(&Value) -> Value = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => &Value::clone,
        Some("map") => &key_of,
        Some(_) | None => return,
    };
    let mut seen = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let identity = identity(entry);
        if !seen.insert(identity.to_string()) {
            causes.push(Cause::duplicate(Path::Entry(&path, index).to_string(), &identity));
        }
    }
}
