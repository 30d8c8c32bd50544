//! The scale subresource of custom resources: the replicas, at the paths of the definition.

use http::{Method, StatusCode};
use k8s_openapi::api::autoscaling::v1::Scale;
use quorate_apistore::ApiError;
use quorate_apistore::fields::{integer, text};
use quorate_apistore::patch;
use quorate_apistore::resources::{ObjectKey, ScalePaths};
use quorate_apistore::store::Part;
use serde::Deserialize;
use serde_json::{Value, json};

use super::path::Place;
use super::{Reply, Request, change, document};
use crate::shared::Shared;

pub(super) fn serve(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey) -> Reply {
    let paths = at.info.scale.clone().ok_or_else(ApiError::no_such_path)?;
    let object = match request.method {
        Method::GET => shared.store.get(key).ok_or_else(|| ApiError::not_found(&at.info, &key.name))?,
        Method::PUT | Method::PATCH => {
            let body = request.json()?;
            if request.method == Method::PUT {
                desired_replicas(&body)?;
                change::check_name(&body, key)?;
            }
            let kind = (request.method == Method::PATCH).then(|| request.patch_kind(&at.info)).transpose()?;
            shared.store.modify(key, Part::Main, request.query.dry_run(), |old| {
                let shown = show(&paths, old);
                let (wanted, replicas) = if let Some(kind) = kind {
                    let patched = patch::apply(kind, &shown, &body);
                    let wanted = patched.map_err(|error| change::refusal(&error))?;
                    let replicas =
                        desired_replicas(&wanted).map_err(|error| change::unreadable(error, kind, &body))?;
                    (wanted, replicas)
                } else {
                    let replicas = desired_replicas(&body)?;
                    (body, replicas)
                };
                let version = text(&wanted, "/metadata/resourceVersion");
                if !version.is_empty() && version != text(old, "/metadata/resourceVersion") {
                    return Err(ApiError::modified(&at.info, &key.name));
                }
                let mut new = old.clone();
                set(&mut new, &paths.spec_replicas, json!(replicas));
                Ok(new)
            })?
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(document(StatusCode::OK, &show(&paths, &object)))
}

/// The desired replicas; absent means 0.
fn desired_replicas(scale: &Value) -> Result<i32, ApiError> {
    let scale = Scale::deserialize(scale).map_err(|error| {
        ApiError::bad_request(format!("Scale in version \"v1\" cannot be handled as a Scale: {error}"))
    })?;
    Ok(scale.spec.and_then(|spec| spec.replicas).unwrap_or(0))
}

fn show(paths: &ScalePaths, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut status = json!({"replicas": integer(object, &paths.status_replicas).unwrap_or(0)});
    if let Some(selector) =
        paths.selector.as_deref().map(|path| text(object, path)).filter(|text| !text.is_empty())
    {
        status["selector"] = json!(selector);
    }
    let wanted = integer(object, &paths.spec_replicas).unwrap_or(0);
    // Zero replicas are omitted, as on the real server.
    let spec = if wanted == 0 { json!({}) } else { json!({"replicas": wanted}) };
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": spec,
        "status": status,
    })
}

fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for part in pointer.trim_start_matches('/').split('/') {
        place = &mut place[part];
    }
    *place = value;
}
