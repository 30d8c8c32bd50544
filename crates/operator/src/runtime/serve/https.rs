//! HTTPS with a certificate that is made at the start and nobody knows: who only listens on the wire sees no token. It does not show to whom one
//! talks, so a token for it should be good for nothing else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use quorate_model::Instant;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The name in the certificate.
const NAME: &str = "quorate-metrics";
/// Longer than any replica runs; a client that compares times accepts it, also with a clock that is a day behind.
const VALID: time::Duration = time::Duration::days(3650);
const BEFORE: time::Duration = time::Duration::days(1);
/// Prometheus waits no longer for all of a scrape.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many handshakes are under way at a time. What waits longer for its turn is the kernel's.
const MOST_HANDSHAKES: usize = 64;

/// The certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    /// There is no key or no certificate.
    #[error("cannot make a certificate for metrics")]
    Certificate(#[from] rcgen::Error),
    /// It cannot be served.
    #[error("cannot serve the certificate for metrics")]
    Tls(#[from] rustls::Error),
}

/// A certificate for this process.
pub struct SelfSigned {
    /// What it is served with.
    config: ServerConfig,
    /// The certificate, for who has a way to it.
    #[cfg(test)]
    pub(super) certificate: CertificateDer<'static>,
}

impl SelfSigned {
    /// One that is valid from about now on.
    pub fn new(now: Instant) -> Result<Self, SelfSignedError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::new([NAME.to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let now = OffsetDateTime::UNIX_EPOCH + time::Duration::milliseconds(now.0);
        (params.not_before, params.not_after) = (now - BEFORE, now + VALID);
        let certificate: CertificateDer<'static> = params.self_signed(&key)?.der().clone();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            config,
            #[cfg(test)]
            certificate,
        })
    }
}

/// A port that speaks HTTPS. One slow handshake holds up no other.
pub struct Https {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    handshakes: JoinSet<Option<(TlsStream<TcpStream>, SocketAddr)>>,
}

impl Https {
    /// HTTPS on this port.
    pub fn new(tcp: TcpListener, certificate: SelfSigned) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(certificate.config));
        Self { tcp, acceptor, handshakes: JoinSet::new() }
    }
}

impl Listener for Https {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            tokio::select! {
                (stream, from) = Listener::accept(&mut self.tcp), if self.handshakes.len() < MOST_HANDSHAKES => {
                    let acceptor = self.acceptor.clone();
                    self.handshakes.spawn(async move {
                        let shaken = timeout(HANDSHAKE, acceptor.accept(stream)).await;
                        // What does not speak TLS, or gives up, is its own fault.
                        shaken.ok()?.ok().map(|stream| (stream, from))
                    });
                }
                Some(done) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = done {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::runtime::clock::Clock;
    use crate::runtime::serve::serve;

    /// What is read after these bytes are written.
    async fn replied(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) -> String {
        let request = b"GET /metrics HTTP/1.1\r\nHost: metrics\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).await.unwrap();
        String::from_utf8_lossy(&reply).into_owned()
    }

    #[tokio::test]
    async fn it_speaks_tls_alone_and_waits_for_nobody() {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = tcp.local_addr().unwrap();
        let made = SelfSigned::new(Clock::system().now()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.certificate.clone()).unwrap();
        let router = Router::new().route("/metrics", get(async || "figures"));
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(Https::new(tcp, made), router, stop.clone()));

        // It never says hello.
        let silent = TcpStream::connect(at).await.unwrap();
        let plain = replied(TcpStream::connect(at).await.unwrap()).await;
        assert!(!plain.contains("figures"), "{plain}");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let stream = TcpStream::connect(at).await.unwrap();
        let stream = connector.connect(NAME.try_into().unwrap(), stream).await.unwrap();
        let reply = replied(stream).await;
        assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("figures"), "{reply}");
        drop(silent);
        stop.cancel();
        serving.await.unwrap();
    }
}
