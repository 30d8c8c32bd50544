//! POST, PUT and PATCH.

use http::StatusCode;
use serde_json::json;

use super::path::Place;
use super::{Reply, Request, events, list, with_warnings};
use crate::errors::ApiError;
use crate::patch::{self, PatchError};
use crate::resources::ObjectKey;
use crate::service::Shared;
use crate::store::Part;

pub(super) fn create(shared: &Shared, request: &Request, at: &Place) -> Reply {
    let namespace = at.namespace_for_writing()?;
    let (object, warnings) = request.object(at)?;
    let created = shared.store.create(&at.storage, namespace, object, request.query.dry_run())?;
    Ok(with_warnings(list::one(shared, request, at, StatusCode::CREATED, &created), &warnings))
}

pub(super) fn replace(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey, part: Part) -> Reply {
    let (object, warnings) = request.object(at)?;
    let dry_run = request.query.dry_run();
    let (code, object) = if at.info.is_created_by_replacing() && shared.store.get(key).is_none() {
        let created = shared.store.create(&key.resource, &key.namespace, object, dry_run)?;
        (StatusCode::CREATED, created)
    } else {
        (StatusCode::OK, shared.store.update(key, part, object, dry_run)?)
    };
    Ok(with_warnings(list::one(shared, request, at, code, &object), &warnings))
}

pub(super) fn patch(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey, part: Part) -> Reply {
    let kind = request.patch_kind(&at.info)?;
    let patch = request.json()?;
    let mut warnings = Vec::new();
    let object = shared.store.modify(key, part, request.query.dry_run(), |old| {
        let shown = events::shown(&at.info, old.clone());
        let mut patched = patch::apply(kind, &shown, &patch).map_err(|error| refusal(&error))?;
        warnings = request.decode(at, &mut patched)?;
        Ok(events::kept(&at.info, patched))
    })?;
    Ok(with_warnings(list::one(shared, request, at, StatusCode::OK, &object), &warnings))
}

/// What is told of a patch that can not be applied.
pub(super) fn refusal(error: &PatchError) -> ApiError {
    let message = error.to_string();
    match error {
        PatchError::Malformed(_) => ApiError::bad_request(message),
        PatchError::Rejected(_) => ApiError { code: 422, reason: "Invalid", message, details: json!({}) },
    }
}
