//! Label and field selectors of a request.
//!
//! kube-core has a `Selector`, but no parser for this syntax; refusals must be in the words of the real server.

use quorate_apistore::ApiError;
use quorate_apistore::ResourceInfo;
use quorate_apistore::fields::label;
use serde_json::Value;

/// The selectors of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

#[derive(Clone, Debug)]
struct Field {
    path: String,
    equal: bool,
    value: String,
}

impl Selector {
    pub(super) fn parse(info: &ResourceInfo, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let parsed = Self { labels: parse_labels(labels)?, fields: parse_fields(fields)? };
        if let Some(field) = parsed.fields.iter().find(|field| !selectable(info, &field.path)) {
            return Err(ApiError::bad_request(format!("field label not supported: {}", field.path)));
        }
        Ok(parsed)
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let one_of = |key: &str, values: &[String]| {
            label(object, key).is_some_and(|own| values.iter().any(|value| value == own))
        };
        self.labels.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => label(object, key).is_some(),
            Requirement::Absent(key) => label(object, key).is_none(),
            Requirement::In(key, values) => one_of(key, values),
            Requirement::NotIn(key, values) => !one_of(key, values),
        }) && self.fields.iter().all(|field| (value_at(object, &field.path) == field.value) == field.equal)
    }
}

/// The fields that the real server can select by.
fn selectable(info: &ResourceInfo, path: &str) -> bool {
    let own: &[&str] = match (info.group.as_str(), info.plural.as_str()) {
        ("", "pods") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["spec.unschedulable"],
        ("", "namespaces") => &["status.phase"],
        ("", "secrets") => &["type"],
        ("batch", "jobs") => &["status.successful"],
        ("", "services") => &["spec.clusterIP", "spec.type"],
        ("", "events") if path.starts_with("involvedObject.") => return true,
        ("events.k8s.io", "events") if path.starts_with("regarding.") => return true,
        ("" | "events.k8s.io", "events") => {
            &["reason", "reportingComponent", "reportingController", "source", "type"]
        }
        (_, _) => &[],
    };
    ["metadata.name", "metadata.namespace"].contains(&path) || own.contains(&path)
}

/// The value of a field of a stored object. Events are stored with the names of the core group.
fn value_at(object: &Value, path: &str) -> String {
    let path =
        path.replace("regarding.", "involvedObject.").replace("reportingController", "reportingComponent");
    let path = if path == "source" { "source.component".to_owned() } else { path };
    match object.pointer(&format!("/{}", path.replace('.', "/"))) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None if ["spec.unschedulable", "spec.hostNetwork"].contains(&path.as_str()) => {
            "false".to_owned()
        }
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn parse_fields(selector: &str) -> Result<Vec<Field>, ApiError> {
    let parse = |part: &str| {
        let wrong =
            || ApiError::bad_request(format!("invalid selector: '{selector}'; can't understand '{part}'"));
        let (path, equal, value) = part
            .split_once("!=")
            .map(|(path, value)| (path, false, value))
            .or_else(|| part.split_once("==").map(|(path, value)| (path, true, value)))
            .or_else(|| part.split_once('=').map(|(path, value)| (path, true, value)))
            .ok_or_else(wrong)?;
        Ok(Field { path: path.trim().to_owned(), equal, value: value.trim().to_owned() })
    };
    selector.split(',').filter(|part| !part.is_empty()).map(parse).collect()
}

fn parse_labels(selector: &str) -> Result<Vec<Requirement>, ApiError> {
    if selector.is_empty() {
        return Ok(Vec::new());
    }
    split_outside_parentheses(selector).into_iter().map(|part| parse_requirement(part.trim())).collect()
}

fn parse_requirement(part: &str) -> Result<Requirement, ApiError> {
    let wrong = |why: String| ApiError::bad_request(format!("unable to parse requirement: {why}"));
    let key = |text: &str| match text.split_whitespace().collect::<Vec<_>>()[..] {
        [one] => Ok(one.to_owned()),
        [_, next, ..] => Err(wrong(format!("found '{next}', expected: in, notin, =, ==, !=, gt, lt"))),
        [] => Err(wrong("found '', expected: identifier".to_owned())),
    };
    let set = |text: &str| -> Result<Vec<String>, ApiError> {
        let inner = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
        let inner = inner.ok_or_else(|| wrong(format!("found '{}', expected: '('", text.trim())))?;
        Ok(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    if let Some((name, values)) = part.split_once(" notin ") {
        return Ok(Requirement::NotIn(key(name)?, set(values)?));
    }
    if let Some((name, values)) = part.split_once(" in ") {
        return Ok(Requirement::In(key(name)?, set(values)?));
    }
    let value = |text: &str| match text.trim() {
        rest if rest.starts_with('=') => Err(wrong("found '=', expected: identifier".to_owned())),
        value => Ok(vec![value.to_owned()]),
    };
    if let Some((name, text)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, value(text)?));
    }
    if let Some((name, text)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key(name)?, value(text)?));
    }
    match part.strip_prefix('!') {
        Some(name) => Ok(Requirement::Absent(key(name)?)),
        None => Ok(Requirement::Exists(key(part)?)),
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use quorate_apistore::{ResourceKey, Resources};

    fn selector(labels: &str, fields: &str) -> Result<Selector, ApiError> {
        let pods = Resources::builtin().get(&ResourceKey::new("", "pods")).unwrap();
        Selector::parse(&pods, labels, fields)
    }

    #[test]
    fn selectors_choose_by_labels_and_fields() {
        let pod = json!({"metadata": {"name": "a", "labels": {"app": "x", "tier": "1"}}, "spec": {"nodeName": "n"}});
        for (labels, fields, expected) in [
            ("app=x", "", true),
            ("app in (x,y),tier", "", true),
            ("app notin (x,y)", "", false),
            ("missing notin (x,y)", "", true),
            ("!missing", "", true),
            ("app!=x", "", false),
            ("", "spec.nodeName=n,metadata.name!=b", true),
            ("", "spec.nodeName=m", false),
            ("", "spec.nodeName=", false),
            ("", "spec.hostNetwork=false", true),
        ] {
            assert_eq!(selector(labels, fields).unwrap().matches(&pod), expected, "{labels} {fields}");
        }
    }

    #[test]
    fn selectors_on_other_fields_are_refused() {
        assert!(selector("a b", "").unwrap_err().message.contains("found 'b', expected: in, notin"));
        assert!(selector("a in x", "").unwrap_err().message.contains("expected: '('"));
        assert!(selector("", "spec.image=x").unwrap_err().message.contains("not supported: spec.image"));
    }
}
