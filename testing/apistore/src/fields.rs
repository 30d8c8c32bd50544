//! Reads and writes fields of objects that are JSON. A reader returns Go's zero value for an absent field, as
//! Kubernetes' own controllers do.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The value at a JSON pointer. Keys read here contain neither `/` nor `~`, so nothing is unescaped;
/// [`Value::pointer`] unescapes and is slower.
pub fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(object, |place, key| match place {
        Value::Object(fields) => fields.get(key),
        Value::Array(list) => list.get(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// The text at a JSON pointer, or the empty string.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a JSON pointer.
pub fn integer(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// Whether the boolean at a JSON pointer is true.
pub fn flag(object: &Value, pointer: &str) -> bool {
    at(object, pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a JSON pointer, or an empty one.
pub fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The entries of the map at a JSON pointer; none if it is absent.
pub fn entries<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    at(object, pointer).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The timestamp at a JSON pointer; `None` if it is absent or malformed.
pub fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// `metadata.namespace`, empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether `metadata.deletionTimestamp` is set.
pub fn deleting(object: &Value) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// The value of a label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, "/metadata/labels")?.get(key)?.as_str()
}

/// The value of an annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    at(object, "/metadata/annotations")?.get(key)?.as_str()
}

/// Whether a finalizer is set.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    items(object, "/metadata/finalizers").iter().any(|set| set == finalizer)
}

/// Removes a finalizer.
pub fn drop_finalizer(object: &mut Value, finalizer: &str) {
    if let Some(set) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        set.retain(|one| one != finalizer);
    }
}

/// The status of a condition (`True`, `False`, `Unknown`), empty if the condition is absent.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    items(object, "/status/conditions")
        .iter()
        .find(|condition| condition["type"] == kind)
        .map_or("", |condition| text(condition, "/status"))
}

/// Sets a condition and returns whether anything changed. `lastTransitionTime` changes only with the status.
pub fn set_condition(
    object: &mut Value,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let mut fresh = json!({ "type": kind, "status": status });
    if !reason.is_empty() {
        fresh["reason"] = json!(reason);
    }
    if !message.is_empty() {
        fresh["message"] = json!(message);
    }
    let Some(list) = list_in(object, "status", "conditions") else { return false };
    let old = list.iter_mut().find(|condition| condition["type"] == kind);
    let since =
        old.as_deref().filter(|old| old["status"] == status).map(|old| old["lastTransitionTime"].clone());
    fresh["lastTransitionTime"] = since.unwrap_or_else(|| json!(seconds(now)));
    match old {
        Some(old) => {
            if let Some(generation) = old.get("observedGeneration") {
                fresh["observedGeneration"] = generation.clone();
            }
            if *old == fresh {
                return false;
            }
            *old = fresh;
        }
        None => list.push(fresh),
    }
    true
}

/// A timestamp as Kubernetes writes it: RFC 3339 with whole seconds.
pub fn seconds(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// A timestamp with microseconds, as `MicroTime` is written.
pub fn micros(at: Timestamp) -> String {
    format!("{at:.6}")
}

fn list_in<'a>(object: &'a mut Value, outer: &str, inner: &str) -> Option<&'a mut Vec<Value>> {
    let outer = object.as_object_mut()?.entry(outer).or_insert_with(|| json!({}));
    if outer.is_null() {
        *outer = json!({});
    }
    let inner = outer.as_object_mut()?.entry(inner).or_insert_with(|| json!([]));
    if inner.is_null() {
        *inner = json!([]);
    }
    inner.as_array_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_transition_time_while_its_status_stays() {
        let [early, late] = [1_700_000_000, 1_700_000_060].map(|at| Timestamp::from_second(at).unwrap());
        let mut pod = json!({});
        assert!(set_condition(&mut pod, "Ready", "False", "", "", early));
        assert!(!set_condition(&mut pod, "Ready", "False", "", "", late), "the condition did not change");
        assert!(set_condition(&mut pod, "Ready", "False", "Because", "of this", late));
        assert_eq!(text(&pod, "/status/conditions/0/lastTransitionTime"), "2023-11-14T22:13:20Z");
        assert!(set_condition(&mut pod, "Ready", "True", "", "", late));
        assert_eq!(text(&pod, "/status/conditions/0/lastTransitionTime"), "2023-11-14T22:14:20Z");
    }

    #[test]
    fn pointers_resolve_as_json_pointers() {
        let object = json!({ "spec": { "list": [{ "a": 1 }, { "a": 2 }] } });
        for pointer in
            ["", "/spec", "/spec/list/1/a", "/spec/list/2/a", "/spec/list/a", "/spec/list/0/a/b", "/x/y"]
        {
            assert_eq!(at(&object, pointer), object.pointer(pointer), "{pointer}");
        }
    }

    #[test]
    fn absent_fields_read_as_zero_values() {
        let object = json!({});
        assert_eq!(
            (text(&object, "/spec/x"), integer(&object, "/spec/y"), flag(&object, "/z")),
            ("", None, false)
        );
        assert!(items(&object, "/spec/list").is_empty() && entries(&object, "/spec/map").next().is_none());
        assert!(!deleting(&object) && label(&object, "app").is_none());
    }

    #[test]
    fn timestamps_are_written_as_kubernetes_writes_them() {
        let at: Timestamp = "2024-02-03T04:05:06.789Z".parse().unwrap();
        assert_eq!(micros(at), "2024-02-03T04:05:06.789000Z");
        assert_eq!(seconds(Timestamp::from_second(0).unwrap()), "1970-01-01T00:00:00Z");
    }
}
