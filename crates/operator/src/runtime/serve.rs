//! What the operator serves over HTTP: metrics, liveness and readiness.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A port that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {purpose}")]
pub struct ListenError {
    address: SocketAddr,
    purpose: &'static str,
    source: std::io::Error,
}

/// Opens a port. Without IPv6, `[::]` means every IPv4 address.
pub async fn listen(address: SocketAddr, purpose: &'static str) -> Result<TcpListener, ListenError> {
    let bound = match TcpListener::bind(address).await {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    let listener = bound.map_err(|source| ListenError { address, purpose, source })?;
    // With port 0 only the log names the port.
    if let Ok(address) = listener.local_addr() {
        tracing::info!("serving {purpose} on {address}");
    }
    Ok(listener)
}

/// `/metrics`.
pub fn metrics(registry: Registry) -> Router {
    let registry = Arc::new(registry);
    Router::new().route("/metrics", get(async move || encoded(&registry)))
}

/// `/healthz`: the process answers. `/readyz`: every watch has listed its objects.
pub fn health(ready: Vec<CancellationToken>) -> Router {
    let ready = Arc::new(ready);
    Router::new().route("/healthz", get(async || "ok")).route(
        "/readyz",
        get(async move || match ready.iter().filter(|watch| !watch.is_cancelled()).count() {
            0 => (StatusCode::OK, "ok".to_owned()),
            missing => (StatusCode::SERVICE_UNAVAILABLE, format!("{missing} watches have not listed yet")),
        }),
    )
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await {
        tracing::error!(%error, "serving ended");
    }
}

fn encoded(registry: &Registry) -> Response {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
