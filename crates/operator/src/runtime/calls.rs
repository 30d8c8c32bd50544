//! Counts every request to the Kubernetes API, beneath the client.

use http::{Method, Request};
use kube::client::Body;

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
            reply
        }
    });
    kube::Client::new(counting, namespace)
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
