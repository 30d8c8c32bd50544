//! The REST face of the store: from a request to a reply, as Kubernetes' API conventions have it.

mod list;
mod path;
mod query;
mod scale;
mod subresource;
mod watching;

use http::{HeaderMap, Method, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::body::Body;
use crate::errors::ApiError;
use crate::fields::name;
use crate::patch::{self, PatchError, PatchKind};
use crate::resources::{ObjectKey, Resources};
use crate::service::Shared;
use crate::store::{DeleteOptions, Deleted, Part, Propagation};
use crate::{discovery, openapi, protobuf};
use path::{Place, Target};
use query::Query;

/// A request whose body has arrived.
pub(crate) struct Request {
    pub method: Method,
    pub path: String,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

type Reply = Result<Response<Body>, ApiError>;

/// Answers.
pub(crate) async fn answer(shared: &Shared, request: Request) -> Response<Body> {
    match route(shared, &request).await {
        Ok(response) => response,
        Err(error) => {
            let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            document(code, &error.status())
        }
    }
}

async fn route(shared: &Shared, request: &Request) -> Reply {
    match request.path.trim_end_matches('/') {
        "/healthz" | "/readyz" | "/livez" => return Ok(Response::new(Body::whole("ok"))),
        "/version" => return Ok(document(StatusCode::OK, &version())),
        _ => {}
    }
    let accept = request.accept();
    let resources = shared.store.resources();
    if request.method == Method::GET
        && let Some(response) = described(&request.path, accept, &resources)
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

/// Discovery and OpenAPI: what is served, and of what form it is.
fn described(path: &str, accept: &str, resources: &Resources) -> Option<Response<Body>> {
    let found = discovery::serve(path, accept, resources);
    found
        .map(|found| typed(StatusCode::OK, &found.body, found.content_type))
        .or_else(|| openapi::serve(path, resources).map(|body| document(StatusCode::OK, &body)))
}

fn collection(shared: &Shared, request: &Request, at: &Place) -> Reply {
    match request.method {
        Method::GET if request.query.flag("watch") => watching::watch(shared, request, at, None),
        Method::GET => list::list(shared, request, at),
        Method::POST => {
            let namespace = at.namespace_for_writing()?;
            let object = request.json()?;
            let warnings = request.unknown_fields(at, &object)?;
            let created = shared.store.create(&at.storage, namespace, object, request.query.dry_run())?;
            Ok(with_warnings(list::one(shared, request, at, StatusCode::CREATED, &created), &warnings))
        }
        Method::DELETE => {
            let options = request.delete_options()?;
            let (objects, version) = list::selected(shared, request, at)?;
            for object in &objects {
                let namespace = crate::fields::namespace(object);
                let key = ObjectKey::new(at.storage.clone(), namespace, name(object));
                shared.store.delete(&key, &options)?;
            }
            Ok(document(StatusCode::OK, &list::document(at, &objects, version, None)))
        }
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
        Method::PUT | Method::PATCH => {
            let changed = change(shared, request, at, &key, Part::Main)?;
            Ok(list::one(shared, request, at, StatusCode::OK, &changed))
        }
        Method::DELETE => delete(shared, request, at, &key),
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// PUT and PATCH.
fn change(
    shared: &Shared,
    request: &Request,
    at: &Place,
    key: &ObjectKey,
    part: Part,
) -> Result<Value, ApiError> {
    let body = request.json()?;
    let dry_run = request.query.dry_run();
    if request.method == Method::PUT {
        request.unknown_fields(at, &body)?;
        return shared.store.update(key, part, body, dry_run);
    }
    let kind = request.patch_kind(at)?;
    shared.store.modify(key, part, dry_run, |old| {
        let patched = patch::apply(kind, old, &body).map_err(|error| match error {
            PatchError::Malformed(_) => ApiError::bad_request(error.to_string()),
            PatchError::Rejected(_) => {
                ApiError { code: 422, reason: "Invalid", message: error.to_string(), details: json!({}) }
            }
        })?;
        request.unknown_fields(at, &patched)?;
        Ok(patched)
    })
}

fn delete(shared: &Shared, request: &Request, at: &Place, key: &ObjectKey) -> Reply {
    let options = request.delete_options()?;
    let is_pod = at.info.plural == "pods";
    match shared.store.delete(key, &options)? {
        // A Pod is shown as it was; of others a success is told.
        Deleted::Gone(object) if is_pod => Ok(document(StatusCode::OK, &object)),
        Deleted::Gone(object) => {
            let details = json!({
                "name": name(&object), "group": at.info.group, "kind": at.info.plural,
                "uid": crate::fields::uid(&object),
            });
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(document(StatusCode::OK, &status))
        }
        Deleted::Marked(object) => Ok(document(StatusCode::OK, &object)),
    }
}

impl Request {
    fn accept(&self) -> &str {
        self.header(header::ACCEPT)
    }

    fn header(&self, name: header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    fn json(&self) -> Result<Value, ApiError> {
        let content = self.header(header::CONTENT_TYPE);
        if content.contains("protobuf") {
            return protobuf::decode(&self.body)
                .map_err(|error| ApiError::unsupported_media_type(error.to_string()));
        }
        if content.contains("cbor") {
            return Err(ApiError::unsupported_media_type("the body is understood as JSON or YAML only"));
        }
        if content.contains("yaml") {
            let wrong =
                |error: serde_yaml_ng::Error| ApiError::bad_request(format!("the body is no YAML: {error}"));
            return serde_yaml_ng::from_slice(&self.body).map_err(wrong);
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::bad_request(format!("the body is no JSON: {error}")))
    }

    fn patch_kind(&self, at: &Place) -> Result<PatchKind, ApiError> {
        let content = self.header(header::CONTENT_TYPE);
        match content.split(';').next().unwrap_or_default() {
            "application/json-patch+json" => Ok(PatchKind::Json),
            "application/merge-patch+json" => Ok(PatchKind::Merge),
            "application/strategic-merge-patch+json" if at.info.compiled.is_none() => {
                Ok(PatchKind::Strategic)
            }
            "application/strategic-merge-patch+json" => Err(ApiError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: \
                 application/json-patch+json, application/merge-patch+json",
            )),
            "application/apply-patch+yaml" => Err(ApiError::unsupported_media_type(
                "server-side apply is not served here; use kubectl apply without --server-side",
            )),
            other => {
                Err(ApiError::unsupported_media_type(format!("a patch of type {other:?} is not served")))
            }
        }
    }

    fn delete_options(&self) -> Result<DeleteOptions, ApiError> {
        let body = if self.body.is_empty() { json!({}) } else { self.json()? };
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let propagation =
            text("/propagationPolicy").or_else(|| self.query.get("propagationPolicy").map(str::to_owned));
        let propagation = match propagation.as_deref() {
            None | Some("Background") => Propagation::Background,
            Some("Foreground") => Propagation::Foreground,
            Some("Orphan") => Propagation::Orphan,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "propagationPolicy: Unsupported value: {other:?}: supported values: \"Foreground\", \
                     \"Background\", \"Orphan\""
                )));
            }
        };
        let grace = self.query.get("gracePeriodSeconds").and_then(|seconds| seconds.parse().ok());
        Ok(DeleteOptions {
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            grace_period: body["gracePeriodSeconds"].as_i64().or(grace),
            propagation,
            dry_run: self.query.dry_run() || body["dryRun"][0] == "All",
        })
    }

    /// Unknown fields of a custom resource, as `fieldValidation` asks: refused, warned of, or passed over.
    fn unknown_fields(&self, at: &Place, object: &Value) -> Result<Vec<String>, ApiError> {
        let Some(schema) = &at.info.compiled else { return Ok(Vec::new()) };
        let mode = self.query.get("fieldValidation").unwrap_or("Warn");
        let unknown = schema.prune(&mut object.clone());
        let told: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        match mode {
            "Strict" if !told.is_empty() => {
                let told = told.join(", ");
                Err(ApiError::bad_request(format!(
                    "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {told}",
                    at.info.kind, at.info.version, at.info.kind
                )))
            }
            "Ignore" => Ok(Vec::new()),
            _ => Ok(told),
        }
    }
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

fn version() -> Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": "v1.33.0-localkube", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "", "goVersion": "", "compiler": "rustc", "platform": "linux/amd64",
    })
}

/// The parameters of a URL.
pub(crate) fn query_of(uri: &http::Uri) -> Query {
    Query::parse(uri.query().unwrap_or_default())
}
