//! DELETE, of one object or of all that a selector selects.

use http::StatusCode;
use quorate_apistore::ApiError;
use quorate_apistore::ObjectKey;
use quorate_apistore::fields::{name, namespace, uid};
use quorate_apistore::store::Deleted;
use serde_json::json;

use super::path::Place;
use super::{Reply, Request, document, events, list};
use crate::shared::Shared;

pub(super) fn of_one(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey) -> Reply {
    let options = request.delete_options()?;
    // The real server returns these objects; for other kinds it returns a success status.
    let shows = ["pods", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"];
    match shared.store.delete(key, &options)? {
        Deleted::Gone(object) if shows.contains(&at.info.plural.as_str()) => {
            Ok(document(StatusCode::OK, &object))
        }
        Deleted::Gone(object) => {
            let mut details = json!({"name": name(&object), "kind": at.info.plural, "uid": uid(&object)});
            if !at.info.group.is_empty() {
                details["group"] = json!(at.info.group);
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(document(StatusCode::OK, &status))
        }
        Deleted::Marked(object) => Ok(document(StatusCode::OK, &events::shown(&at.info, object))),
    }
}

pub(super) fn of_all(shared: &Shared, request: &Request, at: &Place) -> Reply {
    if at.info.namespaced && at.namespace.is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let options = request.delete_options()?;
    let (objects, version) = list::selected(shared, request, at)?;
    for object in &objects {
        let key = ObjectKey::new(at.storage.clone(), namespace(object), name(object));
        match shared.store.delete(&key, &options) {
            // It is deleted already.
            Err(error) if error.code == 404 => {}
            other => drop(other?),
        }
    }
    Ok(document(StatusCode::OK, &list::document(at, objects, version, None)))
}
