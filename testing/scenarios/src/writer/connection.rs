//! One HTTP/2 connection to one address, as gRPC's client for Go makes it: with the keepalive of a kube-apiserver, and given up
//! for new calls as soon as the server says that it stops.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use quorate_etcd::Tls;
use quorate_etcd::wire::kv_client::KvClient;
use quorate_etcd::wire::watch_client::WatchClient;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::body::Body;

/// What a kube-apiserver sets.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// gRPC waits 20 s. Here the address may be that of a Pod that is gone, which a client learns from its API sooner than a real
/// one learns it from DNS.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// A connection that accepts calls.
#[derive(Clone)]
pub(super) struct Connection {
    sender: Sender,
    origin: Uri,
}

/// The side of a connection that sends requests.
#[derive(Clone)]
pub(super) struct Sender(SendRequest<Body>);

/// Drives the connection; ends when the server closes it, or announces that it will.
pub(super) type Closed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Connection {
    /// Connects.
    pub(super) async fn open(address: SocketAddr, tls: Option<&Tls>) -> Result<(Self, Closed)> {
        let opened = async {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            let Some(tls) = tls else { return handshake(tcp).await };
            let name = ServerName::try_from(tls.server_name.clone())?;
            handshake(connector(tls)?.connect(name, tcp).await?).await
        };
        let (sender, closed) =
            tokio::time::timeout(HANDSHAKE, opened).await.context("no connection in time")??;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{address}").parse()?;
        Ok((Self { sender: Sender(sender), origin }, closed))
    }

    /// Keys.
    pub(super) fn kv(&self) -> KvClient<Sender> {
        KvClient::with_origin(self.sender.clone(), self.origin.clone())
    }

    /// Watches.
    pub(super) fn watch(&self) -> WatchClient<Sender> {
        WatchClient::with_origin(self.sender.clone(), self.origin.clone())
    }
}

impl tower::Service<Request<Body>> for Sender {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        // tonic would hide the reason; a call on a closed connection has it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<(SendRequest<Body>, Closed)> {
    let (interval, timeout) = KEEPALIVE;
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(interval)
        .keep_alive_timeout(timeout)
        .handshake(TokioIo::new(stream))
        .await?;
    Ok((sender, Box::pin(async move { drop(connection.await) })))
}

fn connector(tls: &Tls) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&tls.ca).filter_map(Result::ok));
    let chain = CertificateDer::pem_slice_iter(&tls.cert).collect::<Result<Vec<_>, _>>()?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&tls.key)?)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
