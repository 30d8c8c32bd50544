//! What Alertmanager calls, as a pager would be called.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One alert, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it fires; else it is over.
    pub fires: bool,
    /// All its labels, `alertname` and `severity` among them.
    pub labels: BTreeMap<String, String>,
    /// Where its section is.
    pub runbook_url: String,
}

impl Notice {
    /// Whether it is this alert, with at least these labels.
    pub fn is(&self, alert: &str, labels: &[(&str, &str)]) -> bool {
        let has = |(name, value): &(&str, &str)| self.labels.get(*name).is_some_and(|own| own == value);
        has(&("alertname", alert)) && labels.iter().all(has)
    }
}

/// The server, ended when this is dropped.
pub(super) struct Webhook {
    address: SocketAddr,
    notices: Arc<Mutex<Vec<Notice>>>,
    server: JoinHandle<()>,
}

impl Webhook {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, notices) = (listener.local_addr()?, Arc::default());
        let server = tokio::spawn(serve(listener, Arc::clone(&notices)));
        Ok(Self { address, notices, server })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// In the order in which they came.
    pub(super) fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Alerts of which the last notice says that they fire.
    pub(super) fn lasting(&self) -> Vec<Notice> {
        let last: BTreeMap<_, _> =
            self.notices().into_iter().map(|notice| (notice.labels.clone(), notice)).collect();
        last.into_values().filter(|notice| notice.fires).collect()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The part of Alertmanager's message that is looked at.
#[derive(Deserialize)]
struct Message {
    alerts: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    status: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl From<Alert> for Notice {
    fn from(Alert { status, labels, mut annotations }: Alert) -> Self {
        let runbook_url = annotations.remove("runbook_url").unwrap_or_default();
        Self { fires: status == "firing", labels, runbook_url }
    }
}

async fn serve(listener: TcpListener, notices: Arc<Mutex<Vec<Notice>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let notices = Arc::clone(&notices);
        let answer = service_fn(move |request| receive(request, Arc::clone(&notices)));
        // Alertmanager tells again what a broken connection lost.
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
        );
    }
}

async fn receive(
    request: Request<Incoming>,
    notices: Arc<Mutex<Vec<Notice>>>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut response = Response::new(Empty::new());
    match serde_json::from_slice::<Message>(&body) {
        Ok(message) => {
            let mut all = notices.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(message.alerts.into_iter().map(Notice::from));
        }
        Err(error) => {
            eprintln!("Alertmanager sent what is no message of alerts: {error}");
            *response.status_mut() = http::StatusCode::BAD_REQUEST;
        }
    }
    Ok(response)
}
