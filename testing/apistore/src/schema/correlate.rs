//! Which value of the old object a value of the new one continues.

use serde_json::Value;

/// The entry of the old list that this entry of the new one continues: only entries of sets and of lists that are
/// maps have an identity.
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

/// The fields by which the entries of a list that is a map are told apart.
pub(super) fn map_keys(list: &Value) -> Vec<&str> {
    list["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}
