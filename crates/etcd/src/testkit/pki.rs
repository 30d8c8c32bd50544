//! Certificates for tests.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::Tls;

/// An authority and a folder for what it signs.
pub struct Pki {
    ca: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
}

/// A certificate with its key, as files.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Pki {
    /// A new authority, its certificate written to `ca.crt` in `dir`.
    pub fn new(dir: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "etcd test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let ca = CertifiedIssuer::self_signed(params, new_key()).expect("a self-signed CA");
        fs::create_dir_all(dir).expect("the folder of the authority");
        let pki = Self { ca, dir: dir.to_owned() };
        fs::write(pki.ca_file(), pki.ca.pem()).expect("ca.crt is written");
        pki
    }

    /// The authority's certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Signs a certificate for server and client use, valid for these names, and writes it as `<stem>.crt` and
    /// `<stem>.key`.
    pub fn leaf(&self, stem: &str, names: &[&str]) -> Leaf {
        self.leaf_of(stem, stem, names)
    }

    /// The same, with another common name than the stem of its files.
    pub fn leaf_of(&self, common_name: &str, stem: &str, names: &[&str]) -> Leaf {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names fit for a certificate");
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = new_key();
        let cert = params.signed_by(&key, &self.ca).expect("a signed leaf");
        let leaf =
            Leaf { cert: self.dir.join(format!("{stem}.crt")), key: self.dir.join(format!("{stem}.key")) };
        fs::write(&leaf.cert, cert.pem()).expect("the certificate is written");
        fs::write(&leaf.key, key.serialize_pem()).expect("the key is written");
        leaf
    }

    /// What a client with this certificate needs to dial the server of that name.
    pub fn tls(&self, client: &Leaf, server_name: &str) -> Tls {
        let read = |path: &Path| fs::read(path).expect("a file written before");
        Tls {
            server_name: server_name.to_owned(),
            ca: read(&self.ca_file()),
            cert: read(&client.cert),
            key: read(&client.key),
        }
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("a key pair")
}
