//! The columns of a table and their cells.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::custom::CustomColumn;

/// One built-in column. Priority 0 is always shown, priority 1 only with `-o wide`.
pub(super) struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub wide: bool,
}

/// A kind's columns and the cells of one object, in the same order.
#[derive(Clone, Copy)]
pub(super) struct BuiltIn {
    pub columns: &'static [Column],
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// How the rows of a kind are printed.
pub(super) enum Printer<'a> {
    BuiltIn(BuiltIn),
    Custom(Vec<CustomColumn<'a>>),
}

impl Printer<'_> {
    pub fn definitions(&self) -> Value {
        match self {
            Self::BuiltIn(printer) => printer.columns.iter().map(Column::definition).collect(),
            Self::Custom(columns) => columns.iter().map(CustomColumn::definition).collect(),
        }
    }

    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::BuiltIn(printer) => (printer.cells)(object, now),
            Self::Custom(columns) => columns.iter().map(|column| column.cell(object, now)).collect(),
        }
    }
}

impl Column {
    fn definition(&self) -> Value {
        let format = if self.name == "Name" { "name" } else { "" };
        definition(self.name, self.kind, format, "", i32::from(self.wide))
    }
}

/// A text column that is always shown.
pub(super) const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", wide: false }
}

/// A text column of `-o wide`.
pub(super) const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", wide: true }
}

/// A column of whole numbers.
pub(super) const fn number(name: &'static str) -> Column {
    Column { name, kind: "integer", wide: false }
}

/// One entry of `columnDefinitions`.
pub(super) fn definition(name: &str, kind: &str, format: &str, description: &str, priority: i32) -> Value {
    json!({ "name": name, "type": kind, "format": format, "description": description, "priority": priority })
}

/// `<none>` for an empty text, as kubectl shows it.
pub(super) fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}
