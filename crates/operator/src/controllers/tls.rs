//! Generates keys and certificates. What is generated, and for how long it is valid, is decided by `quorate_manifests`.

use quorate_manifests::certificate::{Generate, KeyAlgorithm, KeyPair, LeafContent, parsed, private_key};
use quorate_model::Instant;
use quorate_model::certificate::Validity;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData as _,
};
use time::OffsetDateTime;

/// Why a certificate could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The authority in the Secret cannot be used.
    #[error("the authority cannot be used")]
    Authority(#[source] rcgen::Error),
    /// The key beside the authority is that of another one: nobody would accept what it signs.
    #[error("the authority cannot be used: its tls.key is not the key of its tls.crt")]
    OtherKey,
    /// The leaf cannot be generated.
    #[error("the certificate {0} cannot be generated")]
    Leaf(String, #[source] rcgen::Error),
}

/// A new certificate.
pub fn generate(order: &Generate) -> Result<KeyPair, IssueError> {
    match order {
        Generate::Authority { common_name, validity } => authority(common_name, *validity),
        Generate::Leaf { authority, content } => leaf(authority, content),
    }
}

/// Bytes that nobody can guess.
pub(crate) fn random_key<const BYTES: usize>() -> [u8; BYTES] {
    let mut key = [0; BYTES];
    let source = rustls::crypto::ring::default_provider().secure_random;
    source.fill(&mut key).expect("the kernel has random numbers");
    key
}

/// Whether this key (PEM) is that of this certificate (PEM).
pub fn is_pair(cert: &[u8], key: &[u8]) -> bool {
    let (cert, key) = (String::from_utf8_lossy(cert), String::from_utf8_lossy(key));
    let own = rcgen::KeyPair::from_pem(&key).ok().map(|key| key.subject_public_key_info());
    own.is_some() && parsed::public_key(&cert) == own
}

fn authority(common_name: &str, validity: Validity) -> Result<KeyPair, IssueError> {
    let made = || {
        let key = rcgen::KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(common_name, &[], validity)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(KeyPair { cert: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    };
    made().map_err(IssueError::Authority)
}

fn leaf(authority: &KeyPair, content: &LeafContent) -> Result<KeyPair, IssueError> {
    // Somebody else may have made it, and written its key in another form.
    let key = private_key::to_pkcs8(&authority.key);
    let key =
        rcgen::KeyPair::from_pem(key.as_ref().unwrap_or(&authority.key)).map_err(IssueError::Authority)?;
    // A handshake shows names and key identifiers alone, by which this would go unnoticed.
    if parsed::public_key(&authority.cert) != Some(key.subject_public_key_info()) {
        return Err(IssueError::OtherKey);
    }
    let issuer = Issuer::from_ca_cert_pem(&authority.cert, key).map_err(IssueError::Authority)?;
    let made = || {
        let key = rcgen::KeyPair::generate_for(match content.key {
            KeyAlgorithm::EcdsaP256 => &PKCS_ECDSA_P256_SHA256,
            KeyAlgorithm::EcdsaP384 => &PKCS_ECDSA_P384_SHA384,
        })?;
        let mut params = params(&content.common_name, &content.names, content.validity)?;
        for organization in &content.organizations {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // By it the operator recognizes which authority signed a leaf.
        params.use_authority_key_identifier_extension = true;
        if content.server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        Ok(KeyPair { cert: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
    };
    made().map_err(|error| IssueError::Leaf(content.common_name.clone(), error))
}

fn params(
    common_name: &str,
    names: &[String],
    validity: Validity,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.not_before = date(validity.not_before);
    params.not_after = date(validity.not_after);
    params.distinguished_name = DistinguishedName::new();
    if !common_name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, common_name);
    }
    Ok(params)
}

fn date(at: Instant) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(at.0.div_euclid(1000)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use quorate_manifests::certificate::{common_name, names};
    use quorate_model::{ClusterRef, Leaf};
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

    fn issued(kind: Leaf) -> Issued {
        issued_for(kind, false)
    }

    fn issued_for(kind: Leaf, auth: bool) -> Issued {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let validity =
            Validity { not_before: Instant(NOW.0 - 600_000), not_after: Instant(NOW.0 + 365 * 86_400_000) };
        let ca = Generate::Authority { common_name: "quorate-ca 1".to_owned(), validity };
        let ca = generate(&ca).unwrap();
        let tls = quorate_api::cluster::TlsSpec::default();
        let content = LeafContent {
            common_name: common_name(kind, &tls, auth).to_owned(),
            organizations: Vec::new(),
            names: names(kind, &ClusterRef::new("default", "demo"), &tls),
            server: kind.is_of_server(),
            validity,
            key: if kind == Leaf::Peer { KeyAlgorithm::EcdsaP384 } else { KeyAlgorithm::EcdsaP256 },
        };
        let pair = generate(&Generate::Leaf { authority: ca.clone(), content }).unwrap();
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
        // With auth it has no subject at all.
        for server in [false, true].map(|auth| issued_for(Leaf::Server, auth)) {
            for name in
                ["demo-7.demo.default.svc", "demo-client.default", "demo-client", "localhost", "127.0.0.1"]
            {
                assert!(server.serves(name, at(0)), "{name}");
            }
            assert!(!server.serves("demo-7.other.default.svc", at(0)));
            assert!(server.is_client(), "etcd uses it as a client of itself");
        }
    }

    #[test]
    fn a_certificate_is_valid_within_its_dates_and_not_outside() {
        let peer = issued(Leaf::Peer);
        let name = "demo-0.demo.default.svc";
        assert!(peer.serves(name, at(-300)) && peer.serves(name, at(364 * 86_400)));
        assert!(!peer.serves(name, at(-3600)) && !peer.serves(name, at(366 * 86_400)));
    }

    #[test]
    fn a_key_is_told_from_that_of_another_certificate() {
        let validity = Validity { not_before: NOW, not_after: Instant(NOW.0 + 86_400_000) };
        let made =
            || generate(&Generate::Authority { common_name: "quorate-ca 1".to_owned(), validity }).unwrap();
        let (one, other) = (made(), made());
        assert!(is_pair(one.cert.as_bytes(), one.key.as_bytes()));
        assert!(!is_pair(one.cert.as_bytes(), other.key.as_bytes()));
        assert!(!is_pair(one.cert.as_bytes(), b"") && !is_pair(b"", one.key.as_bytes()));
    }

    #[test]
    fn an_authority_of_others_signs_whatever_form_its_key_has() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        for name in ["rsa-pkcs1", "rsa-pkcs8", "p256-sec1", "p384-pkcs8"] {
            let path = format!("{}/../manifests/tests/authorities/{name}.pem", env!("CARGO_MANIFEST_DIR"));
            let pem = std::fs::read_to_string(path).unwrap();
            let authority = KeyPair { cert: pem.clone(), key: pem };
            let validity =
                Validity { not_before: Instant(NOW.0 - 600_000), not_after: Instant(NOW.0 + 86_400_000) };
            let content = LeafContent {
                common_name: "quorate-server".to_owned(),
                organizations: Vec::new(),
                names: vec!["demo-client".to_owned()],
                server: true,
                validity,
                key: KeyAlgorithm::EcdsaP384,
            };
            let pair = generate(&Generate::Leaf { authority: authority.clone(), content }).expect(name);
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.cert.as_bytes()).unwrap()).unwrap();
            let leaf = CertificateDer::from_pem_slice(pair.cert.as_bytes()).unwrap();
            let issued = Issued { roots: Arc::new(roots), leaf };
            assert!(issued.serves("demo-client", at(0)) && issued.is_client(), "{name}");
        }
    }

    #[test]
    fn a_key_of_another_authority_signs_nothing() {
        let validity = Validity { not_before: NOW, not_after: Instant(NOW.0 + 86_400_000) };
        let ca =
            || generate(&Generate::Authority { common_name: "quorate-ca 1".to_owned(), validity }).unwrap();
        let mixed = KeyPair { cert: ca().cert, key: ca().key };
        let (common_name, organizations) = ("quorate-peer".to_owned(), Vec::new());
        let key = KeyAlgorithm::default();
        let content =
            LeafContent { common_name, organizations, names: Vec::new(), server: true, validity, key };
        let refused = generate(&Generate::Leaf { authority: mixed, content });
        assert!(matches!(refused, Err(IssueError::OtherKey)));
    }

    #[test]
    fn a_client_certificate_is_not_valid_for_a_server_or_under_another_authority() {
        let client = issued(Leaf::Client);
        assert!(client.is_client() && !client.serves("localhost", at(0)));
        let other = Issued { leaf: client.leaf, roots: issued(Leaf::Client).roots };
        assert!(!other.is_client());
    }
}
