//! Converts JSON to CEL values.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::objects::{Key, Value as Cel};
use serde_json::Value;

/// Reserved words of CEL.
const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Converts a value by its schema: a `number` becomes a double, names of properties are escaped.
pub(super) fn to_cel(schema: &Value, value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match number.as_i64().filter(|_| schema["type"] != "number") {
            Some(whole) => Cel::Int(whole),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(entries) => {
            let schema = &schema["items"];
            Cel::List(Arc::new(entries.iter().map(|entry| to_cel(schema, entry)).collect()))
        }
        Value::Object(fields) => {
            let entry = |(key, value): (&String, &Value)| match schema["properties"].get(key) {
                Some(schema) => (Key::from(escape(key)), to_cel(schema, value)),
                None => (Key::from(key.clone()), to_cel(&schema["additionalProperties"], value)),
            };
            let map: HashMap<Key, Cel> = fields.iter().map(entry).collect();
            Cel::Map(map.into())
        }
    }
}

/// The name of a property as CEL rules write it.
fn escape(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let escaped = name.replace("__", "__underscores__");
    escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__")
}
