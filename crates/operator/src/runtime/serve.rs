//! What the operator serves over HTTP: metrics, liveness and readiness. Metrics over HTTPS where a token is asked for (`access`, `https`).

mod access;
mod https;

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::runtime::lease::Leadership;
pub use access::Access;
pub use https::{Https, SelfSigned, SelfSignedError};

/// Where metrics are.
const METRICS_PATH: &str = "/metrics";

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

/// What `/metrics` shows.
pub struct Metrics {
    /// What every replica counts of itself.
    pub own: Registry,
    /// What only the replica that acts knows: of clusters, backups and schedules. Another one would show what it saw long ago, or nothing.
    pub acting: Registry,
    /// Whether it is the one.
    pub leadership: Leadership,
    /// Who may read them; everybody if it is absent.
    pub access: Option<Access>,
}

/// `/metrics`: OpenMetrics for who asks for it, else the older format of Prometheus.
pub fn metrics(metrics: Metrics) -> Router {
    let metrics = Arc::new(metrics);
    let answer = async move |headers: HeaderMap| {
        if let Some(access) = &metrics.access
            && let Err(refused) = access.admits(&headers).await
        {
            return refused.into_response();
        }
        encoded(&metrics, &headers)
    };
    Router::new().route(METRICS_PATH, get(answer))
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
pub async fn serve<L>(listener: L, router: Router, stop: CancellationToken)
where
    L: Listener,
    L::Addr: std::fmt::Debug,
{
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await {
        tracing::error!(%error, "serving ended");
    }
}

fn encoded(metrics: &Metrics, headers: &HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let wants_open_metrics = accepted
        .flat_map(|value| value.split(','))
        .any(|one| one.split(';').next().is_some_and(|kind| kind.trim() == "application/openmetrics-text"));
    let (kind, text) = if wants_open_metrics {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text())
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", metrics.text().map(|text| older(&text)))
    };
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

impl Metrics {
    /// In OpenMetrics.
    fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.own)?;
        if self.leadership.may_act() {
            encode_registry(&mut text, &self.acting)?;
        }
        encode_eof(&mut text)?;
        Ok(text)
    }
}

/// OpenMetrics in the older format: there a counter is declared by the name that its samples have, and there is neither a unit nor an end.
fn older(text: &str) -> String {
    let declared = |line: &str| line.strip_prefix("# TYPE ")?.strip_suffix(" counter").map(str::to_owned);
    let counters: HashSet<String> = text.lines().filter_map(declared).collect();
    let mut older = String::with_capacity(text.len());
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "EOF"] | ["#", "UNIT", ..] => continue,
            ["#", what @ ("HELP" | "TYPE"), name, rest] if counters.contains(name) => {
                older.extend(["# ", what, " ", name, "_total ", rest]);
            }
            _ => older.push_str(line),
        }
        older.push('\n');
    }
    older
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::ConstGauge;
    use tower::ServiceExt as _;

    use super::*;

    fn served(leadership: Leadership) -> Router {
        let (mut own, mut acting) = (Registry::with_prefix("quorate"), Registry::with_prefix("quorate"));
        let requests = Family::<Vec<(&'static str, &'static str)>, Counter>::default();
        requests.get_or_create(&vec![("verb", "get")]).inc();
        own.register("api_requests", "Requests", requests);
        acting.register("cluster_members", "Members", ConstGauge::<i64>::new(3));
        metrics(Metrics { own, acting, leadership, access: None })
    }

    async fn asked(router: Router, accept: Option<&str>) -> (String, String) {
        let mut request = Request::get("/metrics");
        if let Some(accept) = accept {
            request = request.header(header::ACCEPT, accept);
        }
        let reply = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let kind = reply.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let body = to_bytes(reply.into_body(), 1 << 20).await.unwrap();
        (kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn who_does_not_ask_for_open_metrics_gets_the_older_format() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let (kind, text) = asked(served(Leadership::endless()), Some(prometheus)).await;
        assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        assert!(
            text.contains("# TYPE quorate_api_requests counter\n") && text.ends_with("# EOF\n"),
            "{text}"
        );
        for accept in [None, Some("*/*"), Some("text/plain")] {
            let (kind, text) = asked(served(Leadership::endless()), accept).await;
            assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
            let expected = "# HELP quorate_api_requests_total Requests.\n# TYPE quorate_api_requests_total counter\n\
                            quorate_api_requests_total{verb=\"get\"} 1\n# HELP quorate_cluster_members Members.\n\
                            # TYPE quorate_cluster_members gauge\nquorate_cluster_members 3\n";
            assert_eq!(text, expected);
        }
    }

    #[tokio::test]
    async fn only_the_replica_that_acts_shows_clusters() {
        let (_, text) = asked(served(Leadership::none()), None).await;
        assert!(text.contains("quorate_api_requests") && !text.contains("quorate_cluster"), "{text}");
    }
}
