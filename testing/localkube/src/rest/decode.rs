//! Reads objects of built-in kinds as strictly as the real server: unknown fields are reported and dropped, wrong
//! types are refused.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret,
    Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use quorate_apistore::ApiError;
use quorate_apistore::ResourceInfo;
use quorate_apistore::quantity::millis;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Removes fields that the kind does not have, and returns their paths.
pub(super) fn decode(info: &ResourceInfo, object: &mut Value) -> Result<Vec<String>, ApiError> {
    check_kind(info, object)?;
    if let Some(schema) = &info.compiled {
        return Ok(schema.prune(object));
    }
    let read = match (info.group.as_str(), info.plural.as_str()) {
        ("", "configmaps") => read::<ConfigMap>,
        ("", "endpoints") => read::<Endpoints>,
        ("", "events") => read::<Event>,
        ("", "namespaces") => read::<Namespace>,
        ("", "nodes") => read::<Node>,
        ("", "persistentvolumes") => read::<PersistentVolume>,
        ("", "persistentvolumeclaims") => read::<PersistentVolumeClaim>,
        ("", "pods") => read::<Pod>,
        ("", "secrets") => read::<Secret>,
        ("", "services") => read::<Service>,
        ("", "serviceaccounts") => read::<ServiceAccount>,
        ("apiextensions.k8s.io", "customresourcedefinitions") => read::<CustomResourceDefinition>,
        ("coordination.k8s.io", "leases") => read::<Lease>,
        ("discovery.k8s.io", "endpointslices") => read::<EndpointSlice>,
        ("events.k8s.io", "events") => read::<events::v1::Event>,
        ("batch", "jobs") => read::<Job>,
        ("networking.k8s.io", "networkpolicies") => read::<NetworkPolicy>,
        ("policy", "poddisruptionbudgets") => read::<PodDisruptionBudget>,
        ("storage.k8s.io", "storageclasses") => read::<StorageClass>,
        (_, _) => return Ok(Vec::new()),
    };
    let cannot = |why: &str| {
        let (kind, version) = (&info.kind, &info.version);
        ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    let known = read(object).map_err(|error| cannot(&error.to_string()))?;
    // A definition may name properties like quantities.
    if info.plural != "customresourcedefinitions" && !quantities_are_well_formed(object) {
        return Err(cannot(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ));
    }
    let mut unknown = Vec::new();
    keep_known(&known, object, "", &mut unknown);
    Ok(unknown)
}

fn check_kind(info: &ResourceInfo, object: &Value) -> Result<(), ApiError> {
    let [kind, version] = ["kind", "apiVersion"].map(|key| object[key].as_str().unwrap_or_default());
    if !version.is_empty() && version != info.api_version() {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            info.api_version()
        )));
    }
    if !kind.is_empty() && kind != info.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: unknown conversion",
            info.version, info.kind
        )));
    }
    Ok(())
}

fn read<K: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(K::deserialize(object)?)
}

/// Keeps the fields that the type read. A null counts as absent.
fn keep_known(known: &Value, object: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match object {
        Value::Object(fields) => {
            fields.retain(|key, value| {
                let keeps = known.get(key).is_some();
                if !keeps && !value.is_null() {
                    unknown.push(join(path, key));
                }
                keeps
            });
            for (key, value) in fields {
                keep_known(&known[key.as_str()], value, &join(path, key), unknown);
            }
        }
        Value::Array(entries) => {
            for (index, entry) in entries.iter_mut().enumerate() {
                keep_known(&known[index], entry, &format!("{path}[{index}]"), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn quantities_are_well_formed(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().all(|(key, value)| match value {
            Value::Object(quantities)
                if ["requests", "limits", "capacity", "allocatable"].contains(&key.as_str()) =>
            {
                quantities.values().all(|quantity| millis(quantity).is_some())
            }
            other => quantities_are_well_formed(other),
        }),
        Value::Array(entries) => entries.iter().all(quantities_are_well_formed),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
