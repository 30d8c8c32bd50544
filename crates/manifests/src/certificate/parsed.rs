//! What is needed of an X.509 certificate, and the certificates in the entries of Secrets.

use std::net::{Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1::Secret;
use quorate_model::certificate::Validity;
use quorate_model::snapshot::{Authority, LeafCertificate};
use quorate_model::{Fingerprint, Instant};
use sha2::{Digest as _, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_NAME_CONSTRAINTS, OID_X509_EXT_SUBJECT_KEY_IDENTIFIER, Oid,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use super::kinds::{entry, is_minted};

/// The first certificate in an entry of a Secret.
pub(super) fn one(secret: &Secret, key: &str) -> Result<Parsed, String> {
    certificates(secret, key)?.into_iter().next().ok_or_else(|| format!("{key} has no certificate"))
}

/// The public key (`SubjectPublicKeyInfo`, DER) of the first certificate in a PEM, if it can be read.
pub fn public_key(pem: &str) -> Option<Vec<u8>> {
    let block = Pem::iter_from_buffer(pem.as_bytes()).next()?.ok()?;
    let (_, certificate) = X509Certificate::from_der(&block.contents).ok()?;
    Some(certificate.public_key().raw.to_vec())
}

/// The fingerprint of a certificate (DER).
pub fn fingerprint(der: &[u8]) -> Fingerprint {
    Fingerprint::new(hex(&Sha256::digest(der)))
}

/// A certificate (DER), if it can be read.
pub(super) fn parse_der(der: &[u8]) -> Option<Parsed> {
    X509Certificate::from_der(der).ok().map(|(_, certificate)| parse(der, &certificate))
}

/// A certificate (DER) as PEM.
pub(super) fn pem_of(der: &[u8]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", der), lines)
}

/// What is needed of a certificate.
#[derive(Clone)]
pub(super) struct Parsed {
    pub(super) der: Vec<u8>,
    pub(super) fingerprint: Fingerprint,
    pub(super) validity: Validity,
    pub(super) is_authority: bool,
    pub(super) subject: Vec<u8>,
    /// `SubjectPublicKeyInfo` (DER).
    pub(super) public_key: Vec<u8>,
    issuer: Vec<u8>,
    pub(super) own_key: Option<Vec<u8>>,
    key_of_issuer: Option<Vec<u8>>,
    /// The last one in the subject, as Go reads it.
    pub(super) common_name: String,
    pub(super) names: Vec<String>,
    /// It, or what it signs, is valid for a server: by its extended usage, or since it has none.
    pub(super) server: bool,
    /// For a client.
    pub(super) client: bool,
    /// It may sign, by its key usage, or since it has none.
    pub(super) signs_certificates: bool,
    pub(super) has_name_constraints: bool,
    /// A critical extension that a verifier of authorities need not know.
    pub(super) critical: Option<String>,
}

impl Parsed {
    /// As a leaf that nobody mounts as it is: what is beside it does not count.
    pub(super) fn into_leaf(self, signer: Option<&Self>) -> LeafCertificate {
        LeafCertificate {
            fingerprint: self.fingerprint,
            validity: self.validity,
            signed_by: signer.map(|known| known.fingerprint.clone()),
            trusted: Vec::new(),
            lacks: Vec::new(),
            trust: 0,
            misnamed: None,
        }
    }

    /// As an authority.
    pub(super) fn into_authority(self, keyless: bool) -> Authority {
        let minted = is_minted(&self.common_name);
        let certificate = pem_of(&self.der);
        Authority { fingerprint: self.fingerprint, certificate, validity: self.validity, minted, keyless }
    }

    /// By name and by key identifier, both of which the operator writes. A signature needs no check here: whoever can write
    /// this Secret can replace the authority, too.
    pub(super) fn is_signed_by(&self, authority: &Self) -> bool {
        authority.is_authority
            && self.issuer == authority.subject
            && self.key_of_issuer.is_some()
            && self.key_of_issuer == authority.own_key
    }
}

/// The certificates in an entry of a Secret.
pub(super) fn certificates(secret: &Secret, key: &str) -> Result<Vec<Parsed>, String> {
    let pem = entry(secret, key).ok_or_else(|| format!("it has no {key}"))?;
    let unreadable = |why: &dyn std::fmt::Display| format!("{key} is not readable: {why}");
    let mut all = Vec::new();
    for block in Pem::iter_from_buffer(pem) {
        let block = block.map_err(|error| unreadable(&error))?;
        if block.label != "CERTIFICATE" {
            continue;
        }
        let (_, certificate) =
            X509Certificate::from_der(&block.contents).map_err(|error| unreadable(&error))?;
        all.push(parse(&block.contents, &certificate));
    }
    if all.is_empty() { Err(format!("{key} has no certificate")) } else { Ok(all) }
}

/// Extensions that every verifier knows in the certificate of an authority.
const KNOWN: [Oid<'static>; 5] = [
    OID_X509_EXT_BASIC_CONSTRAINTS,
    OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_EXTENDED_KEY_USAGE,
    OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
    OID_X509_EXT_NAME_CONSTRAINTS,
];

fn parse(der: &[u8], certificate: &X509Certificate<'_>) -> Parsed {
    let mut parsed = Parsed {
        der: der.to_vec(),
        public_key: certificate.public_key().raw.to_vec(),
        server: true,
        client: true,
        signs_certificates: true,
        has_name_constraints: false,
        critical: None,
        fingerprint: fingerprint(der),
        validity: Validity {
            not_before: Instant(certificate.validity().not_before.timestamp().saturating_mul(1000)),
            not_after: Instant(certificate.validity().not_after.timestamp().saturating_mul(1000)),
        },
        is_authority: certificate.is_ca(),
        subject: certificate.subject().as_raw().to_vec(),
        issuer: certificate.issuer().as_raw().to_vec(),
        own_key: None,
        key_of_issuer: None,
        common_name: certificate
            .subject()
            .iter_common_name()
            .last()
            .and_then(|name| name.as_str().ok())
            .unwrap_or_default()
            .to_owned(),
        names: Vec::new(),
    };
    for extension in certificate.iter_extensions() {
        if extension.critical && !KNOWN.contains(&extension.oid) {
            parsed.critical = Some(extension.oid.to_string());
        }
        let extension = extension.parsed_extension();
        if let ParsedExtension::SubjectKeyIdentifier(key) = extension {
            parsed.own_key = Some(key.0.to_vec());
        } else if let ParsedExtension::AuthorityKeyIdentifier(authority) = extension {
            parsed.key_of_issuer = authority.key_identifier.as_ref().map(|key| key.0.to_vec());
        } else if let ParsedExtension::ExtendedKeyUsage(usage) = extension {
            parsed.server = usage.any || usage.server_auth;
            parsed.client = usage.any || usage.client_auth;
        } else if let ParsedExtension::KeyUsage(usage) = extension {
            parsed.signs_certificates = usage.key_cert_sign();
        } else if let ParsedExtension::NameConstraints(_) = extension {
            parsed.has_name_constraints = true;
        } else if let ParsedExtension::SubjectAlternativeName(names) = extension {
            parsed.names = names.general_names.iter().filter_map(name).collect();
        }
    }
    parsed
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    if let GeneralName::DNSName(name) = name {
        return Some((*name).to_owned());
    }
    let GeneralName::IPAddress(bytes) = name else { return None };
    let v4 = <[u8; 4]>::try_from(*bytes).map(|bytes| Ipv4Addr::from(bytes).to_string());
    let v6 = <[u8; 16]>::try_from(*bytes).map(|bytes| Ipv6Addr::from(bytes).to_string());
    v4.or(v6).ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
