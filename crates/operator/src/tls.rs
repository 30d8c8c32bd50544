//! Certificates: one authority for each cluster and the leaves it signs. Made once, where they are missing; what is there
//! is never overwritten, so that a crash between two Secrets only leaves the rest to be made, by the authority that
//! is there already.

use quorate_manifests::certificate::{self, Leaf};
use quorate_model::Instant;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use time::{Duration, OffsetDateTime};

/// How long an authority is valid.
const AUTHORITY: Duration = Duration::days(3650);

/// How long a leaf is valid.
const LEAF: Duration = Duration::days(365);

/// Clocks differ: a certificate is valid from a little before it was made.
const BEFORE: Duration = Duration::minutes(10);

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
}

impl Pair {
    /// As it is put into a Secret.
    pub fn borrowed(&self) -> certificate::Pair<'_> {
        certificate::Pair { cert: &self.cert, key: &self.key }
    }
}

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The authority in the Secret can not be used.
    #[error("the authority can not be used")]
    Authority(#[source] rcgen::Error),
    /// The leaf can not be made.
    #[error("the certificate {0} can not be made")]
    Leaf(String, #[source] rcgen::Error),
}

/// A new authority.
pub fn authority(common_name: &str, now: Instant) -> Result<Pair, IssueError> {
    let made = || {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(common_name, &[], now, AUTHORITY)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Pair { cert: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
    };
    made().map_err(IssueError::Authority)
}

/// A new leaf, signed by this authority.
pub fn leaf(authority: &Pair, leaf: &Leaf, now: Instant) -> Result<Pair, IssueError> {
    let issuer =
        KeyPair::from_pem(&authority.key).and_then(|key| Issuer::from_ca_cert_pem(&authority.cert, key));
    let issuer = issuer.map_err(IssueError::Authority)?;
    let made = || {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = params(&leaf.common_name, &leaf.names, now, LEAF)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        if leaf.server {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        if leaf.client {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        Ok(Pair { cert: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
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
