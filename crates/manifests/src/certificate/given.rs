//! An authority of clients that somebody else made. It is copied into the cluster's own Secret, so that nothing ends with what the spec names.
//!
//! - `tls.providerCfg.autoCfg.caBundleSecret` names one that signs: here
//! - `issued`: `tls.provider` names one without its key, by the leaves that somebody else has it sign
//!
//! Who may edit an EtcdCluster need not have the right to read a Secret. So a Secret says itself, by the label of the cluster, that this one may
//! use it; by the same label it is watched.

pub(crate) mod issued;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::{TlsProvider, TlsSpec};
use quorate_api::keys;
use quorate_model::snapshot::{Authority, GivenAuthority};
use quorate_model::{ClusterRef, Fingerprint, Leaf};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use super::read::{Parsed, parse_der, pem_of};
use super::{CERT, KEY, KeyPair, entry, private_key};
use crate::credentials;
use crate::kind::Kind;

/// The Secrets that the spec takes certificates or their authority from.
pub(crate) fn secret_names(at: &ClusterRef, tls: &TlsSpec) -> Vec<String> {
    let issued = Leaf::ALL.into_iter().filter_map(|leaf| issued::secret_name(leaf, at, tls));
    name(tls).map(str::to_owned).into_iter().chain(issued).filter(|name| !name.is_empty()).collect()
}

/// The name of the Secret that the spec names.
fn name(tls: &TlsSpec) -> Option<&str> {
    match tls.provider {
        TlsProvider::Auto => tls.auto()?.ca_bundle_secret.as_deref().filter(|name| !name.is_empty()),
        TlsProvider::Secrets | TlsProvider::CertManager | TlsProvider::Disabled => None,
    }
}

/// What the spec says of where an authority comes from, and what is there.
pub(super) fn read(secrets: &[&Secret], at: &ClusterRef, tls: &TlsSpec) -> Option<GivenAuthority> {
    let Some(name) = name(tls) else { return issued::read(secrets, at, tls) };
    let content = find(secrets, at, name).and_then(authority);
    Some(GivenAuthority {
        secret: Kind::Secret.called(&at.namespace, name),
        content,
        leaves: BTreeMap::new(),
        issuer_says: None,
    })
}

/// The certificate and the key of the given authority, if it is still this one.
pub(crate) fn copy(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    given: &Fingerprint,
) -> Option<KeyPair> {
    let Some(name) = name(tls) else { return issued::copy(secrets, at, tls, given) };
    let secret = find(secrets, at, name).ok()?;
    authority(secret).ok().filter(|found| found.fingerprint == *given)?;
    // Alone: who else is in its chain signs for nobody here.
    let cert = pem_of(&first(secret).ok()?);
    Some(KeyPair { cert, key: String::from_utf8_lossy(entry(secret, KEY)?).into_owned() })
}

/// The Secret of this name, if it says that this cluster may use it.
fn find<'a>(secrets: &[&'a Secret], at: &ClusterRef, name: &str) -> Result<&'a Secret, String> {
    // They have the label. One of them holds the key of peers.
    if credentials::own_secrets(at).iter().any(|own| own == name) {
        return Err("it is a Secret of the cluster's own".to_owned());
    }
    let says_so = |secret: &Secret| {
        let labels = secret.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(keys::CLUSTER)) == Some(&at.name)
    };
    let mut named = secrets.iter().copied();
    let found = named.find(|secret| secret.metadata.name.as_deref() == Some(name) && says_so(secret));
    found.ok_or_else(|| {
        format!(
            "it does not exist, or lacks the label {}={}, by which it says that this cluster may use it",
            keys::CLUSTER,
            at.name
        )
    })
}

/// The first certificate (DER). What follows it is its chain.
fn first(secret: &Secret) -> Result<Vec<u8>, String> {
    let pem = entry(secret, CERT).ok_or_else(|| format!("it has no {CERT}"))?;
    let mut blocks = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let block = blocks.find(|block| block.label == "CERTIFICATE");
    block.map(|block| block.contents).ok_or_else(|| format!("{CERT} has no certificate that can be read"))
}

/// The authority, if everybody who verifies would accept what a copy of it signs.
fn authority(secret: &Secret) -> Result<Authority, String> {
    let der = first(secret)?;
    let parsed = judged(&der)?;
    let key = entry(secret, KEY).ok_or_else(|| format!("it has no {KEY}"))?;
    private_key::fits(key, &parsed.public_key)?;
    Ok(parsed.into_authority(false))
}

/// The certificate of an authority (DER), if everybody who verifies would accept what it signs.
fn judged(der: &[u8]) -> Result<Parsed, String> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|error| format!("{CERT} is not readable: {error}"))?;
    if !certificate.is_ca() {
        return Err(format!(
            "the certificate in {CERT} is not one of an authority (basicConstraints CA:TRUE)"
        ));
    }
    if certificate.subject().iter().next().is_none() {
        return Err("its subject is empty, and by that verifiers find it".to_owned());
    }
    let mut has_identifier = false;
    for extension in certificate.iter_extensions() {
        match extension.parsed_extension() {
            ParsedExtension::KeyUsage(usage) if !usage.key_cert_sign() => {
                return Err("its keyUsage lacks keyCertSign".to_owned());
            }
            ParsedExtension::ExtendedKeyUsage(usage)
                if !(usage.any || usage.server_auth && usage.client_auth) =>
            {
                return Err("its extendedKeyUsage keeps what it signs from being a server's and a client's"
                    .to_owned());
            }
            ParsedExtension::BasicConstraints(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::ExtendedKeyUsage(_) => {}
            ParsedExtension::SubjectKeyIdentifier(_) => has_identifier = true,
            ParsedExtension::NameConstraints(_) => {
                return Err(
                    "it has nameConstraints, and the names of members are not among those of any".to_owned()
                );
            }
            _ if extension.critical => {
                return Err(format!(
                    "it has the critical extension {}, which verifiers may not know",
                    extension.oid
                ));
            }
            _ => {}
        }
    }
    if !has_identifier {
        return Err("it has no subjectKeyIdentifier, by which it is told what it signed".to_owned());
    }
    parse_der(der).ok_or_else(|| format!("{CERT} is not readable"))
}
