//! What a TLS handshake shows of a process of etcd: the leaf that it presents, and the authorities that it lets clients of in.
//!
//! etcd reads its leaf again at every handshake, and the authorities that it trusts once per process (`baseConfig` and `ServerConfig`
//! in [client/pkg/transport/listener.go]). So what its files hold tells nothing of what it trusts; what it answers does. Go sends the
//! subjects of `ClientCAs` as the `certificate_authorities` of its CertificateRequest (crypto/tls, `handshake_server.go` and
//! `handshake_server_tls13.go`; [RFC 8446, 4.3.2] and [RFC 5246, 7.4.4]).
//!
//! [client/pkg/transport/listener.go]: https://github.com/etcd-io/etcd/blob/main/client/pkg/transport/listener.go
//! [RFC 8446, 4.3.2]: https://www.rfc-editor.org/rfc/rfc8446#section-4.3.2
//! [RFC 5246, 7.4.4]: https://www.rfc-editor.org/rfc/rfc5246#section-7.4.4

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::Transport;

/// What a server shows in a handshake, before it knows its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The leaf that the server presents, DER. The server has its key.
    pub leaf: Vec<u8>,
    /// The subjects (DER-encoded distinguished names, the outer `SEQUENCE` included) of the authorities whose clients it lets in, as
    /// its CertificateRequest names them. Empty if it asks for no certificate. Two authorities of the same subject are named twice,
    /// and cannot be told apart.
    pub trusted: Vec<Vec<u8>>,
}

/// Why the handshake showed nothing.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// It is neither a DNS name nor an address. Nothing was dialled.
    #[error("{0:?} is not the name of a server")]
    BadName(String),
    /// No TCP connection.
    #[error("cannot connect")]
    Connect(#[source] io::Error),
    /// The TLS handshake failed before the server had shown its leaf.
    #[error("TLS handshake failed")]
    Handshake(#[source] io::Error),
    /// The server closed the connection before it had shown its leaf.
    #[error("the server closed the connection during the TLS handshake; perhaps it does not speak TLS")]
    Closed,
    /// Connecting took too long.
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
    /// It was connected in time, and the handshake did not end.
    #[error("the TLS handshake did not end within {0:?}: etcd hangs, still starts, or does not speak TLS")]
    HandshakeTimedOut(Duration),
}

/// Learns what the server at this address shows, and hangs up. `timeout` covers all of it.
///
/// It accepts any certificate, because its purpose is to look at the certificate: what it returns is to be compared with what is
/// expected, and nothing is sent over the connection. Never use its connection for anything else. Only that the server has the key of
/// its leaf is verified.
///
/// It presents no certificate. A server that wants one refuses it, and logs that, when both things are learnt: that is no error. With
/// TLS 1.2 such a server has signed its key exchange only, so who can change what it sends can change `trusted`; with TLS 1.3 it has
/// signed both.
///
/// `server_name` is sent as SNI if it is a DNS name.
///
/// # Errors
///
/// Each says which act failed. With none of them anything was learnt.
pub async fn handshake(
    transport: &Transport,
    address: SocketAddr,
    server_name: &str,
    timeout: Duration,
) -> Result<Handshake, HandshakeError> {
    let name = ServerName::try_from(server_name.to_owned())
        .map_err(|_| HandshakeError::BadName(server_name.to_owned()))?;
    let seen = Arc::new(Seen::new());
    let connector = TlsConnector::from(Arc::new(config(&seen)));
    let is_connected = AtomicBool::new(false);
    let shown = tokio::time::timeout(timeout, async {
        let plain = transport.dial(address).await.map_err(HandshakeError::Connect)?;
        is_connected.store(true, Ordering::Relaxed);
        let ended = connector.connect(name, plain).await;
        let shown = seen.shown();
        match (ended, shown) {
            (Ok(_), Some(shown)) => Ok(shown),
            (Err(error), Some(shown)) if is_end_by_server(&error) => Ok(shown),
            (Ok(_), None) => Err(HandshakeError::Handshake(io::Error::other("it showed no certificate"))),
            (Err(error), _) => Err(match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => HandshakeError::Closed,
                _ => HandshakeError::Handshake(error),
            }),
        }
    });
    shown.await.map_err(|_| {
        if is_connected.load(Ordering::Relaxed) {
            HandshakeError::HandshakeTimedOut(timeout)
        } else {
            HandshakeError::TimedOut(timeout)
        }
    })?
}

fn config(seen: &Arc<Seen>) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(seen.provider.clone())
        .with_safe_default_protocol_versions()
        .expect("ring knows the default versions")
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_client_cert_resolver(seen.clone());
    // etcd's ports want h2; a peer may speak HTTP/1.1 only. Nothing is spoken.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A session that is resumed shows no certificate.
    config.resumption = Resumption::disabled();
    config
}

/// Whether the server has ended the handshake, with an alert or without. What else fails was found wrong here.
fn is_end_by_server(error: &io::Error) -> bool {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(error) => matches!(error, rustls::Error::AlertReceived(_)),
        None => matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        ),
    }
}

/// What the server has shown so far. It accepts any certificate, and presents none.
#[derive(Debug)]
struct Seen {
    provider: Arc<CryptoProvider>,
    leaf: OnceLock<Vec<u8>>,
    trusted: OnceLock<Vec<Vec<u8>>>,
}

impl Seen {
    fn new() -> Self {
        let provider = Arc::new(ring::default_provider());
        Self { provider, leaf: OnceLock::new(), trusted: OnceLock::new() }
    }

    /// Both, as soon as the leaf was seen: its signature is verified at the end of the server's flight (ServerHelloDone in TLS 1.2,
    /// CertificateVerify in TLS 1.3), and a CertificateRequest comes before that or never.
    fn shown(&self) -> Option<Handshake> {
        let leaf = self.leaf.get()?.clone();
        Some(Handshake { leaf, trusted: self.trusted.get().cloned().unwrap_or_default() })
    }

    fn note_leaf(&self, leaf: &CertificateDer<'_>) {
        // There is one in a handshake.
        let _ = self.leaf.set(leaf.to_vec());
    }
}

impl ServerCertVerifier for Seen {
    fn verify_server_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let valid = verify_tls12_signature(message, leaf, signature, algorithms)?;
        self.note_leaf(leaf);
        Ok(valid)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let valid = verify_tls13_signature(message, leaf, signature, algorithms)?;
        self.note_leaf(leaf);
        Ok(valid)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ResolvesClientCert for Seen {
    fn resolve(
        &self,
        root_hint_subjects: &[&[u8]],
        _sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        // There is one in a handshake.
        let _ = self.trusted.set(root_hint_subjects.iter().map(|subject| subject.to_vec()).collect());
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}
