//! The certificate with which a restore test reads an etcd with auth. etcd takes a client whose certificate has the common name `root` for its
//! user `root`, and where auth is enabled that user exists, with all rights.

use std::path::{Path, PathBuf};

use quorate_api::job::{Failure, FailureKind};
use quorate_etcd::Tls;
use rcgen::{CertificateParams, DnType, KeyPair};

use crate::Result;
use crate::spool::cannot_write;

/// The user who may read all keys.
const ROOT: &str = "root";

/// A certificate that is its own authority, of the etcd of a test and of its client.
#[derive(Debug)]
pub(crate) struct Root {
    cert: PathBuf,
    key: PathBuf,
    tls: Tls,
}

impl Root {
    /// Generates it for a server at this address, and writes it into a directory that is there.
    pub(crate) async fn generate(address: &str, dir: &Path) -> Result<Self> {
        let (cert, key) = pair(address).map_err(|error| {
            Failure::new(
                FailureKind::Unfit,
                format!("the certificate of the test cannot be generated: {error}"),
            )
        })?;
        let root = Self {
            cert: dir.join("root.crt"),
            key: dir.join("root.key"),
            tls: Tls {
                server_name: address.to_owned(),
                ca: cert.clone().into_bytes(),
                cert: cert.into_bytes(),
                key: key.into_bytes(),
            },
        };
        for (path, pem) in [(&root.cert, &root.tls.cert), (&root.key, &root.tls.key)] {
            tokio::fs::write(path, pem).await.map_err(|error| cannot_write(path, &error))?;
        }
        Ok(root)
    }

    /// etcd's flags: it serves with the certificate, and only to clients that have it.
    pub(crate) fn flags(&self) -> [String; 4] {
        let (cert, key) = (self.cert.display(), self.key.display());
        [
            format!("--cert-file={cert}"),
            format!("--key-file={key}"),
            format!("--trusted-ca-file={cert}"),
            "--client-cert-auth".to_owned(),
        ]
    }

    /// How its client connects.
    pub(crate) fn tls(&self) -> Tls {
        self.tls.clone()
    }
}

/// A certificate and its key, as PEM.
fn pair(address: &str) -> std::result::Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new([address.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, ROOT);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}
