//! The three kinds of patch that kubectl and clients send.

mod strategic;

use serde_json::Value;

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`, for built-in kinds only.
    Strategic,
}

/// The patch cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// It is malformed.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    /// A `test` operation failed, or a path does not exist.
    #[error("the server rejected our request due to an error in our request")]
    Rejected(#[source] json_patch::PatchError),
}

/// The object after the patch.
pub fn apply(kind: PatchKind, object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let mut patched = object.clone();
    match kind {
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_value(patch.clone())
                .map_err(|error| PatchError::Malformed(error.to_string()))?;
            json_patch::patch(&mut patched, &patch).map_err(PatchError::Rejected)?;
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
            strategic::merge(&mut patched, fields);
        }
    }
    Ok(patched)
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
    fn a_strategic_patch_orders_lists_by_its_directive_and_otherwise_puts_new_entries_first() {
        let merged = |patch: Value| {
            let service = json!({"spec": {"ports": [{"port": 1}, {"port": 2}, {"port": 3}]}});
            let merged = apply(PatchKind::Strategic, &service, &json!({ "spec": patch })).unwrap();
            let ports = merged["spec"]["ports"].as_array().unwrap().clone();
            ports.iter().map(|port| port["port"].as_i64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(merged(json!({"ports": [{"port": 4}]})), [4, 1, 2, 3]);
        assert_eq!(merged(json!({"ports": [{"port": 3, "name": "x"}]})), [1, 2, 3]);
        let ordered = json!({
            "$setElementOrder/ports": [{"port": 3}, {"port": 4}, {"port": 1}],
            "ports": [{"port": 4}, {"port": 2, "$patch": "delete"}],
        });
        assert_eq!(merged(ordered), [3, 4, 1]);
    }

    #[test]
    fn a_strategic_patch_adds_to_sets_and_removes_from_them() {
        let object = json!({"metadata": {"finalizers": ["a", "b"]}});
        let merged = |patch: Value| {
            let patched = apply(PatchKind::Strategic, &object, &json!({ "metadata": patch })).unwrap();
            patched["metadata"]["finalizers"].clone()
        };
        assert_eq!(merged(json!({"finalizers": ["c"]})), json!(["c", "a", "b"]));
        assert_eq!(merged(json!({"$deleteFromPrimitiveList/finalizers": ["a"]})), json!(["b"]));
        assert_eq!(merged(json!({"finalizers": null})), Value::Null);
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
