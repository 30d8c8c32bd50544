//! What the API answers when it refuses: a `metav1.Status`, worded as the real server words it, because kubectl and
//! client libraries show and match these texts.

use serde_json::{Map, Value, json};

use crate::cause::Cause;
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
    pub fn conflict_on(
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
    pub fn invalid_options(kind: &str, cause: &Cause) -> Self {
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
