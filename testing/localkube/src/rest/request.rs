//! A request: its body, format and options.

use http::{HeaderMap, Method, header};
use quorate_apistore::ApiError;
use quorate_apistore::ResourceInfo;
use quorate_apistore::cause::Cause;
use quorate_apistore::patch::PatchKind;
use quorate_apistore::store::{DeleteOptions, Propagation};
use serde_json::{Value, json};

use super::path::Place;
use super::query::Query;
use super::{decode, events};
use crate::protobuf;

/// A request whose body has arrived.
pub(crate) struct Request {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Request {
    pub(super) fn accept(&self) -> &str {
        self.header(header::ACCEPT)
    }

    /// The body as JSON.
    pub(super) fn json(&self) -> Result<Value, ApiError> {
        let content = self.header(header::CONTENT_TYPE);
        if content.contains("protobuf") {
            return protobuf::decode(&self.body)
                .map_err(|error| ApiError::unsupported_media_type(error.to_string()));
        }
        if content.contains("cbor") {
            return Err(ApiError::unsupported_media_type("the body is understood as JSON or YAML only"));
        }
        if content.contains("yaml") {
            return serde_yaml_ng::from_slice(&self.body)
                .map_err(|error| ApiError::bad_request(format!("the body is no YAML: {error}")));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::bad_request(format!("the body is no JSON: {error}")))
    }

    /// The object in the body as it is stored, and the paths of its unknown fields.
    pub(super) fn object(&self, at: &Place) -> Result<(Value, Vec<String>), ApiError> {
        let mut object = self.json()?;
        let warnings = self.decode(at, &mut object)?;
        Ok((events::stored(&at.info, object), warnings))
    }

    /// Treats unknown fields as `fieldValidation` says: refuse, warn or ignore.
    pub(super) fn decode(&self, at: &Place, object: &mut Value) -> Result<Vec<String>, ApiError> {
        let unknown = decode::decode(&at.info, object)?;
        let unknown_fields: Vec<String> =
            unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        match self.query.get("fieldValidation") {
            Some("Strict") if !unknown_fields.is_empty() => {
                let (kind, version) = (&at.info.kind, &at.info.version);
                Err(ApiError::bad_request(format!(
                    "{kind} in version {version:?} cannot be handled as a {kind}: strict decoding error: {}",
                    unknown_fields.join(", ")
                )))
            }
            Some("Ignore") => Ok(Vec::new()),
            Some(_) | None => Ok(unknown_fields),
        }
    }

    pub(super) fn patch_kind(&self, info: &ResourceInfo) -> Result<PatchKind, ApiError> {
        let content = self.header(header::CONTENT_TYPE);
        match content.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => Ok(PatchKind::Json),
            "application/merge-patch+json" => Ok(PatchKind::Merge),
            "application/strategic-merge-patch+json" if info.compiled.is_none() => Ok(PatchKind::Strategic),
            "application/apply-patch+yaml" => Err(ApiError::unsupported_media_type(
                "server-side apply is not served here: use kubectl apply without --server-side, or a merge patch",
            )),
            _ => Err(ApiError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json",
            )),
        }
    }

    pub(super) fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let in_body = !self.body.is_empty();
        let body = if in_body { self.json()? } else { json!({}) };
        if let Some(kind) = body["kind"].as_str().filter(|kind| *kind != "DeleteOptions") {
            return Err(ApiError::bad_request(format!("no kind {kind:?} is registered for deletions")));
        }
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let propagation = text("/propagationPolicy");
        // As on the real server, options in the body replace all of those in the URL.
        let in_query = |key: &str| self.query.get(key).filter(|_| !in_body);
        let propagation = propagation.or_else(|| in_query("propagationPolicy").map(str::to_owned));
        let grace = in_query("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok());
        Ok(DeleteOptions {
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            grace_period: body["gracePeriodSeconds"].as_i64().or(grace),
            propagation: propagation_of(propagation.as_deref())?,
            dry_run: in_query("dryRun") == Some("All") || body["dryRun"][0] == "All",
        })
    }

    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

fn propagation_of(policy: Option<&str>) -> Result<Propagation, ApiError> {
    match policy {
        None => Ok(Propagation::Unspecified),
        Some("Background") => Ok(Propagation::Background),
        Some("Foreground") => Ok(Propagation::Foreground),
        Some("Orphan") => Ok(Propagation::Orphan),
        Some(other) => {
            let known = ["Foreground", "Background", "Orphan", "nil"].map(Value::from);
            let cause = Cause::unsupported("propagationPolicy", &json!(other), &known);
            Err(ApiError::invalid_options("DeleteOptions", &cause))
        }
    }
}
