//! One invalid field, in the words of `field.Error` of the real server.

use serde_json::Value;

/// One field of an object that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its path, `spec.size`.
    pub field: String,
    /// The kind of cause: `FieldValueInvalid` and the like.
    pub reason: &'static str,
    /// What is wrong with it, without the path.
    pub message: String,
}

impl Cause {
    /// A value that does not fit. Objects and lists are not shown.
    pub fn invalid(field: impl Into<String>, value: &Value, message: impl AsRef<str>) -> Self {
        let message = match value {
            Value::Object(_) | Value::Array(_) => format!("Invalid value: {}", message.as_ref()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                format!("Invalid value: {value}: {}", message.as_ref())
            }
        };
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }

    /// A list that does not fit, and that is shown.
    pub fn invalid_shown(field: impl Into<String>, value: &Value, message: impl AsRef<str>) -> Self {
        let message = format!("Invalid value: {value}: {}", message.as_ref());
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }

    /// A value of another type than is wanted.
    pub fn invalid_type(field: impl Into<String>, value: &Value, message: impl AsRef<str>) -> Self {
        Self { reason: "FieldValueTypeInvalid", ..Self::invalid(field, value, message) }
    }

    /// A text that is too long.
    pub fn too_long(field: impl Into<String>, limit: u64) -> Self {
        let message = format!("Too long: may not be more than {limit} bytes");
        Self { field: field.into(), reason: "FieldValueTooLong", message }
    }

    /// A reference to what is not there.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self { field: field.into(), reason: "FieldValueNotFound", message: format!("Not found: {value}") }
    }

    /// A field that must be there.
    pub fn required(field: impl Into<String>) -> Self {
        Self { field: field.into(), reason: "FieldValueRequired", message: "Required value".to_owned() }
    }

    /// A field that must be there, and why.
    pub fn required_because(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        let message = format!("Required value: {}", why.as_ref());
        Self { field: field.into(), reason: "FieldValueRequired", message }
    }

    /// A field that must not be changed or set.
    pub fn forbidden(field: impl Into<String>, message: impl AsRef<str>) -> Self {
        let message = format!("Forbidden: {}", message.as_ref());
        Self { field: field.into(), reason: "FieldValueForbidden", message }
    }

    /// A value that is not one of those allowed.
    pub fn unsupported(field: impl Into<String>, value: &Value, allowed: &[Value]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        Self { field: field.into(), reason: "FieldValueNotSupported", message }
    }

    /// Whether an object that is wrong in this way is in no form for CEL rules to look at.
    pub(crate) fn hides_rules(&self) -> bool {
        let reasons = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        self.reason.strip_prefix("FieldValue").is_some_and(|reason| reasons.contains(&reason))
    }

    /// An entry that stands twice in a list that is a map.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {value}"),
        }
    }
}
