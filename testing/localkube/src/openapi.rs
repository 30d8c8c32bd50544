//! OpenAPI v3 documents, one for each group and version, with as much as kubectl reads: the schemas for `kubectl
//! explain`, and the operations from which `apply` learns that the server validates fields and supports dry runs.
//!
//! Built-in kinds have the schemas of k8s-openapi, custom resources those of their definitions. The schemas have no
//! merge keys, so strategic merge patches are not announced and kubectl uses its own.

mod builtin;
mod custom;
mod paths;

use std::collections::BTreeSet;

use quorate_apistore::{ResourceInfo, Resources};
use serde_json::{Map, Value, json};

use crate::fingerprint::fingerprint;

/// Serves `/openapi/v3` and the documents below it; `None` for any other path.
pub fn serve(path: &str, resources: &Resources) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["openapi", "v3"] => Some(index(resources)),
        ["openapi", "v3", "api", version] => document(resources, "", version),
        ["openapi", "v3", "apis", group, version] => document(resources, group, version),
        _ => None,
    }
}

fn index(resources: &Resources) -> Value {
    let versions: BTreeSet<(&str, &str)> =
        resources.all().map(|info| (info.group.as_str(), info.version.as_str())).collect();
    let paths: Map<String, Value> = versions
        .into_iter()
        .map(|(group, version)| {
            let place = place(group, version);
            // Clients cache a document until its hash changes.
            let hash = of_version(resources, group, version)
                .map(|info| {
                    fingerprint(&[
                        &info.kind,
                        &info.schema.as_ref().map(Value::to_string).unwrap_or_default(),
                    ])
                })
                .fold(0, u64::wrapping_add);
            (place.clone(), json!({ "serverRelativeURL": format!("/openapi/v3/{place}?hash={hash:016X}") }))
        })
        .collect();
    json!({ "paths": paths })
}

fn document(resources: &Resources, group: &str, version: &str) -> Option<Value> {
    let mut schemas = builtin::schemas(group, version);
    let mut paths = Map::new();
    for info in of_version(resources, group, version) {
        if let Some(schema) = &info.schema {
            schemas.insert(custom::name(info), custom::schema(info, schema));
        }
        paths.extend(paths::of(info));
    }
    (!paths.is_empty()).then(|| {
        json!({
            "openapi": "3.0.0",
            "info": { "title": "Kubernetes", "version": "unversioned" },
            "paths": paths,
            "components": { "schemas": schemas },
        })
    })
}

fn of_version<'a>(
    resources: &'a Resources,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'a ResourceInfo> {
    resources.all().map(AsRef::as_ref).filter(move |info| info.group == group && info.version == version)
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The extension by which a schema or an operation names its kind.
fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "version": version, "kind": kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_custom_resource() -> Resources {
        let mut resources = Resources::builtin();
        let definition = json!({ "spec": {
            "group": "operator.etcd.io",
            "names": { "kind": "EtcdCluster", "plural": "etcdclusters", "singular": "etcdcluster" },
            "scope": "Namespaced",
            "versions": [{ "name": "v1alpha1", "served": true, "schema": { "openAPIV3Schema": {
                "type": "object",
                "properties": { "spec": { "type": "object", "properties": { "size": { "type": "integer" } } } },
            } } }],
        } });
        resources.add(ResourceInfo::from_definition(&definition).unwrap());
        resources
    }

    #[test]
    fn every_document_of_the_index_is_served() {
        let resources = with_custom_resource();
        let index = serve("/openapi/v3", &resources).unwrap();
        let places: Vec<&String> = index["paths"].as_object().unwrap().keys().collect();
        assert!(places.iter().any(|place| *place == "apis/operator.etcd.io/v1alpha1"));
        for place in places {
            let document = serve(&format!("/openapi/v3/{place}"), &resources).unwrap();
            assert!(document["paths"].as_object().is_some_and(|paths| !paths.is_empty()), "{place}");
        }
    }

    #[test]
    fn every_kind_has_a_schema_that_names_it() {
        let resources = with_custom_resource();
        for info in resources.all() {
            let document = document(&resources, &info.group, &info.version).unwrap();
            let wanted = kind(&info.group, &info.version, &info.kind);
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let named = |schema: &&Value| {
                schema["x-kubernetes-group-version-kind"]
                    .as_array()
                    .is_some_and(|kinds| kinds.contains(&wanted))
            };
            assert_eq!(schemas.values().filter(named).count(), 1, "{wanted}");
        }
    }

    #[test]
    fn every_reference_resolves() {
        fn references(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(list) => list.iter().for_each(|value| references(value, found)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        let resources = with_custom_resource();
        for (group, version) in [("", "v1"), ("policy", "v1"), ("operator.etcd.io", "v1alpha1")] {
            let document = document(&resources, group, version).unwrap();
            let mut found = BTreeSet::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for reference in found {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{reference} in {group}/{version}");
            }
        }
    }

    #[test]
    fn the_hash_of_a_document_changes_with_its_schemas() {
        let before = index(&Resources::builtin());
        let after = index(&with_custom_resource());
        assert_eq!(before["paths"]["api/v1"], after["paths"]["api/v1"]);
        assert!(before["paths"].get("apis/operator.etcd.io/v1alpha1").is_none());
        assert!(after["paths"].get("apis/operator.etcd.io/v1alpha1").is_some());
    }
}
