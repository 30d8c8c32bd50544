//! The path to a value. It becomes a string only when something is wrong with the value.

use std::fmt;

/// The place of a value in an object.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    /// The object itself.
    Root,
    /// A field of the value above.
    Field(&'a Self, &'a str),
    /// A key of the map above.
    Key(&'a Self, &'a str),
    /// An entry of the list above.
    Entry(&'a Self, usize),
}

impl Path<'_> {
    pub(super) fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, field) => out.write_str(field),
            Self::Field(above, field) => write!(out, "{above}.{field}"),
            Self::Key(above, key) => write!(out, "{above}[{key}]"),
            Self::Entry(above, index) => write!(out, "{above}[{index}]"),
        }
    }
}
