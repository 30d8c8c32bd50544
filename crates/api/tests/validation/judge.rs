//! Judges an object as the API server does: defaults, then the schema, then the CEL rules.

use kube_core::cel::{RootContext, Validator, apply_defaults};
use serde_json::Value;

/// What an API server would refuse in `after`, as `path: what is wrong`.
pub fn refusals(schema: &Value, before: Option<&Value>, after: &Value) -> Vec<String> {
    let before = before.map(|before| apply_defaults(schema, before));
    let has_status = after.get("status").is_some();
    let mut after = apply_defaults(schema, after);
    // The status of what is created is dropped after defaults and before rules (`customResourceStrategy.PrepareForCreate`), and filled in
    // again for whoever reads the object.
    if let Some(fields) = after.as_object_mut().filter(|_| !has_status) {
        fields.remove("status");
    }
    let mut refusals = Vec::new();
    structure(schema, &after, "", &mut refusals);
    let blocks = |refusal: &String| {
        ["Required value", "Unsupported value", "must be of type", "may not be more", "Too many"]
            .iter()
            .any(|kind| refusal.contains(kind))
    };
    if refusals.iter().any(blocks) {
        return refusals;
    }
    let context = RootContext {
        api_version: "operator.etcd.io/v1alpha1".into(),
        api_group: "operator.etcd.io".into(),
        kind: "EtcdCluster".into(),
    };
    // It would fill the status in once more.
    let mut schema = schema.clone();
    if let Some(status) = schema["properties"]["status"].as_object_mut() {
        status.remove("default");
    }
    let rules = Validator::new().validate_with_context(&schema, &after, before.as_ref(), Some(&context));
    if let Err(failed) = rules {
        refusals
            .extend(failed.into_vec().iter().map(|error| format!("{}: {}", error.field_path, error.message)));
    }
    refusals
}

/// The part of a structural schema that our definition makes use of.
fn structure(schema: &Value, value: &Value, path: &str, refusals: &mut Vec<String>) {
    let mut refuse = |what: String| refusals.push(format!("{}: {what}", path.trim_start_matches('.')));
    let integer_or_text = schema["x-kubernetes-int-or-string"] == true;
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some(other) => panic!("{path}: the schema says {other}, which is not handled here"),
        None => integer_or_text && (value.is_i64() || value.is_string()),
    };
    if !fits {
        return refuse(format!("must be of type {}", schema["type"].as_str().unwrap_or("integer or string")));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        refuse(format!("Unsupported value: {value}"));
    }
    let longest = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
    if value.as_str().is_some_and(|text| text.chars().count() as u64 > longest) {
        refuse(format!("may not be more than {longest}"));
    }
    if value
        .as_array()
        .is_some_and(|items| items.len() as u64 > schema["maxItems"].as_u64().unwrap_or(u64::MAX))
    {
        refuse("Too many items".to_owned());
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let key =
            |item: &Value| schema["x-kubernetes-list-map-keys"][0].as_str().map(|key| item[key].clone());
        let earlier = &value.as_array().expect("it is one")[..index];
        if key(item).is_some() && earlier.iter().any(|earlier| key(earlier) == key(item)) {
            refusals.push(format!("{}[{index}]: Duplicate value", path.trim_start_matches('.')));
        }
        structure(&schema["items"], item, &format!("{path}[{index}]"), refusals);
    }
    let Some(fields) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            refusals.push(format!("{path}.{name}: Required value").trim_start_matches('.').to_owned());
        }
    }
    for (name, field) in fields {
        let inner = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        match inner {
            Some(inner) => structure(inner, field, &format!("{path}.{name}"), refusals),
            None if path.is_empty() => {} // apiVersion, kind, metadata
            None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
            None => refusals.push(format!("{path}.{name}: unknown field").trim_start_matches('.').to_owned()),
        }
    }
}
