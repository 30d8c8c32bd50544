//! From the Secrets with certificates to what decisions need of them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quorate_api::cluster::TlsSpec;
use quorate_api::keys;
use quorate_model::certificate::Validity;
use quorate_model::snapshot::{Authority, AuthoritySecret, Certificates, LeafCertificate, LeafSecret};
use quorate_model::{Ca, ClusterRef, ClusterUid, Fingerprint, Instant, Leaf};
use sha2::{Digest as _, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{
    OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_EXTENDED_KEY_USAGE, OID_X509_EXT_KEY_USAGE,
    OID_X509_EXT_NAME_CONSTRAINTS, OID_X509_EXT_SUBJECT_KEY_IDENTIFIER, Oid,
};
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use super::given::staged;
use super::rotation::{self, Place};
use super::{CA, CERT, Certificate, KEY, PEER_NAME, ROOT_USER, entry};
use crate::kind::Kind;
use crate::{diff, labels};

/// The certificates of the cluster's own that exist among these Secrets. That of the operator only where etcd's `auth` is wanted or on: one of before is not kept up.
pub fn read(
    secrets: &[&Secret],
    at: &ClusterRef,
    uid: &ClusterUid,
    tls: &TlsSpec,
    auth: bool,
    nameless: bool,
) -> Certificates {
    let named = |certificate: Certificate| {
        let name = certificate.secret_name(at);
        secrets.iter().copied().find(move |secret| secret.metadata.name.as_ref() == Some(&name))
    };
    let authority = |ca: Ca| {
        let secret = named(ca.into()).filter(|secret| is_authority_of(&secret.metadata, at, uid))?;
        Some((ca, secret))
    };
    let authorities: Vec<(Ca, &Secret)> = Ca::ALL.into_iter().filter_map(authority).collect();
    let places = authorities
        .iter()
        .flat_map(|(_, secret)| rotation::PLACES.map(|place| (secret, rotation::entries_at(place).0)));
    let signers: Vec<Parsed> = places.filter_map(|(secret, cert)| one(secret, cert).ok()).collect();
    let is_keyless = authorities.iter().any(|(_, secret)| {
        rotation::PLACES.iter().any(|place| rotation::is_keyless(secret, rotation::entries_at(*place).1))
    });
    let leaf = |leaf: Leaf| {
        let secret = named(leaf.into()).filter(|secret| labels::is_owned_by(&secret.metadata, uid))?;
        // One that cannot be signed here keeps its name.
        let nameless = nameless && leaf == Leaf::Server && super::given_name(tls).is_none() && !is_keyless;
        let misnamed = |name: &str| is_misnamed(name, leaf) || (nameless && !name.is_empty());
        Some((leaf, leaf_secret(secret, misnamed, &super::names(leaf, at, tls), &signers)))
    };
    let name = |ca: Ca| (ca, Kind::Secret.called(&at.namespace, &Certificate::from(ca).secret_name(at)));
    Certificates {
        authority_names: Ca::ALL.into_iter().map(name).collect(),
        authorities: authorities.iter().map(|(ca, secret)| (*ca, authority_secret(secret, uid))).collect(),
        leaves: Leaf::of_cluster(auth).filter_map(leaf).collect::<BTreeMap<_, _>>(),
        given: None,
    }
}

/// Whether a Secret of such a name is an authority of this cluster, or of an earlier incarnation that may be adopted. It has
/// the label of the cluster, and no controller but this EtcdCluster.
pub fn is_authority_of(meta: &ObjectMeta, at: &ClusterRef, uid: &ClusterUid) -> bool {
    let is_labelled = meta.labels.as_ref().and_then(|labels| labels.get(keys::CLUSTER)) == Some(&at.name);
    let is_controlled = meta.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    labels::is_owned_by(meta, uid) || (is_labelled && !is_controlled)
}

/// The incarnation whose authority this is.
pub(crate) fn incarnation_of(meta: &ObjectMeta, uid: &ClusterUid) -> Option<ClusterUid> {
    if labels::is_owned_by(meta, uid) {
        return Some(uid.clone());
    }
    let annotations = meta.annotations.as_ref();
    annotations.and_then(|all| all.get(keys::CLUSTER_UID)).map(ClusterUid::new)
}

fn authority_secret(secret: &Secret, uid: &ClusterUid) -> AuthoritySecret {
    AuthoritySecret {
        observed: diff::observed(&secret.metadata),
        incarnation: incarnation_of(&secret.metadata, uid),
        owned: secret.metadata.owner_references.iter().flatten().next().is_some(),
        content: authority(secret),
        next: rotation::at(secret, Place::Next),
        staged: staged::leaves().filter_map(|leaf| Some((leaf, staged_leaf(secret, leaf)?))).collect(),
    }
}

fn authority(secret: &Secret) -> Result<Authority, String> {
    has_key(secret)?;
    let first = one(secret, CERT)?;
    if !first.is_authority {
        return Err(format!("the certificate in {CERT} is not one of an authority"));
    }
    Ok(first.into_authority(rotation::is_keyless(secret, KEY)))
}

/// A leaf that came with one of the authorities in its Secret. What it is good for was looked at before it was copied.
fn staged_leaf(secret: &Secret, leaf: Leaf) -> Option<LeafCertificate> {
    let (cert, key) = staged::entries_of(leaf);
    entry(secret, &key)?;
    let own = one(secret, &cert).ok()?;
    let authorities = rotation::PLACES.map(|place| one(secret, rotation::entries_at(place).0).ok());
    let signer = authorities.iter().flatten().find(|known| own.is_signed_by(known));
    Some(own.into_leaf(signer))
}

fn leaf_secret(
    secret: &Secret,
    misnamed: impl Fn(&str) -> bool,
    names: &[String],
    signers: &[Parsed],
) -> LeafSecret {
    let content = leaf_certificate(secret, misnamed, names, signers);
    LeafSecret { observed: diff::observed(&secret.metadata), content }
}

/// The leaf in the Secret of a user, which has this common name.
pub(crate) fn leaf_of_user(secret: &Secret, common_name: &str) -> LeafSecret {
    let content = leaf_certificate(secret, |name| name != common_name, &[], &[]);
    LeafSecret { observed: diff::observed(&secret.metadata), content }
}

fn leaf_certificate(
    secret: &Secret,
    misnamed: impl Fn(&str) -> bool,
    names: &[String],
    signers: &[Parsed],
) -> Result<LeafCertificate, String> {
    has_key(secret)?;
    let (own, trusted) = (one(secret, CERT)?, certificates(secret, CA)?);
    let mut known = trusted.iter().chain(signers);
    let signed_by = known.find(|known| own.is_signed_by(known));
    Ok(LeafCertificate {
        fingerprint: own.fingerprint.clone(),
        validity: own.validity,
        signed_by: signed_by.map(|known| known.fingerprint.clone()),
        lacks: names.iter().filter(|name| !own.names.contains(name)).cloned().collect(),
        misnamed: misnamed(&own.common_name).then(|| own.common_name.clone()),
        trust: rotation::trust_of(secret),
        trusted: trusted.into_iter().map(|known| known.fingerprint).collect(),
    })
}

/// Whether a leaf has a reserved name that is another one's, or not the one that is its own.
pub(super) fn is_misnamed(name: &str, leaf: Leaf) -> bool {
    (name == PEER_NAME) != (leaf == Leaf::Peer) || (name == ROOT_USER) != (leaf == Leaf::Operator)
}

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

fn has_key(secret: &Secret) -> Result<(), String> {
    entry(secret, KEY).map(drop).ok_or_else(|| format!("it has no {KEY}"))
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
        let minted = super::is_minted(&self.common_name);
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
