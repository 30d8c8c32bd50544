//! Whether a certificate that somebody else issued is one that the operator and the agents accept from a member. etcd, in Go, knows more
//! algorithms than they do: what it takes and they refuse would leave every member out of reach, so it is not copied.
//!
//! A simulation has certificates without signatures, so [`Defaults`](crate::Defaults) say who verifies.

use std::sync::Arc;
use std::time::Duration;

use quorate_model::Instant;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, Error, OtherError, RootCertStore};

/// A leaf as it is presented in a handshake.
#[derive(Clone, Copy, Debug)]
pub struct Presented<'a> {
    /// The certificate (DER).
    pub cert: &'a [u8],
    /// The names that a server has to be valid for. A client has none.
    pub names: &'a [String],
    /// It is that of a server, too.
    pub server: bool,
    /// The time by which it is judged, which is its first: the planner asks for its dates.
    pub at: Instant,
}

/// What verifies.
type Verify = fn(signer: &[u8], leaf: Option<Presented<'_>>) -> Result<(), String>;

/// Who verifies certificates of others.
#[derive(Clone, Copy)]
pub struct Verifier(Verify);

impl Verifier {
    /// Another one than that of the operator and the agents.
    pub const fn new(verify: Verify) -> Self {
        Self(verify)
    }

    /// Whether this leaf is accepted where this authority (DER) is trusted; of no leaf, whether the authority can be trusted at all.
    pub fn judge(self, signer: &[u8], leaf: Option<Presented<'_>>) -> Result<(), String> {
        (self.0)(signer, leaf)
    }
}

/// That of the operator and the agents.
impl Default for Verifier {
    fn default() -> Self {
        Self(by_rustls)
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier")
    }
}

impl PartialEq for Verifier {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Verifier {}

/// As the operator and the agents do: by rustls with ring.
fn by_rustls(signer: &[u8], leaf: Option<Presented<'_>>) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    let added = roots.add(CertificateDer::from(signer));
    added.map_err(|error| format!("the authority that signs cannot be trusted: {}", words(&error)))?;
    leaf.map_or(Ok(()), |leaf| verify(leaf, roots).map_err(|error| words(&error)))
}

fn verify(leaf: Presented<'_>, roots: RootCertStore) -> Result<(), Error> {
    let cert = CertificateDer::from(leaf.cert);
    let at = UnixTime::since_unix_epoch(Duration::from_millis(leaf.at.0.try_into().unwrap_or_default()));
    let provider = ring::default_provider();
    if leaf.server {
        let parsed = ParsedCertificate::try_from(&cert)?;
        let known = provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], at, known)?;
        for name in leaf.names {
            // Nobody asks for a name that rustls does not know as one.
            if let Ok(name) = ServerName::try_from(name.replacen('*', "any", 1)) {
                verify_server_name(&parsed, &name)?;
            }
        }
    }
    let client = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider)).build();
    let client = client.map_err(|error| Error::General(error.to_string()))?;
    client.verify_client_cert(&cert, &[], at).map(drop)
}

/// What the verifier says, and what to do.
fn words(error: &Error) -> String {
    let Error::InvalidCertificate(why) = error else { return error.to_string() };
    let advice = match why {
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            return "the operator and its agents do not know the algorithm of its signature, though etcd may. Have it signed by a key of RSA (2048 to 8192 \
                    bits), by one on P-256 or P-384 with SHA-256 or SHA-384, or by one of Ed25519"
                .to_owned();
        }
        CertificateError::BadSignature => {
            "The authority in ca.crt has another key than the one that signed it, or one of RSA of fewer than 2048 bits"
        }
        CertificateError::InvalidPurposeContext { .. } => {
            "Have it issued with the extended key usages that it lacks: a server's needs both, since a member asks itself, too"
        }
        CertificateError::BadEncoding => "Issue it anew with another tool",
        CertificateError::Other(OtherError(why)) => {
            return match why.to_string().as_str() {
                "NameConstraintViolation" => "NameConstraintViolation: the nameConstraints of the authority do not admit every name that it needs. Have it \
                     issued by another authority"
                    .to_owned(),
                why => format!("the operator and its agents refuse it: {why}. Have it issued without that"),
            };
        }
        _ => "Have it issued anew",
    };
    format!("the operator and its agents refuse it: {why}. {advice}")
}
