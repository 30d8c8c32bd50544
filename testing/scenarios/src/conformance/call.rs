//! A call of the API as a value that means the same on both sides. What differs between sides, such as a uid, is written as
//! `$uid secrets/a`; each side fills it in.

use std::fmt;

use serde_json::Value;

use super::Kind;

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The verb.
    pub verb: Verb,
    /// The kind of the objects.
    pub kind: Kind,
    /// The name of the object; empty for all objects of the kind.
    pub name: String,
    /// `status` and the like, or empty.
    pub subresource: &'static str,
    /// The parameters of the URL.
    pub query: String,
    /// The body; null for none.
    pub body: Value,
}

/// The verb of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the method of that name")]
pub enum Verb {
    Get,
    Post,
    Put,
    Delete,
    Patch(Form),
    /// All changes of a kind since the sequence began.
    Watch,
}

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the form of that name")]
pub enum Form {
    Json,
    Merge,
    Strategic,
}

impl Call {
    /// A call about a kind, without a body.
    pub fn of(verb: Verb, kind: Kind, name: &str) -> Self {
        Self { verb, kind, name: name.to_owned(), subresource: "", query: String::new(), body: Value::Null }
    }

    /// Whether it can change anything.
    pub fn writes(&self) -> bool {
        match self.verb {
            Verb::Get | Verb::Watch => false,
            Verb::Post | Verb::Put | Verb::Delete | Verb::Patch(_) => !self.is_dry_run(),
        }
    }

    /// Whether it is a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.query.contains("dryRun") || self.body.get("dryRun").is_some()
    }
}

impl Verb {
    /// The method.
    pub fn method(self) -> &'static str {
        match self {
            Self::Get | Self::Watch => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Patch(_) => "PATCH",
        }
    }

    /// The content type of the body.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Get | Self::Watch | Self::Post | Self::Put | Self::Delete => "application/json",
            Self::Patch(Form::Json) => "application/json-patch+json",
            Self::Patch(Form::Merge) => "application/merge-patch+json",
            Self::Patch(Form::Strategic) => "application/strategic-merge-patch+json",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.verb {
            Verb::Watch => "WATCH".to_owned(),
            Verb::Patch(form) => format!("PATCH as {form:?}"),
            Verb::Get | Verb::Post | Verb::Put | Verb::Delete => self.verb.method().to_owned(),
        };
        write!(to, "{verb} {}", self.kind.plural())?;
        for part in [self.name.as_str(), self.subresource].iter().filter(|part| !part.is_empty()) {
            write!(to, "/{part}")?;
        }
        if !self.query.is_empty() {
            write!(to, "?{}", self.query)?;
        }
        if self.body.is_null() { Ok(()) } else { write!(to, " {}", self.body) }
    }
}
