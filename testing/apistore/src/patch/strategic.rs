//! The strategic merge patch: lists of built-in kinds are merged by the key of their entries.

use serde_json::{Map, Value};

const ORDER: &str = "$setElementOrder/";
const TAKE: &str = "$deleteFromPrimitiveList/";

/// Merges a patch into an object.
pub(super) fn merge(object: &mut Value, patch: &Map<String, Value>) {
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let kept = patch.iter().filter(|(key, _)| !key.starts_with('$'));
        *object = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        return;
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else { return };
    for (list, gone) in
        patch.iter().filter_map(|(key, gone)| Some((key.strip_prefix(TAKE)?, gone.as_array()?)))
    {
        if let Some(Value::Array(entries)) = fields.get_mut(list) {
            entries.retain(|entry| !gone.contains(entry));
        }
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match value {
            Value::Null => drop(fields.remove(key)),
            Value::Object(patch) => merge(fields.entry(key.clone()).or_insert(Value::Null), patch),
            Value::Array(patch) => merge_list(key, fields.entry(key.clone()).or_insert(Value::Null), patch),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                fields.insert(key.clone(), value.clone());
            }
        }
    }
    for (list, order) in
        patch.iter().filter_map(|(key, order)| Some((key.strip_prefix(ORDER)?, order.as_array()?)))
    {
        if let Some(Value::Array(entries)) = fields.get_mut(list) {
            let live = entries.clone();
            arrange(entries, &live, order, identity(list, order));
        }
    }
}

/// The merge keys of lists in the built-in kinds (the `patchMergeKey` tags of Kubernetes' API types). Other lists are
/// replaced.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets" => Some("name"),
        "conditions" | "addresses" => Some("type"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "ownerReferences" => Some("uid"),
        "hostAliases" | "podIPs" => Some("ip"),
        "ports" => Some("port"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// What makes two list entries equal.
#[derive(Clone, Copy)]
enum Identity {
    Key(&'static str),
    Itself,
}

impl Identity {
    fn same(self, one: &Value, other: &Value) -> bool {
        match self {
            Self::Key(key) => one.get(key).is_some() && one.get(key) == other.get(key),
            Self::Itself => one == other,
        }
    }

    fn position(self, entries: &[Value], entry: &Value) -> Option<usize> {
        entries.iter().position(|own| self.same(own, entry))
    }
}

fn identity(list: &str, patch: &[Value]) -> Identity {
    match (merge_key(list), patch.first()) {
        // The ports of a container have another key than those of a Service.
        (Some("port"), Some(entry)) if entry.get("containerPort").is_some() => Identity::Key("containerPort"),
        (Some(key), _) => Identity::Key(key),
        (None, _) => Identity::Itself,
    }
}

fn merge_list(name: &str, list: &mut Value, patch: &[Value]) {
    let directive = |entry: &Value| entry.get("$patch").and_then(Value::as_str).map(str::to_owned);
    let replaces = patch.iter().any(|entry| directive(entry).as_deref() == Some("replace"));
    let merges = merge_key(name).is_some() || name == "finalizers";
    let Some(entries) = list.as_array_mut().filter(|_| merges && !replaces) else {
        *list = patch.iter().filter(|entry| directive(entry).is_none()).cloned().collect();
        return;
    };
    let (identity, live) = (identity(name, patch), entries.clone());
    for entry in patch {
        let found = identity.position(entries, entry);
        match (found, directive(entry).as_deref(), entry.as_object()) {
            (Some(at), Some("delete"), _) => drop(entries.remove(at)),
            (Some(at), _, Some(patch)) => merge(&mut entries[at], patch),
            (None, Some("delete"), _) | (Some(_), _, None) => {}
            (None, _, _) => entries.push(entry.clone()),
        }
    }
    arrange(entries, &live, patch, identity);
}

/// Orders a merged list. Entries of the patch keep the order of the patch, the others their own. Between the two the
/// order of the live list decides, and new entries come first.
fn arrange(entries: &mut Vec<Value>, live: &[Value], order: &[Value], identity: Identity) {
    let (mut named, others): (Vec<Value>, Vec<Value>) =
        entries.drain(..).partition(|entry| identity.position(order, entry).is_some());
    named.sort_by_key(|entry| identity.position(order, entry));
    let mut others = others.into_iter().peekable();
    for entry in named {
        let at = identity.position(live, &entry);
        while let Some(other) = others.next_if(
            |other| matches!((identity.position(live, other), at), (Some(other), Some(at)) if other < at),
        ) {
            entries.push(other);
        }
        entries.push(entry);
    }
    entries.extend(others);
}
