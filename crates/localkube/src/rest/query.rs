//! Query parameters and selectors.

use serde_json::Value;

use crate::errors::ApiError;
use crate::fields::{label, text};

/// The parameters of a URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// Which objects are meant.
#[derive(Clone, Debug, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<(String, bool, String)>,
}

#[derive(Clone, Debug)]
enum Requirement {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        });
        Self(decoded.collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.0.iter().any(|(own, value)| own == key && ["true", "1", ""].contains(&value.as_str()))
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }

    pub(super) fn dry_run(&self) -> bool {
        self.get("dryRun") == Some("All")
    }

    pub(super) fn selector(&self) -> Result<Selector, ApiError> {
        let labels = self.get("labelSelector").map(parse_labels).transpose()?.unwrap_or_default();
        let fields = self.get("fieldSelector").map(parse_fields).transpose()?.unwrap_or_default();
        Ok(Selector { labels, fields })
    }
}

impl Selector {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let one_of = |key: &str, values: &[String]| {
            label(object, key).is_some_and(|own| values.iter().any(|value| value == own))
        };
        self.labels.iter().all(|requirement| match requirement {
            Requirement::Exists(key) => label(object, key).is_some(),
            Requirement::Absent(key) => label(object, key).is_none(),
            Requirement::In(key, values) => one_of(key, values),
            Requirement::NotIn(key, values) => !one_of(key, values),
        }) && self.fields.iter().all(|(path, equal, value)| (field(object, path) == *value) == *equal)
    }
}

/// `regarding` of the newer event API is `involvedObject` in storage.
fn field<'a>(object: &'a Value, path: &str) -> &'a str {
    let path =
        path.replace("regarding.", "involvedObject.").replace("reportingController", "source.component");
    text(object, &format!("/{}", path.replace('.', "/")))
}

fn parse_fields(selector: &str) -> Result<Vec<(String, bool, String)>, ApiError> {
    let parse = |part: &str| {
        let (path, equal, value) = part
            .split_once("!=")
            .map(|(path, value)| (path, false, value))
            .or_else(|| part.split_once("==").map(|(path, value)| (path, true, value)))
            .or_else(|| part.split_once('=').map(|(path, value)| (path, true, value)))
            .ok_or_else(|| ApiError::bad_request(format!("invalid field selector: {part:?}")))?;
        Ok((path.trim().to_owned(), equal, value.trim().to_owned()))
    };
    selector.split(',').filter(|part| !part.is_empty()).map(parse).collect()
}

fn parse_labels(selector: &str) -> Result<Vec<Requirement>, ApiError> {
    split_outside_parentheses(selector).into_iter().map(|part| parse_requirement(part.trim())).collect()
}

fn parse_requirement(part: &str) -> Result<Requirement, ApiError> {
    let key = |text: &str| text.trim().to_owned();
    let set = |text: &str| -> Option<Vec<String>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    let wrong = || ApiError::bad_request(format!("unable to parse requirement: {part:?}"));
    if let Some((name, values)) = part.split_once(" notin ") {
        return Ok(Requirement::NotIn(key(name), set(values).ok_or_else(wrong)?));
    }
    if let Some((name, values)) = part.split_once(" in ") {
        return Ok(Requirement::In(key(name), set(values).ok_or_else(wrong)?));
    }
    if let Some((name, value)) = part.split_once("!=") {
        return Ok(Requirement::NotIn(key(name), vec![key(value)]));
    }
    if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::In(key(name), vec![key(value)]));
    }
    match part.strip_prefix('!') {
        Some(name) => Ok(Requirement::Absent(key(name))),
        None if part.is_empty() => Err(wrong()),
        None => Ok(Requirement::Exists(key(part))),
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

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex =
            || std::str::from_utf8(tail.get(..2)?).ok().and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (first, hex()) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            (_, _) => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_choose_by_labels_and_fields() {
        let pod = json!({"metadata": {"name": "a", "labels": {"app": "x", "tier": "1"}}, "spec": {"nodeName": "n"}});
        for (query, expected) in [
            ("labelSelector=app%3Dx", true),
            ("labelSelector=app+in+(x,y),tier", true),
            ("labelSelector=app+notin+(x,y)", false),
            ("labelSelector=!missing", true),
            ("labelSelector=app!=x", false),
            ("fieldSelector=spec.nodeName=n,metadata.name!=b", true),
            ("fieldSelector=spec.nodeName=m", false),
        ] {
            assert_eq!(Query::parse(query).selector().unwrap().matches(&pod), expected, "{query}");
        }
    }
}
