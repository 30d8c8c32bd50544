//! The API over HTTPS for kubectl and the operator, with a CA of its own, one client certificate, and the kubeconfig.
//! Port and certificates stay the same in the same directory.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use quorate_localkube::ApiService;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::home::{Home, write_atomically};
use crate::ledger::Ledger;

/// The API cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// No port can be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// Certificates cannot be created.
    #[error("cannot create certificates for the API: {0}")]
    Certificates(#[from] rcgen::Error),
    /// Certificates cannot be read.
    #[error("cannot use the certificates in {0}; start with --fresh to create new ones")]
    Unusable(String),
    /// Files cannot be written.
    #[error("cannot write to the playground's directory: {0}")]
    Files(#[from] io::Error),
}

/// An API that listens but does not serve yet.
pub(crate) struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

struct Pki {
    ca: String,
    server: (String, String),
    client: (String, String),
}

impl Server {
    /// Opens the port and writes the kubeconfig.
    pub(crate) async fn bind(home: &Home, ledger: &Ledger) -> Result<Self, ServeError> {
        let pki = Pki::of(home)?;
        let listener = listen(ledger).await?;
        let port = listener.local_addr()?.port();
        write_atomically(&home.kubeconfig(), kubeconfig(&pki, port).as_bytes())?;
        let unusable = || ServeError::Unusable(home.pki().display().to_string());
        let acceptor = TlsAcceptor::from(Arc::new(pki.config().ok_or_else(unusable)?));
        Ok(Self { listener, acceptor })
    }

    /// Serves while this future is polled.
    pub(crate) async fn serve(self, service: ApiService) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = self.listener.accept().await else { continue };
            let (acceptor, service) = (self.acceptor.clone(), TowerToHyperService::new(service.clone()));
            connections.spawn(async move {
                let _ = stream.set_nodelay(true);
                // Connections without TLS or without our client certificate get no answer.
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let server = auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }
}

/// The earlier port, if it is free.
async fn listen(ledger: &Ledger) -> Result<TcpListener, ServeError> {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    if let Some(port) = ledger.api_port()
        && let Ok(listener) = TcpListener::bind(at(port)).await
    {
        return Ok(listener);
    }
    let listener = TcpListener::bind(at(0)).await;
    let listener = listener.map_err(|source| ServeError::Listen { address: at(0), source })?;
    ledger.keep_api_port(listener.local_addr()?.port());
    Ok(listener)
}

impl Pki {
    fn of(home: &Home) -> Result<Self, ServeError> {
        let read = |name: &str| fs::read_to_string(home.pki().join(name)).ok();
        let pair = |name: &str| Some((read(&format!("{name}.crt"))?, read(&format!("{name}.key"))?));
        if let (Some(ca), Some(server), Some(client)) = (read("ca.crt"), pair("server"), pair("client")) {
            return Ok(Self { ca, server, client });
        }
        let pki = Self::make()?;
        let files = [
            ("ca.crt", &pki.ca),
            ("server.crt", &pki.server.0),
            ("server.key", &pki.server.1),
            ("client.crt", &pki.client.0),
            ("client.key", &pki.client.1),
        ];
        for (name, content) in files {
            write_atomically(&home.pki().join(name), content.as_bytes())?;
        }
        Ok(pki)
    }

    fn make() -> Result<Self, rcgen::Error> {
        let mut ca = CertificateParams::default();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "quorate playground");
        let ca_key = KeyPair::generate()?;
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let issuer = Issuer::new(ca, ca_key);
        let leaf = |names: &[&str], common_name: &str, usage| -> Result<(String, String), rcgen::Error> {
            let mut params =
                CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())?;
            params.distinguished_name.push(DnType::CommonName, common_name);
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate()?;
            Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
        };
        let server = leaf(&["localhost", "127.0.0.1"], "localhost", ExtendedKeyUsagePurpose::ServerAuth)?;
        let client = leaf(&[], "admin", ExtendedKeyUsagePurpose::ClientAuth)?;
        Ok(Self { ca: ca_pem, server, client })
    }

    fn config(&self) -> Option<ServerConfig> {
        let certificates = |pem: &str| -> Option<Vec<_>> {
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().ok()
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(&self.ca)?);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().ok()?;
        let key = PrivateKeyDer::from_pem_slice(self.server.1.as_bytes()).ok()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .with_client_cert_verifier(clients)
            .with_single_cert(certificates(&self.server.0)?, key)
            .ok()?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Some(config)
    }
}

/// kubectl reads JSON as YAML.
fn kubeconfig(pki: &Pki, port: u16) -> String {
    let encoded = |pem: &str| STANDARD.encode(pem);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "playground",
        "clusters": [{"name": "playground", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": encoded(&pki.ca),
        }}],
        "contexts": [{"name": "playground", "context": {
            "cluster": "playground", "user": "admin", "namespace": "default",
        }}],
        "users": [{"name": "admin", "user": {
            "client-certificate-data": encoded(&pki.client.0), "client-key-data": encoded(&pki.client.1),
        }}],
    });
    format!("{config:#}\n")
}
