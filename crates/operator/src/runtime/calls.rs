//! Counts every request to the Kubernetes API, beneath the client.

use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

use crate::runtime::metrics::Metrics;

/// Wraps a client so that its requests are counted. The client must not retry by itself: only a pass decides whether a
/// write is repeated.
pub fn counted(client: kube::Client, metrics: &Metrics) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let metrics = metrics.clone();
    let counting = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics) = (client.clone(), metrics.clone());
        let verb = verb(request.method(), request.uri().path(), request.uri().query());
        let resource = resource(request.uri().path());
        async move {
            let reply = client.send(request).await;
            match &reply {
                Ok(reply) => metrics.api_request(verb, &resource, reply.status().as_str()),
                Err(_) => metrics.api_request(verb, &resource, "lost"),
            }
            match reply {
                Ok(reply) if reply.status() == StatusCode::TOO_MANY_REQUESTS => with_delay(reply).await,
                reply => reply,
            }
        }
    });
    kube::Client::new(counting, namespace)
}

/// A refusal for too many requests with its delay where the client reads it: priority and fairness has it in a header beside a plain text.
async fn with_delay(reply: Response<Body>) -> kube::Result<Response<Body>> {
    let (mut parts, body) = reply.into_parts();
    let body = body.collect_bytes().await?;
    let after =
        parts.headers.get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.trim().parse::<u32>().ok());
    let told = serde_json::from_slice::<Value>(&body).ok().filter(|told| told["code"] == 429);
    let mut told = told.unwrap_or_else(|| {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": String::from_utf8_lossy(&body).trim(),
        })
    });
    if let Some(after) = after
        && !told["details"]["retryAfterSeconds"].is_number()
    {
        let details = told["details"].as_object().cloned().unwrap_or_default();
        told["details"] = Value::Object(details);
        told["details"]["retryAfterSeconds"] = json!(after);
    }
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, Body::from(told.to_string().into_bytes())))
}

/// The verb as Kubernetes' audit log names it.
fn verb(method: &Method, path: &str, query: Option<&str>) -> &'static str {
    let watches =
        query.is_some_and(|query| query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1"));
    match method.as_str() {
        "GET" if watches => "watch",
        "GET" if names_an_object(path) => "get",
        "GET" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

/// The plural of the kind, with its subresource: `etcdclusters/status`.
fn resource(path: &str) -> String {
    match below_version(path).as_slice() {
        [] => "none".to_owned(),
        [plural] | [plural, _] => (*plural).to_owned(),
        [plural, _name, subresource, ..] => format!("{plural}/{subresource}"),
    }
}

fn names_an_object(path: &str) -> bool {
    below_version(path).len() > 1
}

/// The path below group, version and namespace: plural, name, subresource.
fn below_version(path: &str) -> Vec<&str> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let below = match parts.first() {
        Some(&"api") => parts.get(2..),
        Some(&"apis") => parts.get(3..),
        _ => None,
    };
    match below {
        Some(["namespaces", _, rest @ ..]) if !rest.is_empty() => rest.to_vec(),
        other => other.unwrap_or_default().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn n16_a_refusal_for_too_many_requests_is_certain_and_has_the_delay_of_its_header() {
        let plain = "Too many requests, please try again later.";
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "the server is overloaded", "details": { "retryAfterSeconds": 9 },
        });
        let table = [
            (plain.to_owned(), Some("7"), 7),
            (plain.to_owned(), Some("Wed, 21 Oct 2026 07:28:00 GMT"), 1),
            (plain.to_owned(), Some("4000000000"), 60),
            (plain.to_owned(), None, 1),
            (status.to_string(), Some("7"), 9),
            (json!({ "kind": "Status", "details": 3 }).to_string(), Some("7"), 7),
            (json!({ "code": 429, "message": 3, "details": [] }).to_string(), Some("7"), 1),
            ("\u{0}{".to_owned(), Some("-7"), 1),
        ];
        for (body, header, seconds) in table {
            let said = body.clone();
            let server = tower::service_fn(move |_: Request<Body>| {
                let mut reply = Response::builder().status(429);
                if let Some(header) = header {
                    reply = reply.header("Retry-After", header);
                }
                let reply = reply.body(Body::from(said.clone().into_bytes())).unwrap();
                async move { Ok::<_, kube::Error>(reply) }
            });
            let metrics = Metrics::new(&mut prometheus_client::registry::Registry::default());
            let client = counted(kube::Client::new(server, "default"), &metrics);
            let pods = kube::Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(client);
            let refused = crate::runtime::write::reply(Ok(pods.get("demo-0").await));
            let Err(quorate_reconcile::WriteError::Throttled(after, _)) = refused else {
                panic!("{body} {header:?}: {refused:?}")
            };
            assert_eq!(after, seconds, "{body} {header:?}");
        }
    }

    #[test]
    fn a_request_is_counted_by_verb_and_kind() {
        let pods = "/api/v1/namespaces/default/pods";
        let clusters = "/apis/operator.etcd.io/v1alpha1";
        let status = format!("{clusters}/namespaces/default/etcdclusters/demo/status");
        let table = [
            (Method::GET, pods.to_owned(), None, "list", "pods"),
            (Method::GET, "/api/v1/pods".to_owned(), Some("labelSelector=a&watch=true"), "watch", "pods"),
            (Method::POST, pods.to_owned(), None, "create", "pods"),
            (Method::DELETE, format!("{pods}/demo-0"), None, "delete", "pods"),
            (Method::GET, format!("{pods}/demo-0"), None, "get", "pods"),
            (Method::PATCH, status, Some("fieldManager=quorate"), "patch", "etcdclusters/status"),
            (Method::GET, format!("{clusters}/etcdclusters"), None, "list", "etcdclusters"),
            (Method::GET, "/api/v1/namespaces/default".to_owned(), None, "get", "namespaces"),
            (Method::GET, "/version".to_owned(), None, "list", "none"),
        ];
        for (method, path, query, done, kind) in table {
            assert_eq!(
                (verb(&method, &path, query), resource(&path).as_str()),
                (done, kind),
                "{method} {path}"
            );
        }
    }
}
