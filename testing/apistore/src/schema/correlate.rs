//! Correlates values of the new object with values of the old one.

use serde_json::Value;

/// The entry of the old list that corresponds to an entry of the new one. Only lists of type set or map have
/// corresponding entries.
pub(super) fn counterpart<'a>(list: &Value, entry: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
    let old = old?.as_array()?;
    match list["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            let keys = map_keys(list);
            old.iter().find(|old| keys.iter().all(|key| old.get(key) == entry.get(key)))
        }
        Some("set") => old.iter().find(|old| *old == entry),
        Some(_) | None => None,
    }
}

/// The keys of a list of type map.
pub(super) fn map_keys(list: &Value) -> Vec<&str> {
    list["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
