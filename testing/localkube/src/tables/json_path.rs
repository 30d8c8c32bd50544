//! The part of Kubernetes' JSONPath that printer columns and selectable fields use: `.a.b`, `['a.b']`, `\.` in names,
//! `[0]`, `[-1]`, `[*]`, and filters by equality such as `[?(@.type=="Ready")]`.
//!
//! Crates implement RFC 9535, which requires the leading `$` and has no `\.` in names, as paths of Kubernetes do.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter { path: JsonPath, equal: bool, to: Value },
}

/// A path that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParsePathError {
    /// A bracket or quote that never closes.
    #[error("unterminated {0} in JSONPath")]
    Unterminated(char),
    /// The expression between brackets is no index, name, wildcard or equality filter.
    #[error("unsupported expression [{0}] in JSONPath")]
    Unsupported(String),
}

impl JsonPath {
    /// Parses a path; the `{}` around it and the `$` before it are optional.
    pub fn parse(text: &str) -> Result<Self, ParsePathError> {
        let text = text.trim();
        let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let end = closing(inside)?;
                steps.push(bracket(&inside[..end])?);
                rest = &inside[end + 1..];
            } else {
                let (name, after) = field(rest.strip_prefix('.').unwrap_or(rest));
                rest = after;
                match name.as_str() {
                    "" => {}
                    "*" => steps.push(Step::All),
                    _ => steps.push(Step::Field(name)),
                }
            }
        }
        Ok(Self(steps))
    }

    /// Every value at the path, in order.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        self.0
            .iter()
            .fold(vec![root], |found, step| found.into_iter().flat_map(|value| step.follow(value)).collect())
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(at) => {
                let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = usize::try_from(*at)
                    .ok()
                    .or_else(|| list.len().checked_add_signed(isize::try_from(*at).ok()?));
                at.and_then(|at| list.get(at)).into_iter().collect()
            }
            Self::All => children(value),
            Self::Filter { path, equal, to } => children(value)
                .into_iter()
                .filter(|child| path.find(child).first().is_some_and(|found| (*found == to) == *equal))
                .collect(),
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The name up to the next unescaped `.` or `[`, and the rest.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(character),
        }
    }
    (name, "")
}

/// The position of the bracket that closes the one before `text`, outside of quotes and inner brackets.
fn closing(text: &str) -> Result<usize, ParsePathError> {
    let (mut depth, mut quote) = (0, None);
    for (at, character) in text.char_indices() {
        match character {
            _ if quote == Some(character) => quote = None,
            _ if quote.is_some() => {}
            '\'' | '"' => quote = Some(character),
            '[' => depth += 1,
            ']' if depth == 0 => return Ok(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    Err(ParsePathError::Unterminated(quote.unwrap_or('[')))
}

fn bracket(text: &str) -> Result<Step, ParsePathError> {
    let text = text.trim();
    if text == "*" {
        return Ok(Step::All);
    }
    if let Ok(at) = text.parse() {
        return Ok(Step::Index(at));
    }
    if let Some(Value::String(name)) = literal(text) {
        return Ok(Step::Field(name));
    }
    filter(text).unwrap_or_else(|| Err(ParsePathError::Unsupported(text.to_owned())))
}

fn filter(text: &str) -> Option<Result<Step, ParsePathError>> {
    let inside = text.strip_prefix("?(")?.strip_suffix(')')?.trim().strip_prefix('@')?;
    let (equal, (path, to)) = match inside.split_once("==") {
        Some(sides) => (true, sides),
        None => (false, inside.split_once("!=")?),
    };
    let to = literal(to.trim())?;
    Some(JsonPath::parse(path.trim()).map(|path| Step::Filter { path, equal, to }))
}

fn literal(text: &str) -> Option<Value> {
    for quote in ['\'', '"'] {
        if let Some(inside) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)) {
            return Some(Value::String(inside.to_owned()));
        }
    }
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str, root: &Value) -> Value {
        JsonPath::parse(path).unwrap().find(root).into_iter().cloned().collect()
    }

    #[test]
    fn paths_find_the_values_that_kubectl_finds() {
        let object = json!({
            "metadata": { "labels": { "app.kubernetes.io/name": "etcd" } },
            "status": { "size": 3, "conditions": [
                { "type": "Available", "status": "True" }, { "type": "Degraded", "status": "False" },
            ] },
        });
        let table = [
            (".status.size", json!([3])),
            ("{.status.size}", json!([3])),
            ("$.status.size", json!([3])),
            (".status.absent.deeper", json!([])),
            (".status.conditions[?(@.type==\"Available\")].status", json!(["True"])),
            (".status.conditions[?(@.type != 'Available')].status", json!(["False"])),
            (".status.conditions[*].type", json!(["Available", "Degraded"])),
            (".status.conditions[-1].type", json!(["Degraded"])),
            (".status.conditions[7].type", json!([])),
            (".metadata.labels['app.kubernetes.io/name']", json!(["etcd"])),
            (r".metadata.labels.app\.kubernetes\.io/name", json!(["etcd"])),
        ];
        for (path, expected) in table {
            assert_eq!(found(path, &object), expected, "{path}");
        }
    }

    #[test]
    fn malformed_paths_are_refused() {
        assert_eq!(JsonPath::parse(".a[0"), Err(ParsePathError::Unterminated('[')));
        assert_eq!(JsonPath::parse(".a[?(@.b > 3)]"), Err(ParsePathError::Unsupported("?(@.b > 3)".into())));
    }
}
