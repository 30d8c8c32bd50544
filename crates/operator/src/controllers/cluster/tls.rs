//! Generates keys and certificates: one authority for each cluster and the leaves that it signs. Which of them are missing
//! is decided by `quorate_reconcile`; an existing Secret is never overwritten.

use quorate_manifests::certificate::Leaf;
use quorate_model::Instant;
use quorate_reconcile::KeyPair;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::{Duration, OffsetDateTime};

/// How long an authority is valid.
const AUTHORITY: Duration = Duration::days(3650);

/// How long a leaf is valid.
const LEAF: Duration = Duration::days(365);

/// A certificate is valid from this long before its creation, because clocks differ.
const BEFORE: Duration = Duration::minutes(10);

/// Why a certificate could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The authority in the Secret cannot be used.
    #[error("the authority cannot be used")]
    Authority(#[source] rcgen::Error),
    /// The leaf cannot be generated.
    #[error("the certificate {0} cannot be generated")]
    Leaf(String, #[source] rcgen::Error),
}

/// A new authority.
pub fn authority(common_name: &str, now: Instant) -> Result<KeyPair, IssueError> {
    let made = || {
        let key = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(common_name, &[], now, AUTHORITY)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(KeyPair { cert: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    };
    made().map_err(IssueError::Authority)
}

/// A new leaf, signed by this authority.
pub fn leaf(authority: &KeyPair, leaf: &Leaf, now: Instant) -> Result<KeyPair, IssueError> {
    let issuer = rcgen::KeyPair::from_pem(&authority.key)
        .and_then(|key| Issuer::from_ca_cert_pem(&authority.cert, key));
    let issuer = issuer.map_err(IssueError::Authority)?;
    let made = || {
        let key = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(&leaf.common_name, &leaf.names, now, LEAF)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        if leaf.server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if leaf.client {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        Ok(KeyPair { cert: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
    };
    made().map_err(|error| IssueError::Leaf(leaf.common_name.clone(), error))
}

fn params(
    common_name: &str,
    names: &[String],
    now: Instant,
    lasts: Duration,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    let now = OffsetDateTime::from_unix_timestamp(now.0 / 1000).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    params.not_before = now - BEFORE;
    params.not_after = now + lasts;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quorate_manifests::certificate::Certificate;
    use quorate_model::ClusterRef;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::server::WebPkiClientVerifier;

    use super::*;

    const NOW: Instant = Instant(1_800_000_000_000);

    struct Issued {
        roots: Arc<RootCertStore>,
        leaf: CertificateDer<'static>,
    }

    fn issued(kind: Certificate) -> Issued {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ca = authority("quorate-ca 1", NOW).unwrap();
        let desired = kind.leaf(&ClusterRef::new("default", "demo")).unwrap();
        let pair = leaf(&ca, &desired, NOW).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.cert.as_bytes()).unwrap()).unwrap();
        let leaf = CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap();
        Issued { roots: Arc::new(roots), leaf }
    }

    fn at(offset: i64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs((NOW.0 / 1000 + offset).cast_unsigned()))
    }

    impl Issued {
        fn serves(&self, name: &str, when: UnixTime) -> bool {
            let verifier = WebPkiServerVerifier::builder(self.roots.clone()).build().unwrap();
            let name = ServerName::try_from(name.to_owned()).unwrap();
            verifier.verify_server_cert(&self.leaf, &[], &name, &[], when).is_ok()
        }

        fn is_client(&self) -> bool {
            let verifier = WebPkiClientVerifier::builder(self.roots.clone()).build().unwrap();
            verifier.verify_client_cert(&self.leaf, &[], at(0)).is_ok()
        }
    }

    #[test]
    fn h42_a_server_certificate_is_valid_for_its_members_and_services_and_for_no_other_name() {
        let server = issued(Certificate::Server);
        for name in
            ["demo-7.demo.default.svc", "demo-client.default", "demo-client", "localhost", "127.0.0.1"]
        {
            assert!(server.serves(name, at(0)), "{name}");
        }
        assert!(!server.serves("demo-7.other.default.svc", at(0)));
        assert!(server.is_client(), "etcd uses it as a client of itself");
    }

    #[test]
    fn a_certificate_is_valid_from_shortly_before_it_was_issued_and_for_a_year() {
        let peer = issued(Certificate::Peer);
        let name = "demo-0.demo.default.svc";
        assert!(peer.serves(name, at(-300)) && peer.serves(name, at(364 * 86_400)));
        assert!(!peer.serves(name, at(-3600)) && !peer.serves(name, at(366 * 86_400)));
    }

    #[test]
    fn a_client_certificate_is_not_valid_for_a_server_or_under_another_authority() {
        let client = issued(Certificate::Client);
        assert!(client.is_client() && !client.serves("localhost", at(0)));
        let other = Issued { leaf: client.leaf, roots: issued(Certificate::Client).roots };
        assert!(!other.is_client());
    }
}
