//! The API as a tower service: in process for a client library, or behind any HTTP server.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use quorate_apistore::store::{Clock, RestoreError, Store};
use serde_json::Value;

use crate::body::Body;
use crate::controllers;
use crate::logs::LogSource;
use crate::rest::{self, query_of};
use crate::shared::Shared;

/// An in-memory Kubernetes. Clones share it.
#[derive(Clone)]
pub struct LocalKube {
    shared: Arc<Shared>,
}

/// The API of a [`LocalKube`], as a service to call.
#[derive(Clone)]
pub struct ApiService {
    shared: Arc<Shared>,
}

impl LocalKube {
    /// An empty cluster. Its controllers start with [`LocalKube::run_controllers`].
    pub fn new(clock: Clock) -> Self {
        Self { shared: Arc::new(Shared::new(Store::new(clock))) }
    }

    /// The store behind the API.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Its API.
    pub fn service(&self) -> ApiService {
        ApiService { shared: self.shared.clone() }
    }

    /// Sets the source of container logs. Only the first call has an effect.
    pub fn set_log_source(&self, source: Arc<dyn LogSource>) {
        self.shared.set_log_source(source);
    }

    /// The whole state as one document.
    pub fn snapshot(&self) -> Value {
        self.shared.store.snapshot()
    }

    /// Restores a document of [`LocalKube::snapshot`].
    pub fn restore(&self, state: &Value) -> Result<(), RestoreError> {
        self.shared.store.restore(state)
    }

    /// Runs the built-in controllers at every change while this future is polled.
    pub async fn run_controllers(&self) {
        controllers::run(&self.shared.store).await;
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = self.shared.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes().to_vec(),
                Err(error) => {
                    let mut response =
                        Response::new(Body::whole(format!("the body did not arrive: {error}")));
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                    return Ok(response);
                }
            };
            let request = rest::Request {
                method: parts.method,
                path: parts.uri.path().to_owned(),
                query: query_of(&parts.uri),
                headers: parts.headers,
                body,
            };
            Ok(rest::answer(&shared, &request))
        })
    }
}
