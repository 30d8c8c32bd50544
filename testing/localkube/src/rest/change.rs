//! POST, PUT and PATCH.

use http::StatusCode;
use quorate_apistore::ApiError;
use quorate_apistore::ObjectKey;
use quorate_apistore::cause::Cause;
use quorate_apistore::fields::name;
use quorate_apistore::patch::{self, PatchError, PatchKind};
use quorate_apistore::store::Part;
use serde_json::{Value, json};

use super::path::Place;
use super::{Reply, Request, events, list, with_warnings};
use crate::shared::Shared;

pub(super) fn create(shared: &Shared, request: &Request, at: &Place) -> Reply {
    let namespace = at.namespace_for_writing()?;
    let (object, warnings) = request.object(at)?;
    let created = shared.store.create(&at.storage, namespace, object, request.query.dry_run())?;
    Ok(with_warnings(list::one(shared, request, at, StatusCode::CREATED, &created), &warnings))
}

pub(super) fn replace(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey, part: Part) -> Reply {
    let (object, warnings) = request.object(at)?;
    check_name(&object, key)?;
    let dry_run = request.query.dry_run();
    let (code, object) = if at.info.is_created_by_replacing() && shared.store.get(key).is_none() {
        let created = shared.store.create_in_place(key, object, dry_run)?;
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
        warnings = request.decode(at, &mut patched).map_err(|error| unreadable(error, kind, &patch))?;
        Ok(events::stored(&at.info, patched))
    })?;
    Ok(with_warnings(list::one(shared, request, at, StatusCode::OK, &object), &warnings))
}

/// If the patched object cannot be read, the patch is at fault. Unknown fields after a strategic patch are reported as
/// those of an object.
pub(super) fn unreadable(error: ApiError, kind: PatchKind, patch: &Value) -> ApiError {
    let strict = kind == PatchKind::Strategic && error.message.contains("strict decoding error");
    if error.code != 400 || strict {
        return error;
    }
    let cause = Cause::invalid("patch", &json!(patch.to_string()), error.message);
    let message = format!(" \"\" is invalid: {}: {}", cause.field, cause.message);
    let causes = json!([{ "reason": cause.reason, "message": cause.message, "field": cause.field }]);
    ApiError { code: 422, reason: "Invalid", message, details: json!({ "causes": causes }) }
}

/// The name in a replacing object must be the one in the URL.
pub(super) fn check_name(object: &Value, key: &ObjectKey) -> Result<(), ApiError> {
    let (given, own) = (name(object), &key.name);
    if given.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({own} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != own {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({own})"
        )));
    }
    Ok(())
}

/// The refusal of a patch that cannot be applied.
pub(super) fn refusal(error: &PatchError) -> ApiError {
    let message = error.to_string();
    match error {
        PatchError::Malformed(_) => ApiError::bad_request(message),
        PatchError::Rejected(_) => ApiError { code: 422, reason: "Invalid", message, details: json!({}) },
    }
}
