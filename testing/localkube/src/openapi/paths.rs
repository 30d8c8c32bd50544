//! The operations of a kind: their paths, kinds and parameters.

use quorate_apistore::ResourceInfo;
use serde_json::{Map, Value, json};

use super::{kind, place};

/// The paths of one resource.
pub(super) fn of(info: &ResourceInfo) -> Map<String, Value> {
    let root = format!("/{}", place(&info.group, &info.version));
    let collection = if info.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", info.plural)
    } else {
        format!("{root}/{}", info.plural)
    };
    let mut paths = Map::new();
    if info.namespaced {
        paths.insert(format!("{root}/{}", info.plural), operations(info, &["get"]));
    }
    paths.insert(format!("{collection}/{{name}}"), operations(info, &["get", "put", "patch", "delete"]));
    paths.insert(collection, operations(info, &["get", "post", "delete"]));
    paths
}

fn operations(info: &ResourceInfo, methods: &[&str]) -> Value {
    methods.iter().map(|method| ((*method).to_owned(), operation(info, method))).collect::<Map<_, _>>().into()
}

fn operation(info: &ResourceInfo, method: &str) -> Value {
    let parameters: &[&str] = match method {
        "post" | "put" | "patch" => &["dryRun", "fieldManager", "fieldValidation"],
        "delete" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
        _ => &[],
    };
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } }))
        .collect();
    let mut operation = json!({
        "x-kubernetes-action": method,
        "x-kubernetes-group-version-kind": kind(&info.group, &info.version, &info.kind),
        "parameters": parameters,
        "responses": { "200": { "description": "OK" } },
    });
    if method == "patch" {
        let body = json!({ "schema": { "type": "object" } });
        operation["requestBody"] = json!({ "content": {
            "application/json-patch+json": body,
            "application/merge-patch+json": body,
        } });
    }
    operation
}
