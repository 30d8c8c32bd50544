//! Refusals: a `metav1.Status` in the words of the real server, because kubectl and client libraries show and match
//! them.

use serde_json::{Map, Value, json};

use crate::cause::Cause;
use crate::resources::ResourceInfo;

/// The API refuses a request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// The machine-readable reason, `NotFound` and the like.
    pub reason: &'static str,
    /// The message for people.
    pub message: String,
    /// The object and the causes: name, group, kind, causes.
    pub details: Value,
}

impl ApiError {
    /// 404: the object does not exist.
    pub fn not_found(info: &ResourceInfo, name: &str) -> Self {
        let message = format!("{} {name:?} not found", info.qualified());
        Self { code: 404, reason: "NotFound", message, details: details(info, name) }
    }

    /// 404: the path does not exist.
    pub fn no_such_path() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self { code: 404, reason: "NotFound", message, details: json!({}) }
    }

    /// 409: an object of this name exists.
    pub fn already_exists(info: &ResourceInfo, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", info.qualified());
        Self { code: 409, reason: "AlreadyExists", message, details: details(info, name) }
    }

    /// 409: the object changed, or has another uid.
    pub fn conflict(info: &ResourceInfo, name: &str, why: impl AsRef<str>) -> Self {
        Self::conflict_on(&info.qualified(), &info.plural, info, name, why)
    }

    /// 409 where the real server names the kind or the subresource instead of the resource.
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

    /// 422: fields are invalid.
    pub fn invalid(info: &ResourceInfo, name: &str, causes: &[Cause]) -> Self {
        let listed: Vec<String> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let listed = match listed.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut details = json!({ "name": name, "group": info.group, "kind": info.kind });
        details["causes"] = causes
            .iter()
            .map(|cause| json!({ "reason": cause.reason, "message": cause.message, "field": cause.field }))
            .collect();
        let kind = info.qualified_kind();
        Self {
            code: 422,
            reason: "Invalid",
            message: format!("{kind} {name:?} is invalid: {listed}"),
            details,
        }
    }

    /// 422: an option of the request is invalid.
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

    /// 410: the requested version is no longer kept.
    pub fn expired(version: u64, oldest: u64) -> Self {
        let message = format!("too old resource version: {version} ({oldest})");
        Self { code: 410, reason: "Expired", message, details: Value::Null }
    }

    /// 415.
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self { code: 415, reason: "UnsupportedMediaType", message: message.into(), details: Value::Null }
    }

    /// 429: a disruption budget refuses the eviction.
    pub fn too_many_requests(message: impl Into<String>, details: Value) -> Self {
        Self { code: 429, reason: "TooManyRequests", message: message.into(), details }
    }

    /// The `metav1.Status` of this refusal.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = self.details.as_object() {
            status["details"] = without_empty(details);
        }
        status
    }
}

/// Omits empty names and groups, as the real server does.
fn without_empty(details: &Map<String, Value>) -> Value {
    details
        .iter()
        .filter(|(_, value)| *value != "")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn details(info: &ResourceInfo, name: &str) -> Value {
    json!({ "name": name, "group": info.group, "kind": info.plural })
}
