//! Subresources: status, scale, and for Pods binding, eviction and log.

use std::fmt::Write as _;

use http::{Method, Response, StatusCode};
use quorate_apistore::fields::{integer, items, text};
use quorate_apistore::store::{DeleteOptions, Part};
use quorate_apistore::{ApiError, ObjectKey, disruption};
use serde_json::{Value, json};

use super::path::Place;
use super::{Reply, Request, change, document, list, scale};
use crate::body::Body;
use crate::logs::LogRequest;
use crate::shared::Shared;

pub(super) fn serve(shared: &Shared, request: &Request, at: &Place, name: &str, subresource: &str) -> Reply {
    if !at.info.has(subresource) {
        return Err(ApiError::no_such_path());
    }
    let key = at.key(name)?;
    match subresource {
        "status" => match request.method {
            Method::GET => {
                let object = shared.store.get(&key).ok_or_else(|| ApiError::not_found(&at.info, name))?;
                Ok(list::one(shared, request, at, StatusCode::OK, &object))
            }
            Method::PUT => change::replace(shared, request, at, &key, Part::Status),
            Method::PATCH => change::patch(shared, request, at, &key, Part::Status),
            _ => Err(ApiError::method_not_allowed()),
        },
        "scale" => scale::serve(shared, request, at, &key),
        "binding" => bind(shared, request, &key),
        "eviction" => evict(shared, request, &key),
        "finalize" => {
            let body = request.json()?;
            let changed = shared.store.update(&key, Part::Main, body, request.query.dry_run())?;
            Ok(document(StatusCode::OK, &changed))
        }
        "log" => log(shared, request, at, &key),
        _ => Err(ApiError::no_such_path()),
    }
}

fn bind(shared: &Shared, request: &Request, key: &ObjectKey) -> Reply {
    if request.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let node = text(&request.json()?, "/target/name").to_owned();
    shared.store.bind(key, &node)?;
    Ok(document(StatusCode::CREATED, &success()))
}

fn evict(shared: &Shared, request: &Request, key: &ObjectKey) -> Reply {
    if request.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let body = request.json()?;
    // kubectl requests a dry run in the body, others in the query.
    let dry_run = request.query.dry_run()
        || quorate_apistore::fields::items(&body, "/deleteOptions/dryRun").contains(&json!("All"));
    let given = |pointer: &str| Some(text(&body, pointer).to_owned()).filter(|text| !text.is_empty());
    let options = DeleteOptions {
        uid: given("/deleteOptions/preconditions/uid"),
        resource_version: given("/deleteOptions/preconditions/resourceVersion"),
        grace_period: integer(&body, "/deleteOptions/gracePeriodSeconds"),
        dry_run,
        ..DeleteOptions::default()
    };
    disruption::evict(&shared.store, key, &options)?;
    Ok(document(StatusCode::CREATED, &success()))
}

fn log(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey) -> Reply {
    let pod = shared.store.get(key).ok_or_else(|| ApiError::not_found(&at.info, &key.name))?;
    let [containers, starters] =
        ["containers", "initContainers"].map(|list| items(&pod, &format!("/spec/{list}")));
    let container = match (request.query.get("container"), containers) {
        (Some(container), _) => container.to_owned(),
        (None, [only]) => text(only, "/name").to_owned(),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|container| text(container, "/name")).collect();
            let mut why = format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                key.name,
                names.join(" ")
            );
            let first: Vec<&str> = starters.iter().map(|container| text(container, "/name")).collect();
            if !first.is_empty() {
                let _ = write!(why, " or one of the init containers: [{}]", first.join(" "));
            }
            return Err(ApiError::bad_request(why));
        }
    };
    if !containers.iter().chain(starters).any(|own| text(own, "/name") == container) {
        let why = format!("container {container} is not valid for pod {}", key.name);
        return Err(ApiError::bad_request(why));
    }
    let wanted = LogRequest {
        namespace: key.namespace.clone(),
        pod: key.name.clone(),
        container,
        follow: request.query.flag("follow"),
        previous: request.query.flag("previous"),
        tail: request.query.number("tailLines")?,
        timestamps: request.query.flag("timestamps"),
    };
    let lines = shared.logs(&wanted)?;
    Ok(Response::new(Body::stream(lines)))
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}
