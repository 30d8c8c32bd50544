//! Selectors in objects: the maps of Services, label selectors, and the node selectors of affinities.
//!
//! kube-core's `Selector` is not used: it needs typed copies of labels and selector for each match, and has no `Gt`
//! and `Lt` of node selectors. Controllers match here often.

use serde_json::Value;

use crate::fields::{entries, items, label, name, text};

/// Whether an object carries every label of a map. The empty map selects nothing: that is how Services mean it.
pub fn map_selects(selector: Option<&Value>, object: &Value) -> bool {
    let Some(wanted) = selector.and_then(Value::as_object) else { return false };
    !wanted.is_empty() && wanted.iter().all(|(key, value)| label(object, key) == value.as_str())
}

/// Whether a `LabelSelector` selects an object. The empty selector selects everything, an absent one nothing.
pub fn selects(selector: Option<&Value>, object: &Value) -> bool {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return false };
    entries(selector, "/matchLabels").all(|(key, value)| label(object, key) == value.as_str())
        && items(selector, "/matchExpressions")
            .iter()
            .all(|one| matches_expression(one, label(object, text(one, "/key"))))
}

/// Whether a node is in what a `NodeSelector` describes: one of the terms, every expression of it.
pub fn node_matches(selector: &Value, node: &Value) -> bool {
    items(selector, "/nodeSelectorTerms").iter().any(|term| node_term_matches(term, node))
}

/// One term of node affinity. An empty term matches no node.
pub fn node_term_matches(term: &Value, node: &Value) -> bool {
    let (labels, fields) = (items(term, "/matchExpressions"), items(term, "/matchFields"));
    (labels.len() + fields.len() > 0)
        && labels.iter().all(|one| matches_expression(one, label(node, text(one, "/key"))))
        && fields
            .iter()
            .all(|one| text(one, "/key") == "metadata.name" && matches_expression(one, Some(name(node))))
}

fn matches_expression(expression: &Value, actual: Option<&str>) -> bool {
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
