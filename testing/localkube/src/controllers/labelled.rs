//! An index of objects by their labels, so that a selector need not be matched against all of them.

use std::collections::BTreeMap;

use quorate_apistore::fields::{entries, namespace};
use quorate_apistore::selectors::{map_selects, selects};
use serde_json::Value;

/// Objects indexed by their labels.
pub(super) struct Labelled<'a>(BTreeMap<&'a str, ByLabel<'a>>);

/// The objects of one namespace, and the same by key and value of each label.
#[derive(Default)]
struct ByLabel<'a> {
    all: Vec<&'a Value>,
    by_label: BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a Value>>>,
}

impl<'a> Labelled<'a> {
    pub fn of(objects: impl Iterator<Item = &'a Value>) -> Self {
        let mut namespaces: BTreeMap<&str, ByLabel<'_>> = BTreeMap::new();
        for object in objects {
            let index = namespaces.entry(namespace(object)).or_default();
            index.all.push(object);
            for (key, value) in entries(object, "/metadata/labels") {
                let values = index.by_label.entry(key).or_default();
                values.entry(value.as_str().unwrap_or_default()).or_default().push(object);
            }
        }
        Self(namespaces)
    }

    /// The objects that the map of a Service selects.
    pub fn of_map(&self, namespace: &str, selector: Option<&Value>) -> Vec<&'a Value> {
        let candidates = self.candidates(namespace, selector);
        candidates.iter().copied().filter(|object| map_selects(selector, object)).collect()
    }

    /// The objects with one label.
    pub fn with(&self, namespace: &str, key: &str, value: &str) -> &[&'a Value] {
        self.0.get(namespace).map(|index| index.with(key, value)).unwrap_or_default()
    }

    /// The objects that a `LabelSelector` selects.
    pub fn of_selector(&self, namespace: &str, selector: Option<&Value>) -> Vec<&'a Value> {
        let candidates =
            self.candidates(namespace, selector.and_then(|selector| selector.get("matchLabels")));
        candidates.iter().copied().filter(|object| selects(selector, object)).collect()
    }

    /// The shortest list that contains all objects with these labels.
    fn candidates(&self, namespace: &str, labels: Option<&Value>) -> &[&'a Value] {
        let Some(index) = self.0.get(namespace) else { return &[] };
        let pairs = labels.and_then(Value::as_object).into_iter().flatten();
        pairs
            .map(|(key, value)| index.with(key, value.as_str().unwrap_or_default()))
            .min_by_key(|list| list.len())
            .unwrap_or(&index.all)
    }
}

impl<'a> ByLabel<'a> {
    fn with(&self, key: &str, value: &str) -> &[&'a Value] {
        self.by_label.get(key).and_then(|values| values.get(value)).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_index_gives_the_same_objects() {
        let pods: Vec<Value> = (0..8)
            .map(|at| {
                let labels = json!({ "app": format!("app-{}", at % 2), "member": format!("{at}") });
                json!({ "metadata": { "name": format!("pod-{at}"), "namespace": "default", "labels": labels } })
            })
            .collect();
        let labelled = Labelled::of(pods.iter());
        let expression = json!({ "key": "member", "operator": "NotIn", "values": ["2"] });
        for selector in [
            json!({}),
            json!({ "matchLabels": {} }),
            json!({ "matchLabels": { "app": "app-1" } }),
            json!({ "matchLabels": { "app": "app-0", "member": "2" } }),
            json!({ "matchLabels": { "app": "app-0", "member": "3" } }),
            json!({ "matchLabels": { "nothing": "here" } }),
            json!({ "matchLabels": { "app": "app-0" }, "matchExpressions": [expression] }),
        ] {
            let all: Vec<&Value> = pods.iter().filter(|pod| selects(Some(&selector), pod)).collect();
            assert_eq!(labelled.of_selector("default", Some(&selector)), all, "{selector}");
            let map = selector.get("matchLabels");
            let all: Vec<&Value> = pods.iter().filter(|pod| map_selects(map, pod)).collect();
            assert_eq!(labelled.of_map("default", map), all, "{selector}");
        }
        assert!(labelled.of_selector("default", None).is_empty());
        assert!(labelled.of_selector("elsewhere", Some(&json!({}))).is_empty());
    }
}
