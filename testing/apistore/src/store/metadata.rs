//! Metadata that only the server sets.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Part;
use crate::cause::Cause;
use crate::errors::ApiError;
use crate::fields::{items, name, text, uid};
use crate::resources::ResourceInfo;

/// Fields of a new object that only the server sets.
const SERVER_SET: [&str; 5] =
    ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"];

/// A generated name is a DNS label: the prefix of one is cut.
const LONGEST_PREFIX: usize = 58;

/// Fields that an update cannot change.
const IMMUTABLE: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Sets the metadata of a new object.
pub(super) fn set_on_create(
    info: &ResourceInfo,
    namespace: &str,
    object: &mut Value,
    uid: &str,
    now: Timestamp,
) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request("the body is not an object"));
    }
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    object["apiVersion"] = json!(info.api_version());
    object["kind"] = json!(info.kind);
    if name(object).is_empty() {
        let prefix = text(object, "/metadata/generateName");
        if prefix.is_empty() {
            let cause = Cause::required_because("metadata.name", "name or generateName is required");
            return Err(ApiError::invalid(info, "", &[cause]));
        }
        let prefix = prefix.get(..LONGEST_PREFIX).unwrap_or(prefix);
        object["metadata"]["name"] = json!(format!("{prefix}{}", suffix(uid)));
    }
    let own = text(object, "/metadata/namespace");
    if info.namespaced && !own.is_empty() && own != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return Err(ApiError::bad_request("metadata is not an object"));
    };
    for given in SERVER_SET {
        metadata.remove(given);
    }
    metadata.remove("namespace");
    if info.namespaced {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    metadata.insert("uid".to_owned(), json!(uid));
    metadata.insert("creationTimestamp".to_owned(), json!(seconds(now)));
    if info.counts_generations() {
        metadata.insert("generation".to_owned(), json!(1));
    }
    drop_empty(object);
    Ok(())
}

/// Refuses a write whose name, namespace or resourceVersion differs from the stored object.
pub(super) fn check_identity(info: &ResourceInfo, old: &Value, wanted: &Value) -> Result<(), ApiError> {
    let (given, name) = (|path| text(wanted, path), name(old));
    let of_url = |what: &str, given: &str, own: &str| {
        let why = format!("the {what} of the object ({given}) does not match the {what} on the URL ({own})");
        Err(ApiError::bad_request(why))
    };
    if !given("/metadata/name").is_empty() && given("/metadata/name") != name {
        return of_url("name", given("/metadata/name"), name);
    }
    let (namespace, own) = (given("/metadata/namespace"), text(old, "/metadata/namespace"));
    if !namespace.is_empty() && namespace != own {
        return of_url("namespace", namespace, own);
    }
    let version = given("/metadata/resourceVersion");
    if !version.is_empty() && version != text(old, "/metadata/resourceVersion") {
        return Err(ApiError::modified(info, name));
    }
    let end = given("/metadata/deletionTimestamp");
    if !end.is_empty() && end != text(old, "/metadata/deletionTimestamp") {
        let cause = Cause::invalid("metadata.deletionTimestamp", &json!(end), "field is immutable");
        return Err(ApiError::invalid(info, name, &[cause]));
    }
    if !given("/metadata/uid").is_empty() && given("/metadata/uid") != uid(old) {
        let cause = Cause::invalid("metadata.uid", &json!(given("/metadata/uid")), "field is immutable");
        return Err(ApiError::invalid(info, name, &[cause]));
    }
    Ok(())
}

/// The stored object with one part replaced.
pub(super) fn merge(info: &ResourceInfo, part: Part, old: &Value, wanted: Value) -> Value {
    let mut new = match part {
        Part::Main => wanted,
        Part::Status => {
            let mut new = old.clone();
            set_or_remove(&mut new, "status", wanted.get("status").cloned());
            // An update of the status of a built-in kind may change metadata, except the owners of a Pod.
            if info.schema.is_none() {
                let own = old["metadata"].get("ownerReferences").filter(|_| info.plural == "pods").cloned();
                new["metadata"] = wanted["metadata"].clone();
                if info.plural == "pods" {
                    set_or_remove(&mut new["metadata"], "ownerReferences", own);
                }
            }
            new
        }
    };
    if part == Part::Main && info.has("status") {
        set_or_remove(&mut new, "status", old.get("status").cloned());
    }
    new["apiVersion"] = old["apiVersion"].clone();
    new["kind"] = old["kind"].clone();
    if !new["metadata"].is_object() {
        new["metadata"] = json!({});
    }
    for kept in IMMUTABLE {
        set_or_remove(&mut new["metadata"], kept, old["metadata"].get(kept).cloned());
    }
    set_or_remove(&mut new["metadata"], "managedFields", None);
    drop_empty(&mut new);
    new
}

/// Whether the desired state differs: that is what `generation` counts.
pub(super) fn desired_state_differs(info: &ResourceInfo, old: &Value, new: &Value) -> bool {
    let has_status = info.has("status");
    info.counts_generations() && !desired_fields(old, has_status).eq(desired_fields(new, has_status))
}

/// The fields of an object without metadata, and without status where status is a subresource.
fn desired_fields(object: &Value, has_status: bool) -> impl Iterator<Item = (&String, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(move |(key, _)| *key != "metadata" && !(has_status && *key == "status"))
}

/// Kubernetes stores whole seconds in metadata.
pub(super) fn seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Drops empty lists and maps of metadata.
fn drop_empty(object: &mut Value) {
    for list in ["finalizers", "ownerReferences"] {
        if items(object, &format!("/metadata/{list}")).is_empty() {
            set_or_remove(&mut object["metadata"], list, None);
        }
    }
    for map in ["labels", "annotations"] {
        if object["metadata"]
            .get(map)
            .is_some_and(|map| map.as_object().is_none_or(serde_json::Map::is_empty))
        {
            set_or_remove(&mut object["metadata"], map, None);
        }
    }
}

fn set_or_remove(object: &mut Value, key: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => drop(fields.insert(key.to_owned(), value)),
        None => drop(fields.remove(key)),
    }
}

/// Five characters from the alphabet of the real server. It has no vowels, so that no words form.
fn suffix(uid: &str) -> String {
    const DRAWN: &[u8; 16] = b"bcdfghjklmnpqrst";
    let digits = uid.bytes().filter_map(|byte| char::from(byte).to_digit(16)).take(5);
    digits.filter_map(|digit| DRAWN.get(usize::try_from(digit).ok()?)).map(|byte| char::from(*byte)).collect()
}

#[expect(clippy::disallowed_methods, reason = "this is the API server: it gives out uids")]
pub(super) fn random_uid() -> String {
    Uuid::new_v4().to_string()
}
