//! The layer under the Kubernetes client: counts every request, whoever sends it.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::Body;
use tower::{Layer, Service};

use crate::metrics::Metrics;

/// Wraps a client so that its requests are counted. The client beneath must not retry by itself: a repeated write is
/// ours to decide.
pub fn counted(client: kube::Client, metrics: &Metrics) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Counted { metrics: metrics.clone() }.layer(client), namespace)
}

#[derive(Clone)]
struct Counted {
    metrics: Metrics,
}

#[derive(Clone)]
struct Counting<S> {
    metrics: Metrics,
    inner: S,
}

impl<S> Layer<S> for Counted {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { metrics: self.metrics.clone(), inner }
    }
}

impl<S, B> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: 'static,
    S::Error: 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = verb(request.method(), request.uri().path(), request.uri().query());
        let kind = resource(request.uri().path()).to_owned();
        let metrics = self.metrics.clone();
        let reply = self.inner.call(request);
        Box::pin(async move {
            let reply = reply.await;
            let code = reply.as_ref().map_or_else(|_| "lost".to_owned(), |reply| reply.status().as_str().to_owned());
            metrics.api_request(verb, &kind, &code);
            reply
        })
    }
}

/// As Kubernetes' audit log names it.
fn verb(method: &Method, path: &str, query: Option<&str>) -> &'static str {
    let watches = query.is_some_and(|query| query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1"));
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

    #[test]
    fn a_request_is_counted_by_what_it_does_to_which_kind() {
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
            assert_eq!((verb(&method, &path, query), resource(&path).as_str()), (done, kind), "{method} {path}");
        }
    }
}
