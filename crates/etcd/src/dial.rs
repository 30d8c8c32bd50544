//! Connects to members. tonic's connector lacks two things: it does not report why a server rejected our certificate, and
//! its timeout does not cover the TLS handshake.

mod verdict;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Uri};

use crate::{BadEndpoint, Deadlines, Endpoint, Stream, Transport};
pub(crate) use verdict::Verdict;
use verdict::VerdictStream;

/// For how many sessions the connections of a cluster have room. rustls keeps up to eight of each server, so these are the members of a cluster of seven.
const SESSIONS: usize = 8 * 7;

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
        let tls = match &endpoint.tls {
            Some(tls) => {
                let config = Arc::new(config(&tls.ca, &tls.cert, &tls.key)?);
                Some((TlsConnector::from(config), name(&tls.server_name)?))
            }
            None => None,
        };
        Ok(Self { transport, address: endpoint.address, timeout: deadlines.connect, tls })
    }

    /// The same with a configuration that others share.
    pub(crate) fn sharing(
        transport: Transport,
        address: SocketAddr,
        deadlines: Deadlines,
        (tls, server_name): (&TlsConfig, &str),
    ) -> Result<Self, BadEndpoint> {
        let tls = Some((TlsConnector::from(tls.0.clone()), name(server_name)?));
        Ok(Self { transport, address, timeout: deadlines.connect, tls })
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

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ring::default_provider()));

/// What the connections to all members of a cluster have in common: the authorities that are trusted, our own certificate and its key, and the
/// sessions of connections that were closed. The next connection to the same process of etcd resumes its session, so neither side verifies or signs
/// anything. A process that started since, and another certificate of ours, begin anew.
#[derive(Clone, Debug)]
pub struct TlsConfig(Arc<ClientConfig>);

impl TlsConfig {
    /// All of it as PEM.
    pub fn new(ca: &[u8], cert: &[u8], key: &[u8]) -> Result<Self, BadEndpoint> {
        let mut config = config(ca, cert, key)?;
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Ok(Self(Arc::new(config)))
    }
}

fn name(server_name: &str) -> Result<ServerName<'static>, BadEndpoint> {
    ServerName::try_from(server_name.to_owned()).map_err(|error| BadEndpoint::Tls(error.to_string()))
}

fn config(ca: &[u8], cert: &[u8], key: &[u8]) -> Result<ClientConfig, BadEndpoint> {
    let bad = |error: &dyn std::error::Error| BadEndpoint::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(ca).filter_map(Result::ok));
    if roots.is_empty() {
        return Err(BadEndpoint::NoCa);
    }
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(cert).collect::<Result<_, _>>().map_err(|error| bad(&error))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| bad(&error))?;
    let mut config = ClientConfig::builder_with_provider(PROVIDER.clone())
        .with_safe_default_protocol_versions()
        .expect("ring knows the default versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| bad(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}
