//! Connects to members. tonic's connector lacks two things: it does not report why a server rejected our certificate, and
//! its timeout does not cover the TLS handshake.

mod verdict;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Uri};

use crate::{BadEndpoint, Deadlines, Endpoint, Stream, Tls, Transport};
pub(crate) use verdict::Verdict;
use verdict::VerdictStream;

/// Dials one valid endpoint.
#[derive(Clone)]
pub(crate) struct Dialler {
    transport: Transport,
    address: SocketAddr,
    timeout: Duration,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// A channel that connects on its first call, and the verdict of the server on our certificate.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    pub(crate) verdict: Verdict,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// No TCP connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The TLS handshake failed.
    #[error("TLS handshake failed")]
    Handshake(#[source] io::Error),
    /// The server closed the connection during the handshake.
    #[error("the server closed the connection during the TLS handshake; perhaps it does not speak TLS")]
    Closed,
    /// Connecting took too long.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// It was connected in time, and the handshake did not end.
    #[error("the TLS handshake did not end within {0:?}: etcd hangs, still starts, or does not speak TLS")]
    HandshakeTimedOut(Duration),
    /// It is not a gRPC server.
    #[error("the server does not speak HTTP/2")]
    NotHttp2,
}

impl Dialler {
    pub(crate) fn new(
        transport: Transport,
        endpoint: &Endpoint,
        deadlines: Deadlines,
    ) -> Result<Self, BadEndpoint> {
        let tls = endpoint.tls.as_ref().map(connector).transpose()?;
        Ok(Self { transport, address: endpoint.address, timeout: deadlines.connect, tls })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn connection(&self) -> Connection {
        // http for tonic, because our connector does TLS. Requests carry the origin.
        let uri =
            |scheme| Uri::try_from(format!("{scheme}://{}", self.address)).expect("an address makes a URI");
        let origin = uri(if self.tls.is_some() { "https" } else { "http" });
        let endpoint = Channel::builder(uri("http")).origin(origin);
        let verdict = Verdict::default();
        let (dialler, noted) = (self.clone(), verdict.clone());
        let connect = tower::service_fn(move |_: Uri| {
            let (dialler, noted) = (dialler.clone(), noted.clone());
            async move { dialler.connect(noted).await.map(TokioIo::new) }
        });
        Connection { channel: endpoint.connect_with_connector_lazy(connect), verdict }
    }

    async fn connect(&self, verdict: Verdict) -> Result<Stream, DialError> {
        verdict.reset();
        let is_connected = AtomicBool::new(false);
        let connection = tokio::time::timeout(self.timeout, async {
            let plain = self.transport.dial(self.address).await.map_err(DialError::Connect)?;
            let Some((connector, name)) = &self.tls else { return Ok(plain) };
            is_connected.store(true, Ordering::Relaxed);
            let tls = connector.connect(name.clone(), plain).await.map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => DialError::Closed,
                _ => DialError::Handshake(error),
            })?;
            if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(DialError::NotHttp2);
            }
            Ok(Box::new(VerdictStream::new(tls, verdict)) as Stream)
        });
        connection.await.map_err(|_| {
            if is_connected.load(Ordering::Relaxed) {
                DialError::HandshakeTimedOut(self.timeout)
            } else {
                DialError::TimedOut(self.timeout)
            }
        })?
    }
}

fn connector(tls: &Tls) -> Result<(TlsConnector, ServerName<'static>), BadEndpoint> {
    let bad = |error: &dyn std::error::Error| BadEndpoint::Tls(error.to_string());
    let name = ServerName::try_from(tls.server_name.clone()).map_err(|error| bad(&error))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&tls.ca).filter_map(Result::ok));
    if roots.is_empty() {
        return Err(BadEndpoint::NoCa);
    }
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&tls.cert).collect::<Result<_, _>>().map_err(|error| bad(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&tls.key).map_err(|error| bad(&error))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring knows the default versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| bad(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((TlsConnector::from(Arc::new(config)), name))
}
