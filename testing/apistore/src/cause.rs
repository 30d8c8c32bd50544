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
    /// The value is invalid. The message does not show objects and lists.
    pub fn invalid(field: impl Into<String>, value: &Value, message: impl AsRef<str>) -> Self {
        let message = match value {
            Value::Object(_) | Value::Array(_) => format!("Invalid value: {}", message.as_ref()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                format!("Invalid value: {value}: {}", message.as_ref())
            }
        };
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }

    /// A list is invalid, and the message shows it.
    pub fn invalid_shown(field: impl Into<String>, value: &Value, message: impl AsRef<str>) -> Self {
        let message = format!("Invalid value: {value}: {}", message.as_ref());
        Self { field: field.into(), reason: "FieldValueInvalid", message }
    }

    /// The value has the wrong type.
    pub fn invalid_type(field: impl Into<String>, value: &Value, message: impl AsRef<str>) -> Self {
        Self { reason: "FieldValueTypeInvalid", ..Self::invalid(field, value, message) }
    }

    /// The text is too long.
    pub fn too_long(field: impl Into<String>, limit: u64) -> Self {
        let message = format!("Too long: may not be more than {limit} bytes");
        Self { field: field.into(), reason: "FieldValueTooLong", message }
    }

    /// The value refers to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self { field: field.into(), reason: "FieldValueNotFound", message: format!("Not found: {value}") }
    }

    /// The field is required.
    pub fn required(field: impl Into<String>) -> Self {
        Self { field: field.into(), reason: "FieldValueRequired", message: "Required value".to_owned() }
    }

    /// The field is required, and why.
    pub fn required_because(field: impl Into<String>, why: impl AsRef<str>) -> Self {
        let message = format!("Required value: {}", why.as_ref());
        Self { field: field.into(), reason: "FieldValueRequired", message }
    }

    /// The field must not be set or changed.
    pub fn forbidden(field: impl Into<String>, message: impl AsRef<str>) -> Self {
        let message = format!("Forbidden: {}", message.as_ref());
        Self { field: field.into(), reason: "FieldValueForbidden", message }
    }

    /// The value is not one of the allowed ones.
    pub fn unsupported(field: impl Into<String>, value: &Value, allowed: &[Value]) -> Self {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        Self { field: field.into(), reason: "FieldValueNotSupported", message }
    }

    /// Whether the server skips CEL rules because of this cause.
    pub(crate) fn hides_rules(&self) -> bool {
        let reasons = ["NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"];
        self.reason.strip_prefix("FieldValue").is_some_and(|reason| reasons.contains(&reason))
    }

    /// An entry occurs twice in a list of type map or set.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            field: field.into(),
            reason: "FieldValueDuplicate",
            message: format!("Duplicate value: {value}"),
        }
    }
}
