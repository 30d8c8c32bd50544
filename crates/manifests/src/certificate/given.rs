//! An authority of clients that somebody else made. It is copied into the cluster's own Secret, so that nothing ends with what the spec names.
//!
//! - `tls.providerCfg.autoCfg.caBundleSecret` names one that signs: here
//! - `issued`: `tls.provider` names one without its key, by the leaves that somebody else has it sign
//!
//! Who may edit an EtcdCluster need not have the right to read a Secret. So a Secret says itself, by the label of the cluster, that this one may
//! use it; by the same label it is watched.

pub(crate) mod issued;
pub(crate) mod staged;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use quorate_api::cluster::{TlsProvider, TlsSpec};
use quorate_api::keys;
use quorate_model::snapshot::GivenAuthority;
use quorate_model::{ClusterRef, Fingerprint, Leaf};

use super::kinds::{CA, CERT, KEY, KeyPair, entry};
use super::parsed::{Parsed, certificates, pem_of};
use super::private_key;
use super::verify::Verifier;
use crate::kind::Kind;
use crate::names;

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
pub(crate) fn read(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    verifier: Verifier,
) -> Option<GivenAuthority> {
    let Some(name) = name(tls) else { return issued::read(secrets, at, tls, verifier) };
    let content = find(secrets, at, name).and_then(|secret| authority(secret, verifier));
    Some(GivenAuthority {
        secret: Kind::Secret.called(&at.namespace, name),
        content: content.map(|found| found.into_authority(false)),
        leaves: BTreeMap::new(),
        issuer_says: None,
    })
}

/// The certificate and the key of the given authority, if it is still this one.
pub(crate) fn copy(
    secrets: &[&Secret],
    at: &ClusterRef,
    tls: &TlsSpec,
    (given, verifier): (&Fingerprint, Verifier),
) -> Option<KeyPair> {
    let Some(name) = name(tls) else { return issued::copy(secrets, at, tls, (given, verifier)) };
    let secret = find(secrets, at, name).ok()?;
    let found = authority(secret, verifier).ok().filter(|found| found.fingerprint == *given)?;
    // Alone: who else is in its chain signs for nobody here.
    Some(KeyPair { cert: pem_of(&found.der), key: String::from_utf8_lossy(entry(secret, KEY)?).into_owned() })
}

/// The Secret of this name, if it says that this cluster may use it.
fn find<'a>(secrets: &[&'a Secret], at: &ClusterRef, name: &str) -> Result<&'a Secret, String> {
    // They have the label. One of them holds the key of peers.
    if names::own_secrets(at).iter().any(|own| own == name) {
        return Err("it is a Secret of the cluster's own".to_owned());
    }
    let says_so = |secret: &Secret| {
        let labels = secret.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(keys::CLUSTER)) == Some(&at.name)
    };
    let mut named = secrets.iter().copied();
    let found = named.find(|secret| secret.metadata.name.as_deref() == Some(name) && says_so(secret));
    let found = found.ok_or_else(|| {
        format!(
            "it does not exist, or lacks the label {}={}, by which it says that this cluster may use it",
            keys::CLUSTER,
            at.name
        )
    })?;
    let is_of_user = |labels: &BTreeMap<String, String>| labels.contains_key(keys::USER);
    if found.metadata.labels.as_ref().is_some_and(is_of_user) {
        return Err("it is the Secret of an EtcdUser".to_owned());
    }
    // Go does not find the PEM that follows it.
    let is_marked = |key: &&str| entry(found, key).is_some_and(|entry| entry.starts_with(b"\xef\xbb\xbf"));
    match [CERT, KEY, CA].into_iter().find(is_marked) {
        Some(key) => Err(format!("its {key} begins with a byte order mark: write it as plain ASCII")),
        None => Ok(found),
    }
}

/// The authority that comes first, if everybody who verifies would accept what a copy of it signs. What follows it is its chain.
fn authority(secret: &Secret, verifier: Verifier) -> Result<Parsed, String> {
    let found = certificates(secret, CERT)?.remove(0);
    if !found.is_authority {
        return Err(format!(
            "the certificate in {CERT} is not one of an authority (basicConstraints CA:TRUE)"
        ));
    }
    judged(&found)?;
    if found.has_name_constraints {
        return Err("it has nameConstraints, and the names of members are not among those of any".to_owned());
    }
    if found.own_key.is_none() {
        return Err("it has no subjectKeyIdentifier, by which it is told what it signed".to_owned());
    }
    verifier.judge(&found.der, None)?;
    let key = entry(secret, KEY).ok_or_else(|| format!("it has no {KEY}"))?;
    private_key::fits(key, &found.public_key)?;
    Ok(found)
}

/// A subject of no parts (DER).
const EMPTY: [u8; 2] = [0x30, 0];

/// What etcd asks of the authority that it trusts, and the operator's verifier does not.
fn judged(authority: &Parsed) -> Result<(), String> {
    if authority.subject == EMPTY {
        return Err("the subject of the authority is empty, and by that verifiers find it".to_owned());
    }
    if let Some(critical) = &authority.critical {
        return Err(format!(
            "the authority has the critical extension {critical}, which verifiers may not know"
        ));
    }
    if !authority.signs_certificates {
        return Err("the keyUsage of the authority lacks keyCertSign".to_owned());
    }
    if !(authority.server && authority.client) {
        return Err(
            "the extendedKeyUsage of the authority keeps what it signs from being a server's and a client's"
                .to_owned(),
        );
    }
    Ok(())
}
