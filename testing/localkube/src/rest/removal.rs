//! DELETE, of one object or of all that a selector selects.

use http::StatusCode;
use quorate_apistore::ApiError;
use quorate_apistore::ObjectKey;
use quorate_apistore::fields::{name, namespace, uid};
use quorate_apistore::store::{Deleted, Propagation};
use serde_json::json;

use super::path::Place;
use super::{Reply, Request, document, events, list, with_warnings};
use crate::shared::Shared;

/// The warning at the deletion of a Job that does not say what becomes of its Pods.
const JOB: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
    propagationPolicy=Orphan to suppress this warning";

pub(super) fn of_one(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey) -> Reply {
    let options = request.delete_options()?;
    // The real server returns these objects; for other kinds it returns a success status.
    let shows = ["pods", "services", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts"];
    let is_job = at.info.plural == "jobs" && options.propagation == Propagation::Unspecified;
    let warnings = if is_job { vec![JOB.to_owned()] } else { Vec::new() };
    let reply = match shared.store.delete(key, &options)? {
        Deleted::Gone(object) if shows.contains(&at.info.plural.as_str()) => {
            document(StatusCode::OK, &object)
        }
        Deleted::Gone(object) => {
            let mut details = json!({"name": name(&object), "kind": at.info.plural, "uid": uid(&object)});
            if !at.info.group.is_empty() {
                details["group"] = json!(at.info.group);
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            document(StatusCode::OK, &status)
        }
        Deleted::Marked(object) => document(StatusCode::OK, &events::shown(&at.info, object)),
    };
    Ok(with_warnings(reply, &warnings))
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
