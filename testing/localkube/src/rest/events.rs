//! Events have two API groups and one storage: the names of the older, core group.

use quorate_apistore::ResourceInfo;
use serde_json::{Value, json};

/// What the newer group calls differently.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// An object as it is kept.
pub(super) fn kept(info: &ResourceInfo, object: Value) -> Value {
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
