//! The three kinds of patch that kubectl and clients send.

use serde_json::{Map, Value};

/// How a patch is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`, for built-in kinds only.
    Strategic,
}

/// The patch can not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is not of its form.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// A `test` operation failed, or a path is not there.
    #[error("the server rejected our request due to an error in our request: {0}")]
    Rejected(String),
}

/// The object after the patch.
pub fn apply(kind: PatchKind, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let mut patched = object.clone();
    match kind {
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| PatchError::Malformed(error.to_string()))?;
            json_patch::patch(&mut patched, &patch)
                .map_err(|error| PatchError::Rejected(error.to_string()))?;
        }
        PatchKind::Merge => {
            if !patch.is_object() {
                return Err(PatchError::Malformed("a merge patch is an object".to_owned()));
            }
            json_patch::merge(&mut patched, patch);
        }
        PatchKind::Strategic => {
            let Some(fields) = patch.as_object() else {
                return Err(PatchError::Malformed("a strategic merge patch is an object".to_owned()));
            };
            merge_object(&mut patched, fields);
        }
    }
    Ok(patched)
}

/// The fields by which entries of a list are told apart, in the built-in kinds served here (the `patchMergeKey` tags
/// of Kubernetes' API types). Other lists are replaced.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "containers" | "initContainers" | "volumes" | "env" | "imagePullSecrets" => Some("name"),
        "conditions" => Some("type"),
        "volumeMounts" => Some("mountPath"),
        "ownerReferences" => Some("uid"),
        "hostAliases" | "podIPs" => Some("ip"),
        "ports" => Some("port"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

fn merge_object(object: &mut Value, patch: &Map<String, Value>) {
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let kept = patch.iter().filter(|(key, _)| !key.starts_with('$'));
        *object = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
        return;
    }
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else { return };
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(entries)), Value::Array(gone)) = (fields.get_mut(list), value) {
                entries.retain(|entry| !gone.contains(entry));
            }
            continue;
        }
        if key.starts_with("$setElementOrder/") || key.starts_with("$retainKeys") || key == "$patch" {
            continue;
        }
        match value {
            Value::Null => drop(fields.remove(key)),
            Value::Object(patch) => merge_object(fields.entry(key.clone()).or_insert(Value::Null), patch),
            Value::Array(patch) => merge_list(key, fields.entry(key.clone()).or_insert(Value::Null), patch),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                drop(fields.insert(key.clone(), value.clone()));
            }
        }
    }
}

fn merge_list(name: &str, list: &mut Value, patch: &[Value]) {
    let is_set = name == "finalizers";
    let key = merge_key(name).map(|key| match (key, patch.first()) {
        // A container's ports are told apart by another field than a Service's.
        ("port", Some(entry)) if entry.get("containerPort").is_some() => "containerPort",
        (key, _) => key,
    });
    let Some(entries) = list.as_array_mut() else {
        *list = Value::Array(patch.iter().filter(|entry| entry.get("$patch").is_none()).cloned().collect());
        return;
    };
    if is_set {
        for entry in patch {
            if !entries.contains(entry) {
                entries.push(entry.clone());
            }
        }
        return;
    }
    let Some(key) = key else {
        *entries = patch.to_vec();
        return;
    };
    for entry in patch {
        let found = entries.iter().position(|own| own.get(key) == entry.get(key));
        let deletes = entry.get("$patch").and_then(Value::as_str) == Some("delete");
        match (found, entry.as_object()) {
            (Some(at), _) if deletes => drop(entries.remove(at)),
            (Some(at), Some(patch)) => merge_object(&mut entries[at], patch),
            (None, _) if deletes => {}
            (_, _) => entries.push(entry.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_strategic_patch_merges_lists_by_their_key() {
        let pod = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let patch =
            json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "a", "$patch": "delete"}]}});
        let patched = apply(PatchKind::Strategic, &pod, &patch).unwrap();
        assert_eq!(patched, json!({"spec": {"containers": [{"name": "b", "image": "2"}]}}));
    }

    #[test]
    fn a_merge_patch_removes_with_null_and_replaces_lists() {
        let object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
        let patched = apply(PatchKind::Merge, &object, &json!({"a": {"b": null}, "l": [3]})).unwrap();
        assert_eq!(patched, json!({"a": {"c": 2}, "l": [3]}));
    }

    #[test]
    fn a_json_patch_whose_test_fails_changes_nothing() {
        let patch = json!([{"op": "test", "path": "/a", "value": 2}, {"op": "remove", "path": "/a"}]);
        assert!(matches!(apply(PatchKind::Json, &json!({"a": 1}), &patch), Err(PatchError::Rejected(_))));
    }
}
