//! Events have two API groups and one storage, with the field names of the core group.

use quorate_apistore::ResourceInfo;
use serde_json::{Value, json};

/// The fields that have other names in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// An object as it is stored.
pub(super) fn stored(info: &ResourceInfo, object: Value) -> Value {
    if info.group != "events.k8s.io" {
        return object;
    }
    renamed(object, "v1", NAMES.iter().copied())
}

/// An object as this group shows it.
pub(super) fn shown(info: &ResourceInfo, object: Value) -> Value {
    if info.group != "events.k8s.io" {
        return object;
    }
    renamed(object, "events.k8s.io/v1", NAMES.iter().map(|&(newer, core)| (core, newer)))
}

fn renamed<'a>(mut event: Value, version: &str, names: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    if let Some(fields) = event.as_object_mut() {
        for (from, to) in names {
            if let Some(value) = fields.remove(from) {
                fields.insert(to.to_owned(), value);
            }
        }
        fields.insert("apiVersion".to_owned(), json!(version));
    }
    event
}
