//! Types, ranges, patterns, enumerations and the like. As on a real server, a value that did not change is not checked
//! again, so that an object created under an older schema can be repaired elsewhere.

use serde_json::{Value, json};

use super::correlate::counterpart;
use super::prune::join;
use super::range;
use crate::cause::Cause;

pub(super) fn validate(
    schema: &Value,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    if old == Some(value) || (value.is_null() && schema["nullable"] == true) {
        return;
    }
    if let Some(message) = wrong_type(schema, value, path) {
        causes.push(message);
        alternatives(schema, value, path, causes);
        return;
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        causes.push(Cause::unsupported(path, value, allowed));
    }
    range::check(schema, value, path, causes);
    let below = |key: &str| old.and_then(|old| old.get(key));
    match value {
        Value::Array(entries) => {
            if let Some(items) = schema.get("items") {
                for (index, entry) in entries.iter().enumerate() {
                    let old = counterpart(schema, entry, old);
                    validate(items, entry, old, &format!("{path}[{index}]"), causes);
                }
            }
        }
        Value::Object(fields) => {
            for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(required) {
                    causes.push(Cause::required(join(path, required)));
                }
            }
            for (key, value) in fields.iter().filter(|(key, _)| !path.is_empty() || *key != "metadata") {
                let property = schema["properties"].get(key);
                let additional = || schema.get("additionalProperties").filter(|schema| schema.is_object());
                if let Some(schema) = property.or_else(additional) {
                    validate(schema, value, below(key), &join(path, key), causes);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    alternatives(schema, value, path, causes);
}

fn wrong_type(schema: &Value, value: &Value, path: &str) -> Option<Cause> {
    let (fits, wanted) = if schema["x-kubernetes-int-or-string"] == true {
        (value.is_i64() || value.is_u64() || value.is_string(), "integer,string")
    } else {
        let wanted = schema["type"].as_str().unwrap_or_default();
        (has_type(wanted, value), wanted)
    };
    if fits {
        return None;
    }
    let shown = type_of(value);
    let message = format!("{path} in body must be of type {wanted}: {shown:?}");
    Some(Cause::invalid_type(path, &json!(shown), message))
}

fn has_type(wanted: &str, value: &Value) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// `anyOf`, `oneOf`, `allOf` and `not`.
fn alternatives(schema: &Value, value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let branches = |key: &str| schema[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let causes_of = |schema: &Value| {
        let mut causes = Vec::new();
        validate(schema, value, None, path, &mut causes);
        causes
    };
    for branch in branches("allOf") {
        causes.extend(causes_of(branch));
    }
    let wrong = |message: String| Cause::invalid("<nil>", &json!(""), message);
    let any = branches("anyOf");
    if !any.is_empty() && any.iter().all(|branch| !causes_of(branch).is_empty()) {
        causes.push(wrong(format!("{path:?} must validate at least one schema (anyOf)")));
        causes.extend(causes_of(&any[0]));
    }
    let one = branches("oneOf");
    let fitting = one.iter().filter(|branch| causes_of(branch).is_empty()).count();
    if !one.is_empty() && fitting != 1 {
        let count =
            if fitting == 0 { "none valid".to_owned() } else { format!("{fitting} valid alternatives") };
        causes.push(wrong(format!("{path:?} must validate one and only one schema (oneOf). Found {count}")));
    }
    if let Some(excluded) = schema.get("not")
        && causes_of(excluded).is_empty()
    {
        causes.push(wrong(format!("{path:?} must not validate the schema (not)")));
    }
}
