//! The way to a value, put into words only where something is wrong with it.

use std::fmt;

/// Where a value stands in an object.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    /// It is the object.
    Root,
    /// A field of what stands there.
    Field(&'a Self, &'a str),
    /// A key of a map there.
    Key(&'a Self, &'a str),
    /// An entry of a list there.
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
