//! An index of objects by their labels, so that a selector need not be matched against all of them.

use std::collections::BTreeMap;

use quorate_apistore::fields::{entries, namespace};
use quorate_apistore::selectors::{map_selects, selects};
use serde_json::Value;

/// Objects by their labels, so that a selector need not look at all of them.
pub(super) struct Labelled<'a>(BTreeMap<&'a str, Inside<'a>>);

/// The objects of one namespace: all, and by the key and the value of each label.
#[derive(Default)]
struct Inside<'a> {
    all: Vec<&'a Value>,
    by_label: BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a Value>>>,
}

impl<'a> Labelled<'a> {
    pub fn of(objects: impl Iterator<Item = &'a Value>) -> Self {
        let mut namespaces: BTreeMap<&str, Inside<'_>> = BTreeMap::new();
        for object in objects {
            let inside = namespaces.entry(namespace(object)).or_default();
            inside.all.push(object);
            for (key, value) in entries(object, "/metadata/labels") {
                let values = inside.by_label.entry(key).or_default();
                values.entry(value.as_str().unwrap_or_default()).or_default().push(object);
            }
        }
        Self(namespaces)
    }

    /// Those that the map of a Service selects.
    pub fn of_map(&self, namespace: &str, selector: Option<&Value>) -> Vec<&'a Value> {
        let few = self.few(namespace, selector);
        few.iter().copied().filter(|object| map_selects(selector, object)).collect()
    }

    /// Those with one label.
    pub fn with(&self, namespace: &str, key: &str, value: &str) -> &[&'a Value] {
        self.0.get(namespace).map(|inside| inside.with(key, value)).unwrap_or_default()
    }

    /// Those that a `LabelSelector` selects.
    pub fn of_selector(&self, namespace: &str, selector: Option<&Value>) -> Vec<&'a Value> {
        let few = self.few(namespace, selector.and_then(|selector| selector.get("matchLabels")));
        few.iter().copied().filter(|object| selects(selector, object)).collect()
    }

    /// The shortest list that holds all with these labels.
    fn few(&self, namespace: &str, labels: Option<&Value>) -> &[&'a Value] {
        let Some(inside) = self.0.get(namespace) else { return &[] };
        let pairs = labels.and_then(Value::as_object).into_iter().flatten();
        pairs
            .map(|(key, value)| inside.with(key, value.as_str().unwrap_or_default()))
            .min_by_key(|list| list.len())
            .unwrap_or(&inside.all)
    }
}

impl<'a> Inside<'a> {
    fn with(&self, key: &str, value: &str) -> &[&'a Value] {
        self.by_label.get(key).and_then(|values| values.get(value)).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_shorter_way_finds_the_same_objects() {
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
