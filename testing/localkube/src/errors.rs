//! What the API answers when it refuses: a `metav1.Status`, worded as the real server words it, because kubectl and
//! client libraries show and match these texts.

use serde_json::{Map, Value, json};

use crate::resources::ResourceInfo;

/// A refusal.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, `NotFound` and the like.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// What it is about: name, group, kind, causes.
    pub details: Value,
}

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

impl ApiError {
    /// 404: no such object.
    pub fn not_found(info: &ResourceInfo, name: &str) -> Self {
        let message = format!("{} {name:?} not found", info.qualified());
        Self { code: 404, reason: "NotFound", message, details: details(info, name) }
    }

    /// 404: no such path.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self { code: 404, reason: "NotFound", message, details: json!({}) }
    }

    /// 409: the name is taken.
    pub fn already_exists(info: &ResourceInfo, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", info.qualified());
        Self { code: 409, reason: "AlreadyExists", message, details: details(info, name) }
    }

    /// 409: the object moved on, or is not the one meant.
    pub fn conflict(info: &ResourceInfo, name: &str, why: impl AsRef<str>) -> Self {
        Self::conflict_on(&info.qualified(), &info.plural, info, name, why)
    }

    /// 409 where the real server names the kind or subresource instead of the resource, in words and in the details.
    pub(crate) fn conflict_on(
        what: &str,
        kind: &str,
        info: &ResourceInfo,
        name: &str,
        why: impl AsRef<str>,
    ) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} {name:?}: {}", why.as_ref());
        let details = json!({ "name": name, "group": info.group, "kind": kind });
        Self { code: 409, reason: "Conflict", message, details }
    }

    /// 409 for a stale resourceVersion.
    pub fn modified(info: &ResourceInfo, name: &str) -> Self {
        Self::conflict(
            info,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: fields are wrong.
    pub fn invalid(info: &ResourceInfo, name: &str, causes: &[Cause]) -> Self {
        let told: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let told = match told.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut details = json!({ "name": name, "group": info.group, "kind": info.kind });
        details["causes"] = causes
            .iter()
            .map(|cause| json!({ "reason": cause.reason, "message": cause.message, "field": cause.field }))
            .collect();
        let kind = info.qualified_kind();
        Self { code: 422, reason: "Invalid", message: format!("{kind} {name:?} is invalid: {told}"), details }
    }

    /// 422: what was asked for along with the request is wrong.
    pub(crate) fn invalid_options(kind: &str, cause: &Cause) -> Self {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}: {}", cause.field, cause.message);
        let causes = json!([{ "reason": cause.reason, "message": cause.message, "field": cause.field }]);
        let details = json!({ "group": "meta.k8s.io", "kind": kind, "causes": causes });
        Self { code: 422, reason: "Invalid", message, details }
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self { code: 400, reason: "BadRequest", message: message.into(), details: Value::Null }
    }

    /// 403.
    pub fn forbidden(info: &ResourceInfo, name: &str, why: impl AsRef<str>) -> Self {
        let message = format!("{} {name:?} is forbidden: {}", info.qualified(), why.as_ref());
        Self { code: 403, reason: "Forbidden", message, details: details(info, name) }
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self { code: 405, reason: "MethodNotAllowed", message, details: Value::Null }
    }

    /// 410: the version asked for is no longer kept.
    pub fn expired(version: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self { code: 410, reason: "Expired", message, details: Value::Null }
    }

    /// 415.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self { code: 415, reason: "UnsupportedMediaType", message: message.into(), details: Value::Null }
    }

    /// 429: an eviction that a budget does not allow.
    pub fn too_many_requests(message: impl Into<String>, details: Value) -> Self {
        Self { code: 429, reason: "TooManyRequests", message: message.into(), details }
    }

    /// The `metav1.Status` of it.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = self.details.as_object() {
            status["details"] = told(details);
        }
        status
    }
}

/// Names and groups that are empty are not told.
fn told(details: &Map<String, Value>) -> Value {
    details
        .iter()
        .filter(|(_, value)| *value != "")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn details(info: &ResourceInfo, name: &str) -> Value {
    json!({ "name": name, "group": info.group, "kind": info.plural })
}
