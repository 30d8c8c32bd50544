//! Reads: lists with selectors and pages, single objects, and both as tables for kubectl.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Response, StatusCode};
use quorate_apistore::ApiError;
use quorate_apistore::fields::{name, namespace};
use serde_json::{Value, json};

use super::path::Place;
use super::{Reply, Request, document as reply, events};
use crate::body::Body;
use crate::shared::Shared;
use crate::tables::{self, Include};

pub(super) fn list(shared: &Shared, request: &Request, at: &Place) -> Reply {
    let (mut objects, version) = selected(shared, request, at)?;
    request.query.version()?;
    if let Some(after) = request.query.get("continue") {
        let after = read_token(after)?;
        objects.retain(|object| place(object) > after);
    }
    let limit = request
        .query
        .number("limit")?
        .and_then(|limit| usize::try_from(limit).ok())
        .filter(|limit| *limit > 0);
    let mut next = None;
    if let Some(limit) = limit.filter(|limit| objects.len() > *limit) {
        let remaining = objects.len() - limit;
        objects.truncate(limit);
        next = objects.last().map(|last| Next { token: token(last), remaining });
    }
    if wants_table(request) {
        let meta = list_meta(version, next.as_ref());
        let table = tables::render(&at.info, &objects, &meta, include(request), true, shared.store.now());
        return Ok(reply(StatusCode::OK, &table));
    }
    if wants_metadata(request) {
        for object in &mut objects {
            *object = metadata_only(object);
        }
    }
    Ok(reply(StatusCode::OK, &document(at, objects, version, next.as_ref())))
}

/// Where the next page starts.
pub(super) struct Next {
    token: String,
    remaining: usize,
}

/// A list as a document.
pub(super) fn document(at: &Place, objects: Vec<Value>, version: u64, next: Option<&Next>) -> Value {
    let shown = |object: Value| {
        let mut object = events::shown(&at.info, object);
        // In a list of a built-in kind the items carry no kind and apiVersion.
        if let Some(fields) = object.as_object_mut().filter(|_| at.info.schema.is_none()) {
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        object
    };
    let items: Vec<Value> = objects.into_iter().map(shown).collect();
    let mut meta = list_meta(version, next);
    // Lists of custom resources have `continue` even when it is empty.
    if at.info.schema.is_some() && next.is_none() {
        meta["continue"] = json!("");
    }
    json!({
        "kind": format!("{}List", at.info.kind),
        "apiVersion": at.info.api_version(),
        "metadata": meta,
        "items": items,
    })
}

/// The objects that the selectors select, and the version of this state.
pub(super) fn selected(
    shared: &Shared,
    request: &Request,
    at: &Place,
) -> Result<(Vec<Value>, u64), ApiError> {
    let selector = request.query.selector(&at.info)?;
    let (mut objects, version) = shared.store.list(&at.storage, at.namespace.as_deref());
    objects.retain(|object| selector.matches(object));
    Ok((objects, version))
}

/// One object, or its table row.
pub(super) fn one(
    shared: &Shared,
    request: &Request,
    at: &Place,
    code: StatusCode,
    object: &Value,
) -> Response<Body> {
    if wants_table(request) {
        let version =
            quorate_apistore::fields::text(object, "/metadata/resourceVersion").parse().unwrap_or(0);
        let meta = list_meta(version, None);
        let rows = std::slice::from_ref(object);
        let table = tables::render(&at.info, rows, &meta, include(request), true, shared.store.now());
        return reply(code, &table);
    }
    if wants_metadata(request) {
        return reply(code, &metadata_only(object));
    }
    reply(code, &events::shown(&at.info, object.clone()))
}

pub(super) fn wants_table(request: &Request) -> bool {
    request.accept().split(',').next().is_some_and(|first| first.contains("as=Table"))
}

pub(super) fn wants_metadata(request: &Request) -> bool {
    request.accept().split(',').next().is_some_and(|first| first.contains("as=PartialObjectMetadata"))
}

pub(super) fn include(request: &Request) -> Include {
    Include::from_query(request.query.get("includeObject"))
}

pub(super) fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn list_meta(version: u64, next: Option<&Next>) -> Value {
    let mut meta = json!({"resourceVersion": version.to_string()});
    if let Some(next) = next {
        meta["continue"] = json!(next.token);
        meta["remainingItemCount"] = json!(next.remaining);
    }
    meta
}

/// The sort key of objects.
fn place(object: &Value) -> (String, String) {
    (namespace(object).to_owned(), name(object).to_owned())
}

/// The continue token: the next page starts after this object.
fn token(object: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json!(place(object)).to_string())
}

fn read_token(token: &str) -> Result<(String, String), ApiError> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| {
        ApiError::bad_request(format!("continue key is not valid: illegal base64 data in {token:?}"))
    })
}
