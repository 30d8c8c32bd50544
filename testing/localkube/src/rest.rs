//! The REST API of the store: from a request to a reply, by Kubernetes' API conventions.

mod change;
mod decode;
mod events;
mod list;
mod path;
mod query;
mod removal;
mod request;
mod scale;
mod selector;
mod subresource;
mod watching;

use http::{Method, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::body::Body;
use crate::shared::Shared;
use crate::{discovery, openapi};
use path::{Place, Target};
use query::Query;
use quorate_apistore::ApiError;
use quorate_apistore::Resources;
use quorate_apistore::store::Part;
pub(crate) use request::Request;

type Reply = Result<Response<Body>, ApiError>;

/// Serves a request.
pub(crate) fn answer(shared: &Shared, request: &Request) -> Response<Body> {
    route(shared, request).unwrap_or_else(|error| {
        let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        document(code, &error.status())
    })
}

/// The parameters of a URL.
pub(crate) fn query_of(uri: &http::Uri) -> Query {
    Query::parse(uri.query().unwrap_or_default())
}

fn route(shared: &Shared, request: &Request) -> Reply {
    match request.path.trim_end_matches('/') {
        "/healthz" | "/readyz" | "/livez" => return Ok(Response::new(Body::whole("ok"))),
        "/version" => return Ok(document(StatusCode::OK, &version())),
        "/openapi/v2" => return Ok(empty_openapi_v2()),
        _ => {}
    }
    let resources = shared.store.resources();
    if request.method == Method::GET
        && let Some(response) = schema_document(&request.path, request.accept(), &resources)
    {
        return Ok(response);
    }
    let place = path::parse(&request.path).ok_or_else(ApiError::no_such_path)?;
    if place.resource == "selfsubjectaccessreviews" && request.method == Method::POST {
        let mut review = request.json()?;
        review["status"] = json!({"allowed": true});
        return Ok(document(StatusCode::CREATED, &review));
    }
    let info = resources
        .served(&place.group, &place.version, &place.resource)
        .filter(|info| info.namespaced || place.namespace.is_none())
        .ok_or_else(ApiError::no_such_path)?;
    let at = Place { info, namespace: place.namespace, storage: place.storage };
    match place.target {
        Target::Collection => collection(shared, request, &at),
        Target::Object { name, subresource: None } => object(shared, request, &at, &name),
        Target::Object { name, subresource: Some(subresource) } => {
            subresource::serve(shared, request, &at, &name, &subresource)
        }
    }
}

/// Discovery and OpenAPI documents.
fn schema_document(path: &str, accept: &str, resources: &Resources) -> Option<Response<Body>> {
    let found = discovery::serve(path, accept, resources);
    found
        .map(|found| typed(StatusCode::OK, &found.body, found.content_type))
        .or_else(|| openapi::serve(path, resources).map(|body| document(StatusCode::OK, &body)))
}

fn collection(shared: &Shared, request: &Request, at: &Place) -> Reply {
    match request.method {
        Method::GET if request.query.flag("watch") => watching::watch(shared, request, at, None),
        Method::GET => list::list(shared, request, at),
        Method::POST => change::create(shared, request, at),
        Method::DELETE => removal::of_all(shared, request, at),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn object(shared: &Shared, request: &Request, at: &Place, name: &str) -> Reply {
    let key = at.key(name)?;
    match request.method {
        Method::GET if request.query.flag("watch") => watching::watch(shared, request, at, Some(name)),
        Method::GET => {
            let object = shared.store.get(&key).ok_or_else(|| ApiError::not_found(&at.info, name))?;
            Ok(list::one(shared, request, at, StatusCode::OK, &object))
        }
        Method::PUT => change::replace(shared, request, at, &key, Part::Main),
        Method::PATCH => change::patch(shared, request, at, &key, Part::Main),
        Method::DELETE => removal::of_one(shared, request, at, &key),
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn document(code: StatusCode, body: &Value) -> Response<Body> {
    typed(code, body, "application/json")
}

fn typed(code: StatusCode, body: &Value, content_type: &str) -> Response<Body> {
    let mut response = Response::new(Body::json(body));
    *response.status_mut() = code;
    if let Ok(value) = content_type.parse() {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

fn with_warnings(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let text = format!("299 - {warning:?}");
        if let Ok(value) = text.parse() {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// The OpenAPI v2 document, which kubectl requests for kinds that v3 does not describe, such as `List`. It is in
/// protobuf and contains only `swagger: "2.0"`: the client does not check what is not described.
fn empty_openapi_v2() -> Response<Body> {
    let mut response = Response::new(Body::whole(&b"\x0a\x032.0"[..]));
    let form = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(form));
    response
}

fn version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0-localkube", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    })
}
