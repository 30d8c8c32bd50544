//! Rows of custom resources: the name, then the definition's `additionalPrinterColumns`.

use jiff::Timestamp;
use quorate_apistore::fields;
use quorate_apistore::resources::{PrinterColumn, ResourceInfo};
use serde_json::{Value, json};

use super::age;
use super::columns::definition;
use super::json_path::JsonPath;

/// One column of a custom resource.
pub(super) enum CustomColumn<'a> {
    Name,
    Age,
    Printed { column: &'a PrinterColumn, path: Option<JsonPath> },
}

/// The columns of a kind without a printer. Without any definition the age is shown.
pub(super) fn columns(info: &ResourceInfo) -> Vec<CustomColumn<'_>> {
    let printed = info.columns.iter().map(|column| CustomColumn::Printed {
        column,
        // A definition with an invalid path is refused on creation; if one exists anyway, its column stays empty.
        path: JsonPath::parse(&column.json_path).ok(),
    });
    let mut columns: Vec<_> = std::iter::once(CustomColumn::Name).chain(printed).collect();
    if info.columns.is_empty() {
        columns.push(CustomColumn::Age);
    }
    columns
}

impl CustomColumn<'_> {
    pub fn definition(&self) -> Value {
        match self {
            Self::Name => definition("Name", "string", "name", "", 0),
            Self::Age => definition("Age", "date", "", "", 0),
            Self::Printed { column, .. } => definition(
                &column.name,
                &column.kind,
                column.format.as_deref().unwrap_or_default(),
                column.description.as_deref().unwrap_or_default(),
                column.priority,
            ),
        }
    }

    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match self {
            Self::Name => json!(fields::name(object)),
            Self::Age => json!(age::since(fields::time(object, "/metadata/creationTimestamp"), now)),
            Self::Printed { column, path } => {
                let found = path.as_ref().map(|path| path.find(object)).unwrap_or_default();
                cell(&column.kind, &found, now)
            }
        }
    }
}

fn cell(kind: &str, found: &[&Value], now: Timestamp) -> Value {
    let Some(first) = found.first().filter(|first| !first.is_null()) else { return Value::Null };
    match kind {
        "integer" => first.as_i64().or_else(|| whole(first.as_f64()?)).into(),
        "number" => first.as_f64().into(),
        "boolean" => first.as_bool().into(),
        "date" => match first.as_str().map(str::parse) {
            Some(Ok(then)) => age::since(Some(then), now).into(),
            Some(Err(_)) => "<invalid>".into(),
            None => Value::Null,
        },
        _ => found.iter().map(|value| printed(value)).collect::<Vec<_>>().join(" ").into(),
    }
}

/// Strings print without quotes, everything else as JSON.
fn printed(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a float cell of an integer column is cut, as the real server does"
)]
fn whole(number: f64) -> Option<i64> {
    number.is_finite().then_some(number as i64)
}
