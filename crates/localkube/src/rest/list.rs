//! Reading: lists with selectors and pages, single objects, and both as tables for kubectl.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::path::Place;
use super::{Reply, Request, document as reply};
use crate::body::Body;
use crate::errors::ApiError;
use crate::fields::{name, namespace};
use crate::service::Shared;
use crate::tables::{self, Include};

pub(super) fn list(shared: &Shared, request: &Request, at: &Place) -> Reply {
    let (mut objects, version) = selected(shared, request, at)?;
    if let Some(after) = request.query.get("continue") {
        objects.retain(|object| token(object).as_str() > after);
    }
    let mut next = None;
    if let Some(limit) = request.query.number("limit")
        && limit > 0
        && objects.len() as u64 > limit
    {
        objects.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        next = objects.last().map(token);
    }
    if wants_table(request) {
        let meta = list_meta(version, next);
        let table = tables::render(&at.info, &objects, &meta, include(request), true, shared.store.now());
        return Ok(reply(StatusCode::OK, &table));
    }
    if wants_metadata(request) {
        objects.iter_mut().for_each(|object| *object = metadata_only(object));
    }
    Ok(reply(StatusCode::OK, &document(at, &objects, version, next)))
}

/// A list as a document.
pub(super) fn document(at: &Place, objects: &[Value], version: u64, next: Option<String>) -> Value {
    json!({
        "kind": format!("{}List", at.info.kind),
        "apiVersion": at.info.api_version(),
        "metadata": list_meta(version, next),
        "items": objects,
    })
}

/// What the selectors choose, and the version of this state.
pub(super) fn selected(
    shared: &Shared,
    request: &Request,
    at: &Place,
) -> Result<(Vec<Value>, u64), ApiError> {
    let selector = request.query.selector()?;
    let (mut objects, version) = shared.store.list(&at.storage, at.namespace.as_deref());
    objects.retain(|object| selector.matches(object));
    Ok((objects, version))
}

/// One object, or its row.
pub(super) fn one(
    shared: &Shared,
    request: &Request,
    at: &Place,
    code: StatusCode,
    object: &Value,
) -> Response<Body> {
    if wants_table(request) {
        let version = crate::fields::text(object, "/metadata/resourceVersion").parse().unwrap_or(0);
        let meta = list_meta(version, None);
        let rows = std::slice::from_ref(object);
        let table = tables::render(&at.info, rows, &meta, include(request), true, shared.store.now());
        return reply(code, &table);
    }
    if wants_metadata(request) {
        return reply(code, &metadata_only(object));
    }
    reply(code, object)
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

fn list_meta(version: u64, next: Option<String>) -> Value {
    let mut meta = json!({"resourceVersion": version.to_string()});
    if let Some(next) = next {
        meta["continue"] = json!(next);
    }
    meta
}

/// Where the next page begins. Objects are in the order of namespace and name.
fn token(object: &Value) -> String {
    format!("{}\u{1}{}", namespace(object), name(object))
}
