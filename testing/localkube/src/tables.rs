//! The output of `kubectl get`: a list as a `meta.k8s.io/v1` Table, rendered by the server as the real one does.
//! Built-in kinds have printers below; custom resources follow their `additionalPrinterColumns`.

pub mod age;
mod cluster;
mod columns;
mod custom;
mod events;
mod jobs;
pub mod json_path;
mod network;
mod objects;
mod pods;
mod storage;

use jiff::Timestamp;
use serde_json::{Value, json};

use columns::Printer;
use quorate_apistore::ResourceInfo;

/// How much of each object a row carries (`?includeObject=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Only the cells.
    None,
    /// The metadata, which kubectl needs to act on a row.
    #[default]
    Metadata,
    /// The whole object, for `--sort-by` and the like.
    Object,
}

impl Include {
    /// Reads the query parameter; an absent or unknown value means metadata.
    pub fn from_query(value: Option<&str>) -> Self {
        match value {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// Renders objects of one resource as a Table. `list_meta` is the list's own metadata (its resource version). In a
/// watch only the first table carries the columns: set `headers` accordingly.
pub fn render(
    info: &ResourceInfo,
    objects: &[Value],
    list_meta: &Value,
    include: Include,
    headers: bool,
    now: Timestamp,
) -> Value {
    let printer = printer(info);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({ "cells": printer.cells(object, now) });
            if let Some(conditions) = row_conditions(info, object) {
                row["conditions"] = conditions;
            }
            match include {
                Include::None => row["object"] = Value::Null,
                Include::Metadata => row["object"] = partial(object),
                Include::Object => row["object"] = object.clone(),
            }
            row
        })
        .collect();
    let columns = if headers { printer.definitions() } else { json!([]) };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn printer(info: &ResourceInfo) -> Printer<'_> {
    let built_in = match (info.group.as_str(), info.plural.as_str()) {
        ("", "pods") => Some(pods::PODS),
        ("", "persistentvolumeclaims") => Some(storage::CLAIMS),
        ("", "persistentvolumes") => Some(storage::VOLUMES),
        ("storage.k8s.io", "storageclasses") => Some(storage::CLASSES),
        ("", "services") => Some(network::SERVICES),
        ("", "endpoints") => Some(network::ENDPOINTS),
        ("discovery.k8s.io", "endpointslices") => Some(network::SLICES),
        ("", "nodes") => Some(cluster::NODES),
        ("", "namespaces") => Some(cluster::NAMESPACES),
        ("coordination.k8s.io", "leases") => Some(cluster::LEASES),
        ("batch", "jobs") => Some(jobs::JOBS),
        ("networking.k8s.io", "networkpolicies") => Some(network::POLICIES),
        ("policy", "poddisruptionbudgets") => Some(cluster::BUDGETS),
        ("apiextensions.k8s.io", "customresourcedefinitions") => Some(cluster::DEFINITIONS),
        ("" | "events.k8s.io", "events") => Some(events::EVENTS),
        ("", "secrets") => Some(objects::SECRETS),
        ("", "configmaps") => Some(objects::CONFIG_MAPS),
        ("", "serviceaccounts") => Some(objects::SERVICE_ACCOUNTS),
        _ => None,
    };
    built_in.map_or_else(|| Printer::Custom(custom::columns(info)), Printer::BuiltIn)
}

/// Only Pods have row conditions: old versions of kubectl hid finished Pods by them.
fn row_conditions(info: &ResourceInfo, object: &Value) -> Option<Value> {
    let (reason, message) = match (info.plural.as_str(), object.pointer("/status/phase")?.as_str()?) {
        ("pods", "Succeeded") => ("Succeeded", "The pod has completed successfully."),
        ("pods", "Failed") => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_apistore::{ResourceKey, Resources};

    fn etcd_clusters(columns: &Value) -> ResourceInfo {
        let version = json!({ "name": "v1", "served": true, "additionalPrinterColumns": columns });
        let names = json!({ "kind": "EtcdCluster", "plural": "etcdclusters", "singular": "etcdcluster" });
        let spec =
            json!({ "group": "example.org", "names": names, "scope": "Namespaced", "versions": [version] });
        ResourceInfo::from_definition(&json!({ "spec": spec })).unwrap()
    }

    fn table(info: &ResourceInfo, object: &Value, include: Include, headers: bool) -> Value {
        let now = "2024-01-01T00:01:40Z".parse().unwrap();
        render(info, std::slice::from_ref(object), &json!({ "resourceVersion": "7" }), include, headers, now)
    }

    #[test]
    fn custom_resources_show_the_columns_of_their_definition() {
        let info = etcd_clusters(&json!([
            { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
            { "name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status" },
            { "name": "Paused", "type": "boolean", "jsonPath": ".spec.paused" },
            { "name": "Leaders", "type": "string", "jsonPath": ".status.members[?(@.isLeader==true)].name" },
            { "name": "Id", "type": "string", "jsonPath": ".status.id", "priority": 1, "description": "the id" },
            { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        ]));
        let object = json!({
            "metadata": { "name": "demo", "creationTimestamp": "2024-01-01T00:00:00Z" },
            "spec": { "size": 3, "paused": false },
            "status": {
                "conditions": [{ "type": "Available", "status": "True" }],
                "members": [{ "name": "demo-0", "isLeader": false }, { "name": "demo-1", "isLeader": true }],
            },
        });
        let table = table(&info, &object, Include::Metadata, true);
        assert_eq!(table["rows"][0]["cells"], json!(["demo", 3, "True", false, "demo-1", null, "100s"]));
        let id =
            json!({ "name": "Id", "type": "string", "format": "", "description": "the id", "priority": 1 });
        assert_eq!(table["columnDefinitions"][5], id);
        assert_eq!(table["columnDefinitions"][0]["format"], "name");
    }

    #[test]
    fn a_kind_without_columns_shows_the_age() {
        let object = json!({ "metadata": { "name": "demo", "creationTimestamp": "2024-01-01T00:00:00Z" } });
        let table = table(&etcd_clusters(&json!([])), &object, Include::Metadata, true);
        assert_eq!(table["rows"][0]["cells"], json!(["demo", "100s"]));
    }

    #[test]
    fn rows_include_the_requested_part_of_the_object() {
        let info = etcd_clusters(&json!([]));
        let object = json!({ "metadata": { "name": "demo" }, "spec": { "size": 3 } });
        let carried = |include: Include| table(&info, &object, include, true)["rows"][0]["object"].clone();
        assert_eq!(carried(Include::from_query(Some("None"))), Value::Null);
        assert_eq!(carried(Include::from_query(Some("Object"))), object);
        let metadata = carried(Include::from_query(None));
        assert_eq!(
            (&metadata["kind"], &metadata["metadata"]),
            (&json!("PartialObjectMetadata"), &object["metadata"])
        );
        assert!(metadata.get("spec").is_none());
    }

    #[test]
    fn later_tables_of_a_watch_have_no_headers() {
        let object = json!({ "metadata": { "name": "demo" } });
        let later = table(&etcd_clusters(&json!([])), &object, Include::Metadata, false);
        assert_eq!(
            (&later["columnDefinitions"], &later["metadata"]["resourceVersion"]),
            (&json!([]), &json!("7"))
        );
    }

    #[test]
    fn every_row_of_a_built_in_kind_has_a_cell_for_each_column() {
        let object = json!({ "metadata": { "name": "thing" } });
        for info in Resources::builtin().all() {
            let table = table(info, &object, Include::None, true);
            let count = |value: &Value| value.as_array().unwrap().len();
            assert_eq!(
                count(&table["columnDefinitions"]),
                count(&table["rows"][0]["cells"]),
                "{}",
                info.plural
            );
            let generic = table["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]);
            assert!(!generic.eq(["Name", "Age"]), "{} has a printer", info.plural);
        }
    }

    #[test]
    fn a_finished_pod_has_the_row_condition_by_which_clients_hide_it() {
        let pods = Resources::builtin().get(&ResourceKey::new("", "pods")).unwrap();
        let finished = json!({ "metadata": { "name": "job" }, "status": { "phase": "Failed" } });
        let row = table(&pods, &finished, Include::None, true)["rows"][0].clone();
        assert_eq!(row["conditions"][0]["reason"], "Failed");
    }
}
