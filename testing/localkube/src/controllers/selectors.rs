//! Selectors: the maps of Services, the label selectors of budgets and affinities, the terms of node affinity.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fields::{entries, items, label, name, namespace, text};

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

/// Whether an object carries every label of a map. The empty map selects nothing: that is how Services mean it.
pub fn map_selects(selector: Option<&Value>, object: &Value) -> bool {
    let Some(wanted) = selector.and_then(Value::as_object) else { return false };
    !wanted.is_empty() && wanted.iter().all(|(key, value)| label(object, key) == value.as_str())
}

/// Whether a `LabelSelector` selects an object. The empty selector selects everything, an absent one nothing.
pub(super) fn selects(selector: Option<&Value>, object: &Value) -> bool {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return false };
    entries(selector, "/matchLabels").all(|(key, value)| label(object, key) == value.as_str())
        && items(selector, "/matchExpressions").iter().all(|one| holds(one, label(object, text(one, "/key"))))
}

/// Whether a node is in what a `NodeSelector` describes: one of the terms, every expression of it.
pub(super) fn node_matches(selector: &Value, node: &Value) -> bool {
    items(selector, "/nodeSelectorTerms").iter().any(|term| node_term_matches(term, node))
}

/// One term of node affinity. An empty term matches no node.
pub(super) fn node_term_matches(term: &Value, node: &Value) -> bool {
    let (labels, fields) = (items(term, "/matchExpressions"), items(term, "/matchFields"));
    (labels.len() + fields.len() > 0)
        && labels.iter().all(|one| holds(one, label(node, text(one, "/key"))))
        && fields.iter().all(|one| text(one, "/key") == "metadata.name" && holds(one, Some(name(node))))
}

fn holds(expression: &Value, actual: Option<&str>) -> bool {
    let among = || items(expression, "/values").iter().any(|value| value.as_str() == actual);
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let bound = || number(items(expression, "/values").first().and_then(Value::as_str));
    match text(expression, "/operator") {
        "In" => actual.is_some() && among(),
        "NotIn" => actual.is_none() || !among(),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => number(actual).zip(bound()).is_some_and(|(actual, bound)| actual > bound),
        "Lt" => number(actual).zip(bound()).is_some_and(|(actual, bound)| actual < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_selectors_mean_what_each_api_says() {
        let pod = json!({ "metadata": { "labels": { "app": "demo" } } });
        assert!(!map_selects(Some(&json!({})), &pod), "a Service without selector has no Pods");
        assert!(selects(Some(&json!({})), &pod), "an empty label selector takes all");
        assert!(!selects(None, &pod), "an absent one takes none");
        assert!(!node_matches(&json!({ "nodeSelectorTerms": [{}] }), &pod), "an empty term matches no node");
    }

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

    #[test]
    fn expressions_compare_as_documented() {
        let node = json!({ "metadata": { "name": "n1", "labels": { "zone": "a", "cores": "8" } } });
        let table = [
            (json!({ "key": "zone", "operator": "In", "values": ["a", "b"] }), true),
            (json!({ "key": "zone", "operator": "NotIn", "values": ["a"] }), false),
            (json!({ "key": "disk", "operator": "NotIn", "values": ["ssd"] }), true),
            (json!({ "key": "disk", "operator": "Exists" }), false),
            (json!({ "key": "disk", "operator": "DoesNotExist" }), true),
            (json!({ "key": "cores", "operator": "Gt", "values": ["4"] }), true),
            (json!({ "key": "cores", "operator": "Lt", "values": ["4"] }), false),
            (json!({ "key": "disk", "operator": "Gt", "values": ["4"] }), false),
        ];
        for (expression, expected) in table {
            let selector = json!({ "nodeSelectorTerms": [{ "matchExpressions": [expression] }] });
            assert_eq!(node_matches(&selector, &node), expected, "{selector}");
        }
        let by_name = json!({ "nodeSelectorTerms": [
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }] });
        assert!(node_matches(&by_name, &node));
    }
}
